"""Quantized NumPy arrays."""

from lowbit.qarray.core import Array as Array
from lowbit.qarray.core import QArray as QArray
from lowbit.qarray.core import array as array
from lowbit.qarray.core import quantize_array as quantize_array
from lowbit.qarray.create import empty as empty
from lowbit.qarray.create import full as full
from lowbit.qarray.create import quantize_int8 as quantize_int8
from lowbit.qarray.create import quantize_uint8 as quantize_uint8
from lowbit.qarray.create import zeros as zeros
from lowbit.qarray.file import load_array as load_array
from lowbit.qarray.file import save_array as save_array
