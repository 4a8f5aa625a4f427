"""An exchange with a deterministic matching engine, in this process or over a connection.

`Venue(preset="demo", seed=7)` runs a market in this process. `Venue.connect(url, key, secret)`
trades on a running venue by the same calls. Prices are whole ticks, amounts are whole lots, and
times are nanoseconds since 1970.
"""

from pitwire._native import EVENT_KINDS, REASONS, Outcome
from pitwire._types import Balance, BatchOutcome, Book, Instrument, OpenOrder
from pitwire._venue import Venue
from pitwire.errors import Interrupted, PitwireError
from pitwire.events import EventTable

__all__ = [
    "EVENT_KINDS",
    "REASONS",
    "Balance",
    "BatchOutcome",
    "Book",
    "EventTable",
    "Instrument",
    "Interrupted",
    "OpenOrder",
    "Outcome",
    "PitwireError",
    "Venue",
]
