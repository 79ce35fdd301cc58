"""A small shop to try the commands on: three tables, rules, and a week of changes with errors in it."""
