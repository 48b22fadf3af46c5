"""Compile a graph to a model: run passes, lowering and the runtime in order."""
