"""The native part of the package. Use `pitwire.Venue`."""

from collections.abc import Callable
from os import PathLike
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

EVENT_KINDS: list[str]
REASONS: list[str]

class Outcome:
    """What became of an order by one command."""

    @property
    def order_id(self) -> int:
        """Id of the order, also after a refusal."""
    @property
    def accepted(self) -> bool:
        """Whether the command was executed."""
    @property
    def reason(self) -> str | None:
        """Reason of the refusal, such as "not_enough_funds", or None."""
    @property
    def filled_lots(self) -> int:
        """Lots that this command filled."""
    @property
    def open_lots(self) -> int:
        """Open lots directly after this command."""
    @property
    def mean_price_ticks(self) -> float | None:
        """Mean price of the fills of this command in ticks, or None without a fill."""

class Market:
    """A market in this process. One thread of one process uses it at a time."""

    def __new__(
        cls,
        preset: str = "demo",
        seed: SupportsIndex = 0,
        *,
        flow: str | PathLike[str] | None = "market",
        data: str | PathLike[str] | None = None,
        tape_hash: bool = True,
        record: bool = True,
        max_events: SupportsIndex = 5_000_000,
    ) -> Any:
        """Creates a market.

        `preset` is "demo", "jse" or "crypto24x7". `flow` is a name that `pitwire flow list`
        prints, the path of a flow file, or None for a market without order flow. `data` is an empty
        directory for the journal. `record` keeps up to `max_events` events for `events()`; a row
        takes 67 bytes. Without `tape_hash` the market is faster and has no tape hash.
        """
    def submit(
        self,
        instrument: str | SupportsIndex,
        side: str | SupportsIndex,
        lots: SupportsIndex,
        price_ticks: SupportsIndex | None = None,
        *,
        account: str | SupportsIndex | None = None,
        tif: str | None = None,
        expires_ns: SupportsIndex | None = None,
        post_only: str | None = None,
        display_lots: SupportsIndex | None = None,
        stop_ticks: SupportsIndex | None = None,
        hidden: bool = False,
        min_execution_lots: SupportsIndex | None = None,
        reduce_only: bool = False,
        label: str = "",
    ) -> Outcome:
        """Enters an order at the current time. Without a price it is a market order.

        `side` is "buy" or 1, "sell" or -1. `account` is a name or id, by default the first account.
        `tif` is gtc, day, ioc, fok, gtt (with `expires_ns`, venue time), opg, gfa, gfx, atc or cpx;
        by default gtc, and ioc for a market order. `post_only` is "reprice" or "reject".
        `display_lots` makes an iceberg, `stop_ticks` a stop. `label` has at most 64 bytes.
        """
    def amend(
        self,
        order_id: SupportsIndex,
        *,
        lots: SupportsIndex | None = None,
        price_ticks: SupportsIndex | None = None,
        account: str | SupportsIndex | None = None,
    ) -> Outcome:
        """Changes the total lots, with the filled ones, or the price of a live order.

        Fewer lots at the same price keep the place in the queue. `account` is by default the owner.
        """
    def cancel(self, order_id: SupportsIndex, *, account: str | SupportsIndex | None = None) -> Outcome:
        """Cancels a live order. `account` is by default the owner."""
    def cancel_all(
        self, account: str | SupportsIndex | None = None, instrument: str | SupportsIndex | None = None
    ) -> int:
        """Cancels the live orders of an account, and returns their number."""
    def advance(self, ns: SupportsIndex | None = None, *, flow_commands: SupportsIndex | None = None) -> int:
        """Moves venue time by `ns` nanoseconds, or until the flow has executed `flow_commands`.

        Executes what comes due in between and returns the number of commands.
        """
    def touch(self, instrument: str | SupportsIndex) -> tuple[int, int, int, int]:
        """Returns bid, lots of the bid, ask, lots of the ask; 0 for an empty side. Prices in ticks."""
    def position_lots(self, account: str | SupportsIndex, instrument: str | SupportsIndex) -> int:
        """Returns the position in a perpetual: positive for long, negative for short."""
    def queue_ahead_lots(self, order_id: SupportsIndex) -> int | None:
        """Returns the lots ahead of an order in its queue, or None if it is not on a level."""
    def session(self, instrument: str | SupportsIndex) -> str:
        """Returns the session, such as "continuous"."""
    def last_price_ticks(self, instrument: str | SupportsIndex) -> int | None:
        """Returns the price of the last trade, or None before the first."""
    def close(self) -> None:
        """Commits the journal, if there is one, and closes the market. May be called again."""
    @property
    def accounts(self) -> dict[str, int]:
        """Ids of the accounts by name."""
    @property
    def time_ns(self) -> int:
        """Venue time in nanoseconds since 1970."""
    @property
    def sequence(self) -> int:
        """Number of the last command."""
    @property
    def tape_hash(self) -> str | None:
        """Hash of all public output, as `pitwire sim` prints it."""
    @property
    def is_open(self) -> bool:
        """Whether the market can still be used."""
    def _submit_columns(self, *columns: npt.NDArray[np.int64] | str | None) -> dict[str, Any]: ...
    def _book(
        self, instrument: str | int, depth: int | None
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]: ...
    def _take_events(self) -> dict[str, npt.NDArray[Any]]: ...
    def _instruments(self) -> list[tuple[int, str, str, str, int, str, str, str]]: ...
    def _add_account(self, name: str, unlimited: bool) -> int: ...
    def _deposit(self, account: str | int, currency: str, units: int) -> None: ...
    def _balance(self, account: str | int, currency: str) -> tuple[int, int, int]: ...
    def _orders(self, account: str | int) -> list[tuple[int, int, int, int, int]]: ...

class Connection:
    """A connection to a running venue."""

    def __new__(
        cls,
        url: str,
        key: str | None,
        secret: str | None,
        authority: str | PathLike[str] | None,
        timeout_s: float,
        agents: list[tuple[str, str]],
    ) -> Connection: ...
    def call(self, agent: int | None, method: str, params: str) -> str: ...
    def call_many(self, calls: list[tuple[int | None, str, str]]) -> list[str | Exception]: ...
    def start(self, agent: int | None, method: str, params: str, done: Callable[[str | Exception], None]) -> None: ...
    def notices(self) -> tuple[list[str | None], int]: ...
    @property
    def is_open(self) -> bool: ...
    def close(self) -> None: ...
