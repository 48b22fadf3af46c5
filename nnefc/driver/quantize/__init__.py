"""Post-training quantization: from a graph of reals and samples to a graph with codes."""
