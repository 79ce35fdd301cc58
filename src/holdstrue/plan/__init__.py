"""From rules and column types to what the detectors must do, as plain data that explains itself."""
