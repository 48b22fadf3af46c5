"""Element-wise kernels: `parameters` (iteration space), `loops`, `copy`, `map` (families)."""
