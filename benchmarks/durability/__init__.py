"""What it costs to keep a monitor's state on disk, part by part (see `durable.py`)."""
