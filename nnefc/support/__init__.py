"""Code without dependencies for every package: errors, limits, item types, digests."""
