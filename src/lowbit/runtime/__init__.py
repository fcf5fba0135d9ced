"""Running a graph natively: the compiled kernels, and plans of calls to them."""
