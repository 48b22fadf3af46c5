"""Code that every front end needs: values, symbols, operation builder, limits."""
