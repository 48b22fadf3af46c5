"""Benchmarks of single operations: `pytest benchmarks/kernels`."""
