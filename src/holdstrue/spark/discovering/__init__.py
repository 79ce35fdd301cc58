"""Rules found where the data lies: the driver holds samples, counts and candidates only."""
