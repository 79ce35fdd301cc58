"""A state on disk: numbered manifests and the immutable runs that they name."""
