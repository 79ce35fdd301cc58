"""Checks that Spark's own optimiser runs: filters, aggregations and joins over data frames, and no Python worker."""
