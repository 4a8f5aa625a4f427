"""A trader that records every answer, and compares a restarted venue with all of them."""

import itertools
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from http.client import HTTPException
from typing import Any

from rpc import Http, Json, RpcError, Ws, result_of
from venue import Credentials, Venue
from websockets.exceptions import WebSocketException

# Exceptions that a client sees when the venue dies.
CONNECTION_LOST = (ConnectionError, EOFError, HTTPException, WebSocketException)
TICKS = {"NPN_ZAR": "0.01", "MTN_ZAR": "0.01", "BTC_USDC": "0.5", "BTC-PERPETUAL": "0.5"}
LOTS = {"NPN_ZAR": "1", "MTN_ZAR": "1", "BTC_USDC": "0.0001", "BTC-PERPETUAL": "10"}
FINAL = ("filled", "cancelled", "rejected")
MOST_OPEN = 40
WINDOW = 4


def exact(value: Any) -> Decimal:
    return Decimal(str(value))


def filled_by(fills: list[Json]) -> Decimal:
    return sum((exact(fill["amount"]) for fill in fills), Decimal(0))


@dataclass
class Order:
    """Everything that the venue has acknowledged about one order."""

    label: str
    order_id: str
    instrument: str
    side: str
    amount: Decimal
    price: Decimal
    state: str
    # The filled amount in the venue's last answer. Over HTTP a client learns of passive fills only
    # so.
    reported_filled: Decimal = Decimal(0)
    trades: dict[str, Json] = field(default_factory=dict)

    @property
    def filled(self) -> Decimal:
        filled_by_trades = sum((exact(trade["amount"]) for trade in self.trades.values()), Decimal(0))
        return max(self.reported_filled, filled_by_trades)


@dataclass
class Request:
    """A request. The venue has not answered while `Trader.pending` holds it."""

    method: str
    params: Json
    order: Order | None = None


