"""The operators of TensorFlow Lite, a module per kind."""
