"""Feeds machine-learning training from ArrayRecord shards."""
