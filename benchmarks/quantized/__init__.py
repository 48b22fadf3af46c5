"""Networks of the zoo, quantized by onnxruntime's tools, in engines that compute on their codes."""
