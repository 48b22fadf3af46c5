"""Fourier transforms: `transform` drives `stages`; `lanes` moves signals into vectors."""
