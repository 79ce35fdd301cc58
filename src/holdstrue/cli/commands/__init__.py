"""One file a command; each imports what it needs when it runs, so that help is quick."""
