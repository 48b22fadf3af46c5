"""The operators of ONNX, a module per kind: one function per operator and range of versions."""
