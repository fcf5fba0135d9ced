"""Quantized NumPy arrays."""

from lowbit.qarray.array import Array as Array
from lowbit.qarray.array import QArray as QArray
from lowbit.qarray.array import array as array
from lowbit.qarray.array import quantize_array as quantize_array
from lowbit.qarray.file import load_array as load_array
from lowbit.qarray.file import save_array as save_array
