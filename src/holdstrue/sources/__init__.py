"""Reading data and changes: files, tables, change feeds."""
