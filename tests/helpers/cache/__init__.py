"""Cache folders, their entries, and the processes that fill them."""
