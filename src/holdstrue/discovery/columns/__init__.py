"""Rules about single columns."""
