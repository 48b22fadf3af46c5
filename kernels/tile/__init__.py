"""Building blocks of kernels: register tiles, packed panels, epilogues, pieces of planes."""
