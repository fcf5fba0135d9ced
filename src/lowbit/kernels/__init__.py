"""The registry of compiled kernels: which there are, how one is called, where its C source is."""
