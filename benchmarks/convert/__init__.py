"""Networks as ONNX files and as PyTorch modules, for other engines."""