class Trader:
    """One client on one transport. It outlives many deaths of the venue."""

    def __init__(self, name: str, credentials: Credentials, transport: str, rng: random.Random) -> None:
        self.name, self.credentials, self.transport, self.rng = name, credentials, transport, rng
        self.orders: dict[str, Order] = {}  # by order id
        self.resting: dict[str, Order] = {}  # those of them that were open at the last report
        self.pending: list[Request] = []
        self.public: dict[tuple[str, int], Json] = {}  # by instrument and trade_seq
        self.answers = 0
        self.in_flight_at_death = 0
        self.failure: BaseException | None = None
        self._labels = itertools.count(1)
        self._marks: dict[str, Decimal] = {}
        self._touched: set[str] = set()  # orders learned of since the last comparison

    # Trading

    def trade_until_it_dies(self, venue: Venue) -> threading.Thread:
        def run() -> None:
            try:
                (self._over_ws if self.transport == "ws" else self._over_http)(venue)
            except CONNECTION_LOST:
                pass
            except BaseException as error:
                self.failure = error

        self.pending = []
        thread = threading.Thread(target=run, name=self.name)
        thread.start()
        return thread

    def _over_ws(self, venue: Venue) -> None:
        with Ws(venue.ws_url) as ws:
            ws.login(self.credentials)
            ws.subscribe("user.trades.any.any.raw", *(f"trades.{instrument}.100ms" for instrument in TICKS))
            self._mark(ws)
            while True:
                asked = {}
                for request in self._some_requests():
                    self.pending.append(request)
                    asked[ws.post(request.method, request.params)] = request
                while asked:
                    message = ws.receive()
                    if request := asked.pop(message.get("id"), None):
                        self._write_down(request, message)
                    else:
                        self._overhear(message)

    def _over_http(self, venue: Venue) -> None:
        http = Http(venue.address, self.credentials)
        self._mark(http)
        while True:
            request = next(self._some_requests())
            self.pending.append(request)
            self._write_down(request, http.call(request.method, request.params))

    def _mark(self, client: Http | Ws) -> None:
        for instrument in TICKS:
            ticker = client.result("public/ticker", {"instrument_name": instrument})
            self._marks[instrument] = exact(ticker["best_bid_price"])

    def _some_requests(self) -> Iterator[Request]:
        """Sends a few requests about different orders, mostly near the touch so that some trade and
        some rest."""
        resting = list(self.resting.values())
        self.rng.shuffle(resting)
        for _ in range(WINDOW):
            dice = self.rng.random()
            if resting and (dice < 0.2 or len(resting) > MOST_OPEN):
                order = resting.pop()
                yield Request("private/cancel", {"order_id": order.order_id}, order)
            elif resting and dice < 0.4:
                order = resting.pop()
                price = self._price(order.instrument)
                amount = order.amount + self.rng.choice([0, 1]) * exact(LOTS[order.instrument])
                params = {"order_id": order.order_id, "amount": str(amount), "price": str(price)}
                yield Request("private/edit", params, order)
            else:
                yield self._entry(market=dice > 0.85)

    def _entry(self, market: bool) -> Request:
        instrument = self.rng.choice(list(TICKS))
        amount = self.rng.randint(1, 3) * exact(LOTS[instrument])
        params = {"instrument_name": instrument, "amount": str(amount), "label": f"{self.name}-{next(self._labels)}"}
        if market:
            params["type"] = "market"
        else:
            params |= {"type": "limit", "price": str(self._price(instrument))}
            if self.rng.random() < 0.1:
                params["time_in_force"] = "immediate_or_cancel"
        return Request(self.rng.choice(["private/buy", "private/sell"]), params)

    def _price(self, instrument: str) -> Decimal:
        return self._marks[instrument] + self.rng.randint(-20, 20) * exact(TICKS[instrument])

    # Recording

    def _write_down(self, request: Request, answer: Json) -> None:
        self.pending.remove(request)
        self.answers += 1
        try:
            result = result_of(request.method, answer)
        except RpcError as error:
            # Filled a moment ago, or insufficient funds: such answers promise nothing.
            assert error.code in (10004, 10009, 10010, 11008, 11044), (request, error)
            if request.order and error.code != 10009:
                self.resting.pop(request.order.order_id, None)
            return
        self._learn(result.get("order", result), result.get("trades", []))

    def _learn(self, reported: Json, trades: list[Json]) -> None:
        order = self.orders.get(reported["order_id"])
        if order is None:
            order = Order(
                label=reported["label"],
                order_id=reported["order_id"],
                instrument=reported["instrument_name"],
                side=reported["direction"],
                amount=exact(reported["amount"]),
                price=Decimal(0),
                state=reported["order_state"],
            )
            self.orders[order.order_id] = order
        order.amount, order.state = exact(reported["amount"]), reported["order_state"]
        order.reported_filled = exact(reported["filled_amount"])
        self._touched.add(order.order_id)
        if reported["order_type"] == "limit":
            order.price = exact(reported["price"])
        order.trades |= {trade["trade_id"]: trade for trade in trades}
        if order.state == "open":
            self.resting[order.order_id] = order
        else:
            self.resting.pop(order.order_id, None)

    def _overhear(self, message: Json) -> None:
        params = message["params"]
        if params["channel"].startswith("trades."):
            for trade in params["data"]:
                self.public[trade["instrument_name"], trade["trade_seq"]] = trade
        else:
            for trade in params["data"]:
                # The other trader of this account gets these too and has a separate ledger.
                if order := self.orders.get(trade["order_id"]):
                    order.trades[trade["trade_id"]] = trade

    # Comparison

    def hold_to_account(self, ws: Ws) -> None:
        """After a restart every answer must still be true, and every unanswered request is complete
        or absent."""
        assert self.failure is None, self.failure
        self.in_flight_at_death += len(self.pending)
        self._adopt_unanswered(ws)
        self.compare(ws, self._open_or_touched())
        self._touched.clear()
        self.pending = []

    def _open_or_touched(self) -> list[Order]:
        """Returns the orders whose last state this ledger may lack: the open ones, and those it
        learned of since."""
        return [o for o in self.orders.values() if o.state not in FINAL or o.order_id in self._touched]

    def compare(self, ws: Ws, orders: list[Order]) -> None:
        states = ask_many(ws, "private/get_order_state", [{"order_id": order.order_id} for order in orders])
        asking = [{"order_id": order.order_id, "count": 1000} for order in orders]
        trades = ask_many(ws, "private/get_user_trades_by_order", asking)
        for order, found, fills in zip(orders, states, trades, strict=True):
            for _ in range(10):
                if filled_by(fills) == exact(found["filled_amount"]):
                    break
                # The market moves between two queries: an open order may have filled meanwhile.
                # Query again.
                (found,) = ask_many(ws, "private/get_order_state", [{"order_id": order.order_id}])
                (fills,) = ask_many(
                    ws, "private/get_user_trades_by_order", [{"order_id": order.order_id, "count": 1000}]
                )
            self._compare_one(order, found, fills)

    def compare_all_closed(self, ws: Ws) -> None:
        """After a cancel of everything, compares the changes since the last comparison; nothing may
        be open. Orders that had ended by then were compared then; the venue keeps only the newest
        50,000 closed orders of an account."""
        for order in self.orders.values():
            if order.state == "open":
                self.pending.append(Request("private/cancel", {"order_id": order.order_id}, order))
        self.compare(ws, self._open_or_touched())
        self._touched.clear()
        self.pending = []
        assert all(order.state in FINAL for order in self.orders.values())

    def _compare_one(self, order: Order, found: Json, fills: list[Json]) -> None:
        asked = self._asked_about(order)
        reported = f"{self.name}: {order} against {found} with fills {fills}, unanswered {asked}"
        ids = [fill["trade_id"] for fill in fills]
        filled = filled_by(fills)
        assert found["order_id"] == order.order_id and found["label"] == order.label, reported
        assert len(ids) == len(set(ids)), f"a fill twice: {reported}"
        assert set(order.trades) <= set(ids), f"an acknowledged fill is gone: {reported}"
        assert exact(found["filled_amount"]) == filled, f"fills do not add up: {reported}"
        assert filled >= order.filled, reported
        assert (found["order_state"] == "filled") == (filled == exact(found["amount"])), f"half an order: {reported}"
        if order.state in FINAL:
            assert found["order_state"] == order.state and filled == order.filled, f"it came back to life: {reported}"
        elif found["order_state"] == "cancelled":
            # An incoming order cancels the resting order of the same account instead of trading
            # with it.
            itself = found["cancel_reason"] == "self_match_prevention"
            assert itself or (asked and asked.method == "private/cancel"), f"cancelled without a request: {reported}"
        amounts, prices = {order.amount}, {order.price}
        if asked and asked.method == "private/edit":
            amounts.add(exact(asked.params["amount"]))
            prices.add(exact(asked.params["price"]))
        assert exact(found["amount"]) in amounts, f"another amount: {reported}"
        assert found["order_type"] == "market" or exact(found["price"]) in prices, f"another price: {reported}"
        self._learn(found, fills)

    def _asked_about(self, order: Order) -> Request | None:
        return next((request for request in self.pending if request.order is order), None)

    def _adopt_unanswered(self, ws: Ws) -> None:
        """Finds unanswered entries by their labels: at most one order each, with exactly the
        requested terms."""
        entries = {request.params["label"]: request for request in self.pending if request.order is None}
        if not entries:
            return
        found = ws.result("private/get_open_orders")
        for instrument in {request.params["instrument_name"] for request in entries.values()}:
            params = {"instrument_name": instrument, "count": 1000, "include_unfilled": True, "include_old": True}
            found += ws.result("private/get_order_history_by_instrument", params)
        # The flow trades between the two queries: an order that fills meanwhile is in both answers.
        latest = {order["order_id"]: order for order in found if order["label"] in entries}
        matching = list(latest.values())
        labels = [order["label"] for order in matching]
        assert len(labels) == len(set(labels)), f"one request became two orders: {matching}"
        for order in matching:
            request = entries[order["label"]]
            assert exact(order["amount"]) == exact(request.params["amount"]), (request, order)
            assert order["instrument_name"] == request.params["instrument_name"], (request, order)
            assert f"private/{order['direction']}" == request.method, (request, order)
            if request.params["type"] == "limit":
                assert exact(order["price"]) == exact(request.params["price"]), (request, order)
            self._learn(
                order, ws.result("private/get_user_trades_by_order", {"order_id": order["order_id"], "count": 1000})
            )


def ask_many(ws: Ws, method: str, every_params: list[Json]) -> list[Any]:
    """Sends many requests without waiting, and returns the answers in the same order."""
    results: list[Any] = []
    for start in range(0, len(every_params), 100):
        asked = [ws.post(method, params) for params in every_params[start : start + 100]]
        for request_id in asked:
            while (message := ws.arrive()).get("id") != request_id:
                assert "method" in message, "answers come in the order of requests"
            results.append(result_of(method, message))
    return results
