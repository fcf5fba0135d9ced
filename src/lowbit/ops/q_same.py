"""Ops that mean the same on integers as on reals, as long as all sides share their parameters: movement, maxima, comparison of order.

They need no integer op of their own: lower/integer.py puts the very same op on the integers. A pad's value becomes the zero point.
"""

from __future__ import annotations

from lowbit.ops.quant import QuantSpec, quantizes

_FIRST = "reshape transpose split slice expand tile flip roll pad depth_to_space space_to_depth identity max_pool adaptive_max_pool"
_SECOND = "gather gather_elements gather_nd reverse_sequence reduce_max reduce_min"  # further inputs are indices or lengths

for _op in (*_FIRST.split(), *_SECOND.split()):
    quantizes(_op, QuantSpec((0,), output="same"))
for _op in ("concat", "maximum", "minimum"):
    quantizes(_op, QuantSpec(None, output="same"))
quantizes("where", QuantSpec((1, 2), output="same"))
