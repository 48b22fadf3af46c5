"""The front end of TensorFlow Lite: models become graphs."""
