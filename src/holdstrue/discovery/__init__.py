"""Rules found in data, and kept current as it changes."""
