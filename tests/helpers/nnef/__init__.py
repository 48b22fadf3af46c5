"""Documents and containers: random, hostile and conformance cases."""
