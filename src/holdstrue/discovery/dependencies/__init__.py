"""Keys, functional dependencies and conditional ones: by partitions, agree sets and validation."""
