"""The command line: `holdstrue check`, `init`, `apply`, `watch`, `violations`, `status`, `explain` and `rules`."""
