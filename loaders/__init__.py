"""Batches out: plan, collate, prefetch, state. Imports datasource and samplers."""
