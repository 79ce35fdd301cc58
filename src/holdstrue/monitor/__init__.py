"""The monitor: rules over tables that change, what each batch broke and mended, and who does the work."""
