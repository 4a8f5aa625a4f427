"""Instruments, books and the results of calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from operator import index
from os import fspath
from typing import Any, NamedTuple, SupportsIndex, TypedDict

import numpy as np
import numpy.typing as npt

from pitwire._native import REASONS
from pitwire.errors import InvalidValue, UnknownName

Number = int | float | str | Decimal
#: Largest power of ten of a number that is converted. Every price and amount is far below it.
_MAX_EXPONENT = 30


def exact(name: str, value: Number) -> Decimal:
    """Returns a finite number as the decimal that its text shows."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise InvalidValue(f"{name} is {value!r}", "use a number such as 12.5 or its text") from None
    if not number.is_finite():
        raise InvalidValue(f"{name} is {value!r}", "use a finite number")
    if abs(number.adjusted()) > _MAX_EXPONENT and number:
        raise InvalidValue(f"{name} is {value!r}", f"use a number of at most {_MAX_EXPONENT} digits")
    return number


def whole_steps(number: Decimal, step: Decimal) -> int | None:
    """Returns how many steps make a number, or None if no whole number does."""
    (above, below), (step_above, step_below) = number.as_integer_ratio(), step.as_integer_ratio()
    steps, rest = divmod(above * step_below, below * step_above)
    return None if rest else steps


def whole(name: str, value: SupportsIndex) -> int:
    """Returns a whole number as an int."""
    try:
        return index(value)
    except TypeError:
        raise InvalidValue(f"{name} is {value!r}", "use a whole number") from None


def check_least(name: str, value: SupportsIndex, least: int) -> None:
    """Raises InvalidValue unless `value` is a whole number from `least`."""
    if whole(name, value) < least:
        raise InvalidValue(f"{name} is {value}", f"use a number from {least}")


def text(name: str, value: Any) -> str:
    """Returns a text. Raises InvalidValue for another type."""
    if not isinstance(value, str):
        raise InvalidValue(f"{name} is {value!r}", "use a text")
    return value


def flag(name: str, value: Any) -> bool:
    """Returns a truth value. Raises InvalidValue for another type."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidValue(f"{name} is {value!r}", "use True or False")
    return bool(value)


def path_text(name: str, value: Any) -> str:
    """Returns the text of a path. Raises InvalidValue for another type."""
    try:
        return text(name, fspath(value))
    except TypeError:
        raise InvalidValue(f"{name} is {value!r}", "use a text or a path") from None


class OrderTerms(TypedDict, total=False):
    """Optional terms of an order; see `Venue.submit`."""

    tif: str | None
    expires_ns: SupportsIndex | None
    post_only: str | None
    display_lots: SupportsIndex | None
    stop_ticks: SupportsIndex | None
    hidden: bool
    min_execution_lots: SupportsIndex | None
    reduce_only: bool
    label: str


@dataclass(frozen=True)
class Instrument:
    """An instrument. Orders are in whole ticks and whole lots."""

    id: int
    name: str
    #: Price of one tick, in quote currency.
    tick: Decimal
    #: Size of one lot: in base currency for spot, in quote currency for a perpetual.
    lot: Decimal
    #: Price before the first trade, in ticks; 0 if a connected venue does not state it.
    start_price_ticks: int
    base: str
    quote: str
    #: "spot" or "inverse_perpetual".
    kind: str

    def ticks(self, price: Number) -> int:
        """Converts a price in quote currency to ticks. Raises InvalidValue if it is between
        ticks."""
        return self._steps("price", price, self.tick, "tick")

    def lots(self, amount: Number) -> int:
        """Converts an amount to lots. Raises InvalidValue if it is not a multiple of the lot."""
        return self._steps("amount", amount, self.lot, "lot")

    def price(self, ticks: SupportsIndex) -> Decimal:
        """Returns the price of a number of ticks, in quote currency."""
        return self.tick * whole("ticks", ticks)

    def amount(self, lots: SupportsIndex) -> Decimal:
        """Returns the amount of a number of lots."""
        return self.lot * whole("lots", lots)

    def _steps(self, name: str, value: Number, step: Decimal, unit: str) -> int:
        steps = whole_steps(exact(name, value), step)
        if steps is None:
            raise InvalidValue(f"{name} {value} is not a multiple of {step}", f"round it to the {unit} of {self.name}")
        return steps


class Book(NamedTuple):
    """The displayed book of an instrument. Each row is a level: price in ticks, lots."""

    #: Best bid first.
    bids: npt.NDArray[np.int64]
    #: Best ask first.
    asks: npt.NDArray[np.int64]
    #: Venue time in nanoseconds since 1970.
    time_ns: int


class BatchOutcome(NamedTuple):
    """The results of a batch, one row per command."""

    #: Order ids of the rows.
    order_id: npt.NDArray[np.uint64]
    #: Code of the refusal; 0 for an accepted command. `reasons()` has the words.
    reason: npt.NDArray[np.uint8]
    #: Lots that the command filled.
    filled_lots: npt.NDArray[np.uint64]
    #: Open lots directly after the command.
    open_lots: npt.NDArray[np.uint64]

    @property
    def accepted(self) -> npt.NDArray[np.bool_]:
        """Whether each command was accepted."""
        return self.reason == 0

    def reasons(self) -> list[str]:
        """Returns the reason of each refusal; an empty text for an accepted command."""
        return [REASONS[code] if code < len(REASONS) else "other" for code in self.reason]


class OpenOrder(NamedTuple):
    """A live order."""

    order_id: int
    instrument: str
    #: 1 for a buy, -1 for a sell.
    side: int
    #: Limit price in ticks; 0 for a market order or a stop.
    price_ticks: int
    open_lots: int


class Balance(NamedTuple):
    """A balance in whole currency."""

    total: Decimal
    #: What new orders may use.
    available: Decimal


def find_instrument(instruments: Mapping[str, Instrument], name: str | int) -> Instrument:
    """Returns an instrument by name or id."""
    for instrument in instruments.values():
        if name == instrument.name if isinstance(name, str) else _is_id(name, instrument.id):
            return instrument
    raise UnknownName(f"there is no instrument {name!r}", "use a name or an id of Venue.instruments")


def _is_id(value: SupportsIndex, id: int) -> bool:
    try:
        return index(value) == id
    except TypeError:
        return False
