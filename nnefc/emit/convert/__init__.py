"""Write a model in another format: NNEF documents and ONNX files from graphs."""
