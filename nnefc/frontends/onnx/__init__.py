"""The front end of ONNX: read a model, evaluate its nodes into a graph."""
