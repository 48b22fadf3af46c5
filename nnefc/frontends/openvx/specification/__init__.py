"""The layers with the arithmetic of the text: exact sums, one rounding, one saturation or wrap."""
