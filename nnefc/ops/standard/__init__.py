"""The operations of NNEF 1.0.2 and its later standard library, by section."""
