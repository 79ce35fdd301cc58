"""Compiled loops over plain arrays; nothing here knows of rules, tables or files."""
