"""Comparison of OpenVX layers with Khronos' sample implementation."""
