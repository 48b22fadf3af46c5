"""Lowering of convolutions, a module per algorithm; `blocked` dispatches."""
