"""The look and the program of the live pages, beside those that they share with the report."""
