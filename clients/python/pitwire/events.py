"""Events as columns, and as frames of Arrow, Polars and pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pitwire._native import EVENT_KINDS, REASONS
from pitwire.errors import UnknownName

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class EventTable:
    """Events in the order in which they happened, as NumPy columns.

    A number that a kind of event does not have is 0; an instrument or account is -1.

    | column | content |
    |---|---|
    | sequence | number of the command that caused the event |
    | time_ns | venue time in nanoseconds since 1970 |
    | kind | index into `EVENT_KINDS` |
    | instrument, account, order | ids; for a trade the taker's account and order |
    | side | 1 for a buy, -1 for a sell; for a trade the taker's side |
    | price_ticks | price in ticks |
    | lots | lots of the order, trade or level; for a cancel the lots that were open |
    | open_lots | open lots of the order after the event |
    | other_account, other_order | of a trade: the maker's |
    | reason | index into `REASONS`, of a refusal or a cancel |
    """

    def __init__(self, columns: dict[str, npt.NDArray[Any]], gaps: int = 0) -> None:
        self.columns = columns
        #: Of a connected venue: places at which events may be missing.
        self.gaps = gaps

    def __len__(self) -> int:
        return len(self.columns["sequence"])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """Returns a column."""
        try:
            return self.columns[name]
        except (KeyError, TypeError):
            raise UnknownName(f"there is no column {name!r}", f"use one of {', '.join(self.columns)}") from None

    def __repr__(self) -> str:
        return f"EventTable({len(self)} events)"

    def of_kind(self, *kinds: str) -> EventTable:
        """Returns the events of these kinds. Copies them."""
        for kind in kinds:
            if kind not in EVENT_KINDS:
                raise UnknownName(f"there is no kind {kind!r} of events", f"use one of {', '.join(EVENT_KINDS)}")
        numbers = [EVENT_KINDS.index(kind) for kind in kinds]
        selected = np.isin(self.columns["kind"], numbers)
        return EventTable({name: column[selected] for name, column in self.columns.items()}, self.gaps)

    def to_arrow(self) -> pa.RecordBatch:
        """Returns an Arrow batch that shares the memory. Kinds and reasons are dictionaries."""
        import pyarrow as pa

        words = {"kind": pa.array(EVENT_KINDS), "reason": pa.array(REASONS)}
        arrays = []
        for name, column in self.columns.items():
            array = pa.array(column)
            if name in words:
                array = pa.DictionaryArray.from_arrays(array, words[name])
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Passes the events to any library that reads the Arrow C data interface."""
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def to_polars(self) -> pl.DataFrame:
        """Returns a Polars frame. The columns of numbers share the memory."""
        import polars as pl

        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """Returns a pandas frame. The columns of numbers share the memory."""
        import pandas as pd

        columns: dict[str, Any] = dict(self.columns)
        columns["kind"] = pd.Categorical.from_codes(self.columns["kind"].astype(np.int8), EVENT_KINDS)
        columns["reason"] = pd.Categorical.from_codes(self.columns["reason"].astype(np.int16), REASONS)
        return pd.DataFrame(columns, copy=False)
