"""Questions about graphs that several passes ask; nothing here rewrites."""
