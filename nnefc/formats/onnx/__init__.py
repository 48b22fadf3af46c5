"""Files of ONNX models, mapped: their structure without the weights, and the weights."""
