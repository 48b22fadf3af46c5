"""Passes that compute constants and fold factors into weights."""
