"""Models for programs in C: an object, a header, weights, an example.  See docs/design/c.md."""
