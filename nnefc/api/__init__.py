"""The Python interface: import, compile, check and save models.  Start with `compile`."""
