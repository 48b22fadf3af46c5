"""BLAKE2b, the hash function of cache keys and checksums.

It is imported from the extension module: `hashlib` loads OpenSSL first, which takes as long as
loading a model.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b"]
