"""Denial constraints from evidences of row pairs (paper 001): counted, or fetched through indexes."""
