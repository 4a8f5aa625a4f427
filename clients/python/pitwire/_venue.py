"""A venue in the process."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING

import numpy.typing as npt

from pitwire._arrays import whole_numbers
from pitwire._native import Market
from pitwire._types import (
    Balance,
    BatchOutcome,
    Book,
    Instrument,
    Number,
    OpenOrder,
    exact,
    find_instrument,
    whole_steps,
)
from pitwire.errors import InvalidValue
from pitwire.events import EventTable

if TYPE_CHECKING:
    from pitwire._agents import ConnectedAgents
    from pitwire._connected import ConnectedVenue

#: Smallest units of a currency that one deposit moves at most. Sums of many stay below 128 bits.
_MAX_UNITS = 10**30


class Venue(Market):
    """A venue in this process: an engine, a schedule, and an order flow from a seed.

    `preset` is "demo", "jse" or "crypto24x7". `flow` is a name that `pitwire flow list` prints, the
    path of a flow file, or None for a market without order flow. `data` is an empty directory for
    the journal. `record` keeps up to `max_events` events for `events()`; a row takes 67 bytes.
    Without `tape_hash` the market is faster and has no tape hash.

    Prices are whole ticks, amounts are whole lots, and times are nanoseconds since 1970. One thread
    of one process uses it at a time.
    """

    _instruments_by_name: dict[str, Instrument] | None = None

    @classmethod
    def connect(
        cls,
        url: str,
        key: str | None = None,
        secret: str | None = None,
        *,
        authority: str | PathLike[str] | None = None,
        timeout_s: float = 10.0,
    ) -> ConnectedVenue:
        """Connects to a running venue, such as ws://127.0.0.1:8080/ws/api/v2.

        `authority` is a PEM file to trust for wss://. `timeout_s` is the longest wait for an answer,
        in seconds. The connection is made again after a cut.
        """
        from pitwire._connected import ConnectedVenue

        return ConnectedVenue(url, key, secret, authority=authority, timeout_s=timeout_s)

    @classmethod
    def connect_agents(
        cls,
        url: str,
        logins: Mapping[str, tuple[str, str]],
        *,
        authority: str | PathLike[str] | None = None,
        timeout_s: float = 10.0,
    ) -> ConnectedAgents:
        """Connects many agents to a running venue over one connection.

        `logins` has the key and the secret of each agent by its name, and each agent has an account
        of its own. The other arguments are those of `connect`.
        """
        from pitwire._agents import ConnectedAgents

        return ConnectedAgents(url, logins, authority=authority, timeout_s=timeout_s)

    @property
    def instruments(self) -> dict[str, Instrument]:
        """The instruments by name."""
        if self._instruments_by_name is None:
            self._instruments_by_name = {
                name: Instrument(id, name, Decimal(tick), Decimal(lot), start, base, quote, kind)
                for id, name, tick, lot, start, base, quote, kind in self._instruments()
            }
        return self._instruments_by_name

    def instrument(self, name: str | int) -> Instrument:
        """Returns an instrument by name or id."""
        return find_instrument(self.instruments, name)

    def book(self, instrument: str | int, depth: int | None = None) -> Book:
        """Returns the displayed book. `depth` bounds the levels of each side."""
        return Book(*self._book(instrument, depth))

    def events(self) -> EventTable:
        """Returns the events since the last call and forgets them. The arrays are not copied."""
        return EventTable(self._take_events())

    def submit_batch(
        self,
        instrument: npt.ArrayLike,
        side: npt.ArrayLike = 0,
        lots: npt.ArrayLike = 0,
        price_ticks: npt.ArrayLike = 0,
        *,
        account: npt.ArrayLike = 0,
        action: npt.ArrayLike = 0,
        order_id: npt.ArrayLike = 0,
        tif: str = "gtc",
    ) -> BatchOutcome:
        """Executes many commands at the current time, in order of rows.

        Each argument is one whole number for all rows or an array: ids of instruments and accounts,
        sides 1 and -1, lots, prices in ticks. A price of 0 enters a market order. `action` is 0 to
        enter, 1 to cancel `order_id`, and 2 to amend it; an amend with 0 lots or price keeps them.
        Row k executes as command `Venue.sequence + 1 + k`, which is also the id of a new order.
        The arrays are checked before the first row is executed.
        """
        columns = {
            "action": action,
            "instrument": instrument,
            "account": account,
            "side": side,
            "lots": lots,
            "price_ticks": price_ticks,
            "order_id": order_id,
        }
        arrays = [whole_numbers(name, values) for name, values in columns.items()]
        return BatchOutcome(**self._submit_columns(*arrays, tif))

    def add_account(self, name: str, *, balances: Mapping[str, Number] | None = None, unlimited: bool = False) -> int:
        """Adds an account and returns its id. With `unlimited` no order needs funds."""
        account = self._add_account(name, unlimited)
        for currency, amount in (balances or {}).items():
            self.deposit(account, currency, amount)
        return account

    def deposit(self, account: str | int, currency: str, amount: Number) -> None:
        """Deposits an amount of a currency; a negative one withdraws."""
        decimals = self._balance(account, currency)[2]
        units = whole_steps(exact("amount", amount), Decimal(1).scaleb(-decimals))
        if units is None:
            raise InvalidValue(f"amount {amount} has too many decimals", f"{currency} has {decimals} decimals")
        if abs(units) > _MAX_UNITS:
            raise InvalidValue(f"amount is {amount}", f"use at most {Decimal(_MAX_UNITS).scaleb(-decimals):f}")
        self._deposit(account, currency, units)

    def balance(self, account: str | int, currency: str) -> Balance:
        """Returns the balance of an account."""
        total, available, decimals = self._balance(account, currency)
        # Texts are exact; the operations of Decimal round to 28 digits.
        return Balance(Decimal(f"{total}e-{decimals}"), Decimal(f"{available}e-{decimals}"))

    def orders(self, account: str | int = 0) -> list[OpenOrder]:
        """Returns the live orders of an account, oldest first."""
        names = {instrument.id: name for name, instrument in self.instruments.items()}
        return [OpenOrder(id, names[at], side, price, lots) for id, at, side, price, lots in self._orders(account)]

    def __enter__(self) -> Venue:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()
