"""Passes that depend on the machine: layouts, convolution algorithms, stages of a batch."""
