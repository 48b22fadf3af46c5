"""PyTorch modules to export, and comparison of compiled exports with PyTorch."""
