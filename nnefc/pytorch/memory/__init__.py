"""The memory of inputs that a graph changes, or extends, such as keys and values of caches."""
