"""Documents in the dialect of tract, from graphs."""
