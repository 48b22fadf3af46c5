"""Code and data layout of models embedded in C programs."""
