"""Fourier transforms: `transform` runs `stages`; `lanes` moves signals into vectors."""
