"""Recurrent layers: activations, cells, and the loop over time."""
