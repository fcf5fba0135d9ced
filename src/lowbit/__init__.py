"""lowbit: few-bit networks, exact everywhere."""
