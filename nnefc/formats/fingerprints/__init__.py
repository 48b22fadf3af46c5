"""Whether the files of a document have changed: their digests, and what their status tells."""
