"""Passes that decide for this machine: layouts, algorithms, parts of a batch."""
