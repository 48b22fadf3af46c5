"""nnefc on modules of PyTorch, against PyTorch's own ways to run them and OpenVINO."""
