"""Passes over loops (`scan`)."""
