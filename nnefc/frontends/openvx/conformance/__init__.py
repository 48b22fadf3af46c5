"""Layers as the reference functions of Khronos' conformance suite compute them.

Layers that have no module here are computed as the text says.
"""
