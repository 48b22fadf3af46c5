"""`nnefc bench`: measure calls and cold starts, compare with earlier results."""
