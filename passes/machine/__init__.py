"""Passes that decide for this machine: layouts, algorithms, stages of a batch."""
