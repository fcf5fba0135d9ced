"""Decides how a network is quantized: ranges, rounding, biases, equalization and widths, tried and measured by one engine."""
