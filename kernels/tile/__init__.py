"""Building blocks of kernels: register tiles, panels, epilogues, pieces of planes."""
