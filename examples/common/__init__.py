"""What the four trained networks share: their data, the loop that may be interrupted, their weights on disk."""
