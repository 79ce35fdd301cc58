"""Mutable structures over rows, each with the same few verbs: insert, remove, probe, count, snapshot, restore."""
