"""A running venue, by the calls of a venue in the process."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import index
from os import PathLike
from types import TracebackType
from typing import Any, Self, SupportsIndex, Unpack

import numpy as np
import numpy.typing as npt

from pitwire._arrays import whole_numbers
from pitwire._native import EVENT_KINDS, REASONS, Connection
from pitwire._types import (
    Balance,
    BatchOutcome,
    Book,
    Instrument,
    OpenOrder,
    OrderTerms,
    find_instrument,
    flag,
    path_text,
    text,
)
from pitwire.errors import CallRefused, Interrupted, InvalidArray, InvalidValue, UnknownName, UnsupportedCall
from pitwire.events import EventTable

#: Refusals of the login or the rights of a connection, which no order can cause.
_LOGIN_CODES = {11042, 13004, 13009, 13021}
#: Venue time that one call advances at most, so that its answer comes soon.
_ADVANCE_SLICE_NS = 10 * 10**9
_MAX_DEPTH = 10_000
_DEPTHS = [1, 5, 10, 20, 50, 100, 1000, _MAX_DEPTH]
_TIMES_IN_FORCE = {
    "gtc": "good_til_cancelled",
    "day": "good_til_day",
    "ioc": "immediate_or_cancel",
    "fok": "fill_or_kill",
}
_AUCTION_TIMES = {"opg", "gfa", "gfx", "atc", "cpx"}
#: Code of a refusal for which the engine has no word.
_OTHER_REASON = 255
_COLUMNS: dict[str, type[np.generic]] = {
    "sequence": np.uint64,
    "time_ns": np.uint64,
    "kind": np.uint8,
    "instrument": np.int32,
    "account": np.int32,
    "order": np.uint64,
    "side": np.int8,
    "price_ticks": np.int64,
    "lots": np.uint64,
    "open_lots": np.uint64,
    "other_account": np.int32,
    "other_order": np.uint64,
    "reason": np.uint8,
}


@dataclass(frozen=True)
class ConnectedOutcome:
    """What became of an order by one command; see `pitwire.Outcome`."""

    order_id: int
    reason: str | None = None
    filled_lots: int = 0
    open_lots: int = 0
    mean_price_ticks: float | None = None

    @property
    def accepted(self) -> bool:
        """Whether the venue executed the command."""
        return self.reason is None


def _number(name: str, value: SupportsIndex) -> int:
    try:
        number = index(value)
    except TypeError:
        raise InvalidValue(f"{name} is {value!r}", "use a whole number; Instrument.ticks and .lots convert") from None
    if number < 0:
        raise InvalidValue(f"{name} is {number}", "use a number from 0")
    return number


def _side(side: str | SupportsIndex) -> int:
    try:
        sign = {"buy": 1, "sell": -1, 1: 1, -1: -1}.get(side)  # type: ignore[call-overload]
    except TypeError:
        sign = None
    if sign is None:
        raise InvalidValue(f"side is {side!r}", 'use "buy" or 1, or "sell" or -1')
    return int(sign)


@dataclass(frozen=True)
class Request:
    """An order, an amendment or a cancel of one agent that has not been sent yet."""

    venue: ConnectedVenue
    #: The order that it changes; 0 for a new one.
    order_id: int
    method: str
    parameters: dict[str, Any]


class ConnectionOwner:
    """A connection to a running venue that is closed after use."""

    _connection: Connection

    @property
    def is_open(self) -> bool:
        """True until `close` is called, even if the venue has ended the connection."""
        return self._connection.is_open

    def close(self) -> None:
        """Closes the connection. Orders stay. May be called again."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()


