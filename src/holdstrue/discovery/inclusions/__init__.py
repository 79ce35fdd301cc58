"""Inclusion dependencies among the columns of any number of tables (paper 004), found and kept current."""
