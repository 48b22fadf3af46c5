"""Cases of ONNX's own backend tests, and comparisons with them."""
