"""Regions of images: pooling of regions of interest, deformable windows, and blocks."""
