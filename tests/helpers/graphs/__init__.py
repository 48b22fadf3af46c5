"""Graphs: random ones, loops, recurrent and dynamic models."""
