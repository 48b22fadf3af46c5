"""Archives: tar, compressed tar and zip, which are read without trust in their members."""
