"""Better numbers for the same bits: ranges, rounding, biases, equalization, widths, and the guard that tries and measures them."""
