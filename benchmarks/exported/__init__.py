"""Networks of PyTorch, as torch_to_nnef and PyTorch's exporter of ONNX write them."""
