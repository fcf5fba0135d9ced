"""Rules decide what becomes integers; the transform puts the brackets."""
