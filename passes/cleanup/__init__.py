"""Passes that remove, merge or move operations."""
