"""PyTorch networks, exported by torch_to_nnef and by PyTorch's ONNX exporter."""
