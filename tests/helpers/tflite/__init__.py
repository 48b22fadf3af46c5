"""TensorFlow Lite models for tests."""
