"""The table of operations and its users: builder, reference, cost, samples, pages."""
