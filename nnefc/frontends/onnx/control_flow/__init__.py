"""Subgraphs of nodes: branches and loops."""
