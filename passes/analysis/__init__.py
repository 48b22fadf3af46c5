"""Analyses of graphs that several passes use."""
