"""Measures language models in turns with llama.cpp: each engine in a process of its own, which waits while the other runs."""
