"""Ways out: files that other programs read."""
