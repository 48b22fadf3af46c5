"""The command `nnefc convert`."""
