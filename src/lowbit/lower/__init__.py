"""From Q/DQ graphs to integer graphs."""

from lowbit.lower.integer import Island, Lowered, lower

__all__ = ["Island", "Lowered", "lower"]
