"""Calibration: observers learn ranges from data, in fixed memory, mergeable over processes and machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import ArrayLike

from lowbit.arguments import items
from lowbit.calibration.observers import METHODS as METHODS
from lowbit.calibration.observers import AdaptiveObserver as AdaptiveObserver
from lowbit.calibration.observers import EntropyObserver as EntropyObserver
from lowbit.calibration.observers import MinMaxObserver as MinMaxObserver
from lowbit.calibration.observers import MovingAverageMinMaxObserver as MovingAverageMinMaxObserver
from lowbit.calibration.observers import MSEObserver as MSEObserver
from lowbit.calibration.observers import Observer as Observer
from lowbit.calibration.observers import PercentileObserver as PercentileObserver
from lowbit.calibration.observers import make_observer as make_observer
from lowbit.calibration.observers import observer_from_dict as observer_from_dict
from lowbit.calibration.own_method import register_method as register_method
from lowbit.dtypes import DType
from lowbit.quant_params import QuantParams, Scheme


def calibrate_from_samples(
    samples: Iterable[ArrayLike],
    dtype: str | DType,
    method: str | Callable[[Any], Any] = "minmax",
    *,
    scheme: Scheme | None = None,
    **options: Any,
) -> QuantParams:
    """Parameters for arrays like the samples, which are seen one by one (an array is seen along its first axis).

    >>> calibrate_from_samples([[0.0, 1.0], [2.0, 4.0]], "uint8")
    QuantParams(uint8, asymmetric, per tensor, scale=0.0156863, zero_point=0)
    """
    observer = make_observer(method, **options)
    for sample in items("samples", samples, "[array, …], or an array with samples along its first axis"):
        observer.observe(sample)
    return observer.params(dtype, scheme)
