"""What is measured: each scenario takes settings and gives tables and records."""
