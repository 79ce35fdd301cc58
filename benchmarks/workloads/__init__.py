"""Seeded tables of any size, and the rules that the papers check on them."""
