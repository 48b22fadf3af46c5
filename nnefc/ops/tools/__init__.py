"""The table of operations and the code that reads it: builder, reference, cost, samples, docs."""
