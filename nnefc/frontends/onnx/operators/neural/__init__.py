"""Layers of neural networks: convolutions, products, normalisations, recurrence, attention."""
