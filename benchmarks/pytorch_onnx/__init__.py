"""Networks exported from PyTorch to ONNX, checked against PyTorch."""
