"""A width for each layer: `search` finds the cheapest network that keeps the score."""