class ConnectedVenue(ConnectionOwner):
    """A connection to a running venue, with the calls of `Venue` for the account of its login."""

    #: Number of the agent on a connection that agents share.
    _agent: int | None = None

    def __init__(
        self,
        url: str,
        key: str | None = None,
        secret: str | None = None,
        *,
        authority: str | PathLike[str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self._connection = open_connection(url, key, secret, authority, timeout_s, [])
        self._orders: dict[int, tuple[int, int]] = {}
        #: The instruments by name.
        self.instruments = instruments_of(self._connection)

    def call(self, method: str, **parameters: Any) -> Any:
        """Calls a method of the JSON-RPC dialect and returns its result. Fractions are decimals."""
        return parse(self._connection.call(self._agent, text("method", method), as_json(parameters)))

    def submit(
        self,
        instrument: str | int,
        side: str | SupportsIndex,
        lots: SupportsIndex,
        price_ticks: SupportsIndex | None = None,
        *,
        account: str | None = None,
        **terms: Unpack[OrderTerms],
    ) -> ConnectedOutcome:
        """Enters an order. Its arguments are those of `Venue.submit`."""
        self._check_account(account)
        return self._send(self.order(instrument, side, lots, price_ticks, **terms))

    def order(
        self,
        instrument: str | int,
        side: str | SupportsIndex,
        lots: SupportsIndex,
        price_ticks: SupportsIndex | None = None,
        *,
        tif: str | None = None,
        expires_ns: SupportsIndex | None = None,
        post_only: str | None = None,
        display_lots: SupportsIndex | None = None,
        stop_ticks: SupportsIndex | None = None,
        hidden: bool = False,
        min_execution_lots: SupportsIndex | None = None,
        reduce_only: bool = False,
        label: str = "",
    ) -> Request:
        """Returns the request that `submit` would send."""
        where = self.instrument(instrument)
        method = "private/buy" if _side(side) == 1 else "private/sell"
        parameters: dict[str, Any] = {"instrument_name": where.name, "amount": _amount(where, "lots", lots)}
        parameters["type"] = _order_type(price_ticks is not None, stop_ticks is not None)
        if price_ticks is not None:
            parameters["price"] = _price(where, "price_ticks", price_ticks)
        if stop_ticks is not None:
            parameters |= {"trigger_price": _price(where, "stop_ticks", stop_ticks), "trigger": "last_price"}
        parameters |= _time_in_force(tif, expires_ns, is_market=price_ticks is None and stop_ticks is None)
        if post_only is not None:
            if text("post_only", post_only) not in ("reprice", "reject"):
                raise InvalidValue(f"post_only is {post_only!r}", 'use "reprice" or "reject", or leave it out')
            parameters |= {"post_only": True, "reject_post_only": post_only == "reject"}
        if display_lots is not None:
            parameters["display_amount"] = _amount(where, "display_lots", display_lots)
        if flag("hidden", hidden):
            parameters["hidden"] = True
        if min_execution_lots is not None:
            parameters["min_execution"] = _amount(where, "min_execution_lots", min_execution_lots)
        if flag("reduce_only", reduce_only):
            parameters["reduce_only"] = True
        if text("label", label):
            parameters["label"] = label
        return Request(self, 0, method, parameters)

    def amend(
        self,
        order_id: SupportsIndex,
        *,
        lots: SupportsIndex | None = None,
        price_ticks: SupportsIndex | None = None,
        account: str | None = None,
    ) -> ConnectedOutcome:
        """Changes the total lots or the price of a live order."""
        self._check_account(account)
        number = _number("order_id", order_id)
        try:
            order = self.call("private/get_order_state", order_id=str(number))
        except CallRefused as refused:
            return _refusal(number, refused)
        where = self.instrument(order["instrument_name"])
        amount = order["amount"] if lots is None else _amount(where, "lots", lots)
        price = order["price"] if price_ticks is None else _price(where, "price_ticks", price_ticks)
        parameters = {"order_id": str(number), "amount": str(amount), "price": str(price)}
        return self._send(Request(self, number, "private/edit", parameters))

    def cancel(self, order_id: SupportsIndex, *, account: str | None = None) -> ConnectedOutcome:
        """Cancels a live order."""
        self._check_account(account)
        return self._send(self.cancellation(order_id))

    def cancellation(self, order_id: SupportsIndex) -> Request:
        """Returns the request that `cancel` would send."""
        number = _number("order_id", order_id)
        return Request(self, number, "private/cancel", {"order_id": str(number)})

    def cancel_all(self, account: str | None = None, instrument: str | int | None = None) -> int:
        """Cancels the live orders of the login, and returns their number."""
        self._check_account(account)
        if instrument is None:
            return int(self.call("private/cancel_all"))
        name = self.instrument(instrument).name
        return int(self.call("private/cancel_all_by_instrument", instrument_name=name))

    def submit_batch(
        self,
        instrument: npt.ArrayLike,
        side: npt.ArrayLike = 0,
        lots: npt.ArrayLike = 0,
        price_ticks: npt.ArrayLike = 0,
        *,
        action: npt.ArrayLike = 0,
        order_id: npt.ArrayLike = 0,
        tif: str = "gtc",
    ) -> BatchOutcome:
        """Sends orders and cancels without waiting in between; see `Venue.submit_batch`.

        `action` is 0 to enter and 1 to cancel. Commands of other members may come in between.
        """
        columns = {
            "instrument": instrument,
            "side": side,
            "lots": lots,
            "price_ticks": price_ticks,
            "action": action,
            "order_id": order_id,
        }
        arrays = {name: whole_numbers(name, values) for name, values in columns.items()}
        try:
            rows = np.broadcast_arrays(*arrays.values())
        except ValueError:
            lengths = ", ".join(f"{name}: {len(array)}" for name, array in arrays.items())
            raise InvalidArray(f"the columns differ in length ({lengths})", "give every column one length") from None
        requests = [self._batch_request(n, tif, *map(int, row)) for n, row in enumerate(zip(*rows, strict=True))]
        outcomes = send_all(self._connection, requests)
        words = {word: code for code, word in enumerate(REASONS) if word}
        reasons = [0 if o.reason is None else words.get(o.reason, _OTHER_REASON) for o in outcomes]
        return BatchOutcome(
            np.array([outcome.order_id for outcome in outcomes], dtype=np.uint64),
            np.array(reasons, dtype=np.uint8),
            np.array([outcome.filled_lots for outcome in outcomes], dtype=np.uint64),
            np.array([outcome.open_lots for outcome in outcomes], dtype=np.uint64),
        )

    def advance(self, ns: SupportsIndex | None = None, *, flow_commands: SupportsIndex | None = None) -> int:
        """Moves the time of a venue with `--clock manual`, and returns the number of commands."""
        if flow_commands is not None or ns is None:
            raise UnsupportedCall("a connected venue advances by time only", "give ns")
        left = _number("ns", ns)
        try:
            first = int(self.call("private/pitwire_advance", ns=0)["sequence"])
            last = first
            while left > 0:
                part = min(left, _ADVANCE_SLICE_NS)
                last = int(self.call("private/pitwire_advance", ns=part)["sequence"])
                left -= part
        except KeyboardInterrupt as interrupt:
            if isinstance(interrupt, Interrupted):
                raise
            raise Interrupted(f"advance was interrupted with {left} ns left", "look at time_ns") from None
        return last - first

    def book(self, instrument: str | int, depth: int | None = None) -> Book:
        """Returns the displayed book. `depth` bounds the levels of each side."""
        where = self.instrument(instrument)
        wanted = _MAX_DEPTH if depth is None else _number("depth", depth)
        offered = next((offer for offer in _DEPTHS if offer >= wanted), _MAX_DEPTH)
        answer = self.call("public/get_order_book", instrument_name=where.name, depth=offered)

        def levels(side: str) -> npt.NDArray[np.int64]:
            rows = [(where.ticks(price), where.lots(amount)) for price, amount in answer[side][:wanted]]
            return np.array(rows, dtype=np.int64).reshape(len(rows), 2)

        return Book(levels("bids"), levels("asks"), int(answer["timestamp"]) * 1_000_000)

    def touch(self, instrument: str | int) -> tuple[int, int, int, int]:
        """Returns bid, lots of the bid, ask, lots of the ask; 0 for an empty side."""
        book = self.book(instrument, 1)
        bid, ask = ((0, 0) if not len(side) else (int(side[0, 0]), int(side[0, 1])) for side in book[:2])
        return (*bid, *ask)

    def events(self) -> EventTable:
        """Returns the events of the own orders since the last call.

        `sequence`, the accounts and the maker of a trade are unknown. `EventTable.gaps` counts cuts of
        the connection and overflows of the queue, before which events may be missing.
        """
        texts, lost = self._take_notices()
        rows: list[dict[str, int]] = []
        for notice in texts:
            if notice is not None:
                rows.extend(self._rows(parse(notice)))
        empty = {"instrument": -1, "account": -1, "other_account": -1}
        columns = {
            name: np.array([row.get(name, empty.get(name, 0)) for row in rows], dtype=dtype)
            for name, dtype in _COLUMNS.items()
        }
        return EventTable(columns, gaps=texts.count(None) + (lost > 0))

    def orders(self, account: str | None = None) -> list[OpenOrder]:
        """Returns the live orders of the login, oldest first."""
        self._check_account(account)
        found = []
        for order in self.call("private/get_open_orders"):
            where = self.instrument(order["instrument_name"])
            side = 1 if order["direction"] == "buy" else -1
            price = where.ticks(order["price"]) if _is_decimal(order.get("price")) else 0
            open_lots = where.lots(order["amount"]) - where.lots(order["filled_amount"])
            found.append(OpenOrder(int(order["order_id"]), where.name, side, price, open_lots))
        return sorted(found)

    def balance(self, account: str | None, currency: str) -> Balance:
        """Returns the balance of the login. `account` is its name or None."""
        self._check_account(account)
        summaries = self.call("private/get_account_summaries")["summaries"]
        for summary in summaries:
            if summary["currency"] == currency:
                return Balance(_decimal(summary["balance"]), _decimal(summary["available_funds"]))
        known = ", ".join(summary["currency"] for summary in summaries)
        raise UnknownName(f"there is no currency {currency!r}", f"use one of {known}")

    def instrument(self, name: str | int) -> Instrument:
        """Returns an instrument by name or id."""
        return find_instrument(self.instruments, name)

    def session(self, instrument: str | int) -> str:
        """Returns the session, such as "continuous"."""
        return str(self.call("public/ticker", instrument_name=self.instrument(instrument).name)["session"])

    def last_price_ticks(self, instrument: str | int) -> int | None:
        """Returns the price of the last trade, or None before the first."""
        where = self.instrument(instrument)
        last = self.call("public/ticker", instrument_name=where.name)["last_price"]
        return where.ticks(last) if _is_decimal(last) else None

    @property
    def accounts(self) -> dict[str, int]:
        """The account of the login, by name."""
        summary = self.call("private/get_account_summaries")
        return {summary["username"]: int(summary["id"])}

    @property
    def time_ns(self) -> int:
        """Venue time in nanoseconds since 1970, to the millisecond."""
        name = next(iter(self.instruments))
        return int(self.call("public/ticker", instrument_name=name)["timestamp"]) * 1_000_000

    def _check_account(self, account: str | int | None) -> None:
        if account is not None and text("account", account) not in self.accounts:
            raise UnknownName(f"{account!r} is not the account of this login", "leave account out")

    def _take_notices(self) -> tuple[list[str | None], int]:
        return self._connection.notices()

    def _send(self, request: Request) -> ConnectedOutcome:
        return send_all(self._connection, [request])[0]

    def _outcome(self, request: Request, answer: str | Exception) -> ConnectedOutcome:
        if isinstance(answer, CallRefused) and answer.code not in _LOGIN_CODES:
            return _refusal(request.order_id, answer)
        if isinstance(answer, Exception):
            raise answer
        return self._accepted(parse(answer))

    def _accepted(self, answer: Any) -> ConnectedOutcome:
        order, trades = answer.get("order", answer), answer.get("trades", [])
        where = self.instrument(order["instrument_name"])
        fills = [(where.ticks(trade["price"]), where.lots(trade["amount"])) for trade in trades]
        filled = sum(lots for _, lots in fills)
        mean = sum(price * lots for price, lots in fills) / filled if filled else None
        is_open = order["order_state"] in ("open", "untriggered")
        open_lots = where.lots(order["amount"]) - where.lots(order["filled_amount"]) if is_open else 0
        return ConnectedOutcome(int(order["order_id"]), None, filled, open_lots, mean)

    def _batch_request(
        self, row: int, tif: str, instrument: int, side: int, lots: int, price: int, action: int, order: int
    ) -> Request:
        if action == 1:
            return Request(self, order, "private/cancel", {"order_id": str(order)})
        if action != 0 or side not in (1, -1):
            remedy = "use action 0 with side 1 or -1 to enter, and action 1 to cancel"
            raise InvalidValue(f"row {row} has action {action} and side {side}", remedy)
        where = self.instrument(instrument)
        method = "private/buy" if side == 1 else "private/sell"
        parameters = {"instrument_name": where.name, "amount": _amount(where, f"lots[{row}]", lots)}
        parameters["type"] = _order_type(price != 0, False)
        if price != 0:
            parameters["price"] = _price(where, f"price_ticks[{row}]", price)
        parameters |= _time_in_force(tif if price else None, None, is_market=price == 0)
        return Request(self, order, method, parameters)

    def _rows(self, notice: Any) -> Iterable[dict[str, int]]:
        for order in notice["orders"]:
            yield from self._order_rows(order)
        for trade in notice["trades"]:
            yield _row("trade", self.instrument(trade["instrument_name"]), trade) | {
                "lots": self.instrument(trade["instrument_name"]).lots(trade["amount"])
            }

    def _order_rows(self, order: Any) -> Iterable[dict[str, int]]:
        where, number = self.instrument(order["instrument_name"]), int(order["order_id"])
        row = _row("accepted", where, order)
        lots = where.lots(order["amount"])
        open_lots = lots - where.lots(order["filled_amount"])
        terms, known = (row["price_ticks"], lots), self._orders.get(number)
        if known is None:
            yield row | {"lots": lots, "open_lots": lots}
        elif known != terms:
            yield row | {"kind": EVENT_KINDS.index("amended"), "lots": lots, "open_lots": open_lots}
        self._orders[number] = terms
        if order["order_state"] in ("cancelled", "rejected", "filled"):
            del self._orders[number]
        if order["order_state"] == "cancelled":
            yield row | {"kind": EVENT_KINDS.index("cancelled"), "lots": open_lots}


def open_connection(
    url: str,
    key: str | None,
    secret: str | None,
    authority: str | PathLike[str] | None,
    timeout_s: float,
    agents: list[tuple[str, str]],
) -> Connection:
    """Opens a connection. Raises InvalidValue for an argument of another type."""
    for name, login in (("key", key), ("secret", secret)):
        if not (login is None or isinstance(login, str)):
            raise InvalidValue(f"{name} is a {type(login).__name__}", "use a text")
    if not isinstance(timeout_s, int | float):
        raise InvalidValue(f"timeout_s is {timeout_s!r}", "use seconds from 0.001 to 86400")
    file = None if authority is None else path_text("authority", authority)
    return Connection(text("url", url), key, secret, file, timeout_s, agents)


def as_json(parameters: dict[str, Any]) -> str:
    """Returns parameters as JSON. Raises InvalidValue if JSON cannot express them."""
    try:
        return json.dumps(parameters, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise InvalidValue(f"the parameters are not JSON: {wrong}", "use texts, finite numbers and lists") from None


def instruments_of(connection: Connection) -> dict[str, Instrument]:
    """Returns the instruments of a venue by name."""
    definitions = parse(connection.call(None, "public/get_instruments", '{"currency": "any"}'))
    return {definition["instrument_name"]: _instrument(definition) for definition in definitions}


def send_all(connection: Connection, requests: Sequence[Request]) -> list[ConnectedOutcome]:
    """Sends requests without waiting in between, in this order, and returns their outcomes."""
    calls = [(request.venue._agent, request.method, as_json(request.parameters)) for request in requests]
    answers = connection.call_many(calls)
    return [request.venue._outcome(request, answer) for request, answer in zip(requests, answers, strict=True)]


def _row(kind: str, where: Instrument, item: Any) -> dict[str, int]:
    time_ms = item.get("last_update_timestamp", item.get("timestamp"))
    return {
        "time_ns": int(time_ms) * 1_000_000,
        "kind": EVENT_KINDS.index(kind),
        "instrument": where.id,
        "order": int(item["order_id"]),
        "side": 1 if item["direction"] == "buy" else -1,
        "price_ticks": where.ticks(item["price"]) if _is_decimal(item.get("price")) else 0,
    }


def _instrument(definition: Any) -> Instrument:
    kind = "spot" if definition["kind"] == "spot" else "inverse_perpetual"
    tick, lot = _decimal(definition["tick_size"]), _decimal(definition["min_trade_amount"])
    name, base, quote = definition["instrument_name"], definition["base_currency"], definition["quote_currency"]
    return Instrument(int(definition["instrument_id"]), name, tick, lot, 0, base, quote, kind)


def _refusal(order_id: int, refused: CallRefused) -> ConnectedOutcome:
    return ConnectedOutcome(order_id, refused.reason or refused.what)


def parse(text: str) -> Any:
    """Reads JSON. Fractions are decimals."""
    return json.loads(text, parse_float=Decimal)


def _decimal(number: Any) -> Decimal:
    return Decimal(number)


def _is_decimal(value: Any) -> bool:
    return isinstance(value, int | Decimal)


def _price(where: Instrument, name: str, ticks: SupportsIndex) -> str:
    return str(where.price(_number(name, ticks)))


def _amount(where: Instrument, name: str, lots: SupportsIndex) -> str:
    return str(where.amount(_number(name, lots)))


def _order_type(has_price: bool, has_stop: bool) -> str:
    if has_stop:
        return "stop_limit" if has_price else "stop_market"
    return "limit" if has_price else "market"


def _time_in_force(tif: str | None, expires_ns: SupportsIndex | None, *, is_market: bool) -> dict[str, Any]:
    if (tif == "gtt") != (expires_ns is not None):
        raise InvalidValue('only one of tif="gtt" and expires_ns is given', "give both")
    if expires_ns is not None:
        return {"tif_ext": "gtt", "expires_at": str(math.ceil(_number("expires_ns", expires_ns) / 1_000_000))}
    if tif is None:
        return {} if is_market else {"time_in_force": "good_til_cancelled"}
    if text("tif", tif) in _AUCTION_TIMES:
        return {"tif_ext": tif}
    if tif not in _TIMES_IN_FORCE:
        raise InvalidValue(f"tif is {tif!r}", "use gtc, day, ioc, fok, gtt, opg, gfa, gfx, atc or cpx")
    return {"time_in_force": _TIMES_IN_FORCE[tif]}
