"""Suspects of data frames: rows go to tasks that hold whole groups of them, and what is found stays on Spark."""
