"""The file of an artifact: its layout, how it is written and read."""
