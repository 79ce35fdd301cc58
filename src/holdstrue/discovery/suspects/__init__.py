"""Cells that are probably wrong: several rules, sources and forms vote on them."""
