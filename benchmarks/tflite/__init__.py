"""TensorFlow Lite networks, in nnefc and in LiteRT with XNNPACK."""
