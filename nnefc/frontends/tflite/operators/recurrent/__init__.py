"""Recurrent layers of reals."""
