"""The resources of this machine: processors, memory, caches, measured limits."""
