"""The machine lowbit runs on: facts (`Hardware.detect`), a short measurement, and hints that follow from both."""

from lowbit.hardware.gpu import Gpu
from lowbit.hardware.hints import Hint, Hints
from lowbit.hardware.machine import Hardware
from lowbit.hardware.measure import Bandwidth, Case, Measurement, Product
from lowbit.hardware.problems import Problem
from lowbit.hardware.system import Cache

__all__ = ["Bandwidth", "Cache", "Case", "Gpu", "Hardware", "Hint", "Hints", "Measurement", "Problem", "Product"]
