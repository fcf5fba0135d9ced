"""Rules decide which layers become integers; the transform inserts the Q/DQ brackets."""
