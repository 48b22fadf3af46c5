"""Windows over spatial dimensions: pooling, sliding windows, sampling, regions, up-sampling."""
