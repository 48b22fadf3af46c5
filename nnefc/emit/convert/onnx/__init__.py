"""Write graphs as ONNX models."""
