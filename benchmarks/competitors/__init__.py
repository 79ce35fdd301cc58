"""The systems that are compared, behind one set of verbs."""
