"""Every error that a user can cause is a LowbitError: where, what was found against what is needed, what to try."""

from __future__ import annotations

import sys
import warnings


class LowbitError(Exception):
    """Base of all errors a user can cause.

    >>> print(ShapeError("input has 3 channels, weight (16, 4, 3, 3) needs 4", where="conv 'layer1'", hint="lowbit inspect m.onnx"))
    conv 'layer1': input has 3 channels, weight (16, 4, 3, 3) needs 4.
      Try: lowbit inspect m.onnx
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message.rstrip(".")
        self.where = where
        self.hint = hint

    def at(self, where: str) -> LowbitError:
        """The same error, placed: outer places are put before inner ones. Returns self, so `raise e.at(...)` reads well."""
        self.where = where if self.where is None else f"{where}: {self.where}"
        return self

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}." if self.where else f"{self.message}."
        return f"{text}\n  Try: {self.hint}" if self.hint else text


class UnsupportedOp(LowbitError):
    """An operator, a domain or an option of one that lowbit does not have.

    >>> print(UnsupportedOp("Einsum 'abc->' is not known", where="node 7", hint="a MatMul"))
    node 7: Einsum 'abc->' is not known.
      Try: a MatMul
    """


class ShapeError(LowbitError):
    """Shapes that do not fit each other, or dims that are not known where they must be.

    >>> print(ShapeError("input has 3 channels, the weight needs 4", where="conv 'stem'"))
    conv 'stem': input has 3 channels, the weight needs 4.
    """


class DTypeError(LowbitError):
    """A dtype that an operation cannot take.

    >>> import lowbit
    >>> try:
    ...     lowbit.quantize_array([1.0], "int7")
    ... except lowbit.DTypeError as e:
    ...     print(e.message)
    dtype 'int7' is not one of lowbit's
    """


class QuantError(LowbitError):
    """Quantization parameters that are not legal, or do not fit the array they are used on.

    >>> import lowbit
    >>> try:
    ...     lowbit.QuantParams("int8", -1.0)
    ... except lowbit.QuantError as e:
    ...     print(e.message)
    scale -1.0 is not a finite positive float32 (1 of 1 are not)
    """


class CalibrationError(LowbitError):
    """Data from which no ranges can be learned: none, non-finite, or of the wrong kind.

    >>> import lowbit
    >>> try:
    ...     lowbit.params_from_data([float("nan")], "int8")
    ... except lowbit.CalibrationError as e:
    ...     print(e.message)
    the range holds NaN (1 of 1 ends)
    """


class FormatError(LowbitError):
    """A file or text that is not what it claims to be.

    >>> import lowbit
    >>> try:
    ...     lowbit.load("model.docx")
    ... except lowbit.LowbitError as e:
    ...     print(type(e).__name__)
    FormatError
    """


class GraphError(LowbitError):
    """A graph that breaks a law (use before definition, a type that contradicts its node, a cycle …).

    >>> isinstance(GraphError("used before it is defined", where="node 'y'"), LowbitError)
    True
    """


class InputError(LowbitError):
    """Arguments of a call that do not fit: a missing input, an unknown name, a wrong dtype.

    >>> import lowbit
    >>> try:
    ...     lowbit.compile(None)
    ... except lowbit.InputError as e:
    ...     print(e.message)
    NoneType given, a Graph is needed
    """


class LowbitWarning(UserWarning):
    """Something that is not wrong but hardly what was meant: a rule that matches no layer.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     warnings.warn("rule 2 matches no layer", LowbitWarning, stacklevel=1)
    >>> str(said[0].message)
    'rule 2 matches no layer'
    """


def warn(text: str) -> None:
    """Warns at the line of the caller: the nearest one outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "lowbit":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, LowbitWarning, stacklevel=level)
