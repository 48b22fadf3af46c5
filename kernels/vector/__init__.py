"""Python classes with which kernels write SIMD code: `lanes`, `lane_builder`, `vector_builder`."""
