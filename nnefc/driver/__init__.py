"""From a graph to a compiled model: runs passes, lowering and the runtime in order."""
