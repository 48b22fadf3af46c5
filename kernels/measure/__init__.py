"""Kernels that measure the machine: `limits` (peak and bandwidth), `probe` (times of tiles)."""
