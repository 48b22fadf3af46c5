"""`nnefc quantize`: quantize a model after training, and measure the noise of its layers."""
