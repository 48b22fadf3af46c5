"""Kernels to executable memory: compiler, worker processes, support code."""
