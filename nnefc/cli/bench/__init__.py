"""`nnefc bench`: `command` measures, `tables` and `comparison` print."""
