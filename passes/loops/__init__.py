"""Passes that rewrite loops (`scan`)."""
