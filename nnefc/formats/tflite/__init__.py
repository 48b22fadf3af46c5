"""TensorFlow Lite files: the schema, the verified model, weights as views of the mapped file."""
