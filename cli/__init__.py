"""A thin command line over the public API."""
