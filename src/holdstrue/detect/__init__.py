"""Finding violations: one detector for each shape of check, and the monitor that keeps them current."""
