"""Finding violations: one detector for each shape of check, and the engine that runs them."""
