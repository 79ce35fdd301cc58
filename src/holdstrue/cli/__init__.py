"""The command line: what is imported here is quick to import; each command fetches the rest when it runs."""
