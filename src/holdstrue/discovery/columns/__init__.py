"""Rules about one column: what its values are, which form they have, between which bounds they lie."""
