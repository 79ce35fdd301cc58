"""The command line: `holdstrue check`, `init`, `apply`, `violations`, `status`, `explain` and `rules`."""
