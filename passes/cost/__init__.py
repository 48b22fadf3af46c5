"""Cost models, which estimate the time of operations and graphs."""
