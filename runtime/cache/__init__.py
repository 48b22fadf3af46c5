"""Object code and weights on disk: keys, entries, the folder and its limits."""
