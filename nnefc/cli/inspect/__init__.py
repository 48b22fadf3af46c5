"""`nnefc inspect`: tables and pictures of a model."""
