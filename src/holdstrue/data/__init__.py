"""Values as comparable codes, changes, and violations."""
