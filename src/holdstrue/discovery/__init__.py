"""What holds in the data: rules found in tables and kept current under changes."""
