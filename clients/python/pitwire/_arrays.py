"""Checks of the arrays of a batch."""

import numpy as np
import numpy.typing as npt

from pitwire.errors import InvalidArray, InvalidValue


def whole_numbers(name: str, values: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Returns a column of a batch as 64-bit whole numbers; a single number is a column of one row.

    Raises InvalidArray for another type or shape, and InvalidValue for a number beyond 64 bits.
    """
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidArray(f"{name} has rows of different lengths", "use an array of one dimension") from None
    if np.ma.is_masked(values):
        raise InvalidArray(f"{name} has masked rows", "leave these rows out")
    if array.ndim > 1:
        raise InvalidArray(f"{name} has the shape {array.shape}", "use a single number, or an array of one dimension")
    if array.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(np.atleast_1d(array)))
        if wrong.size:
            raise InvalidValue(f"{name}[{wrong[0]}] is {np.atleast_1d(array)[wrong[0]]}", "use whole numbers")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        remedy = "use whole numbers, such as int64; Instrument.ticks and Instrument.lots convert"
        raise InvalidArray(f"{name} has the type {array.dtype}", remedy)
    array = np.atleast_1d(array)
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise InvalidValue(f"{name} has the value {array.max()}", f"use numbers up to {np.iinfo(np.int64).max}")
    return np.ascontiguousarray(array, dtype=np.int64)
