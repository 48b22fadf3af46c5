"""Options of callers, checked once."""
