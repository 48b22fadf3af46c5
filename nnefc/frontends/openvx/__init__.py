"""Layers of OpenVX: their rules, and one graph of all layers of a verified graph."""
