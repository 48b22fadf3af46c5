"""`nnefc compile`: compile, tune, explain the passes, write artifacts and C programs."""
