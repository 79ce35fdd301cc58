"""Rules found in data, and kept current as the data changes."""
