"""`nnefc compare`: compare compiled models with the float64 reference."""
