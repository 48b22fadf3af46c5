"""Cost models: estimated time of operations and graphs."""
