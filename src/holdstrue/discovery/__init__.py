"""Rules found in data, and kept current while the data change."""
