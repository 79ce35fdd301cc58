"""Reading data and changes, and the state directory: all that touches files."""
