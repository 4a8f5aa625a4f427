//! A recorded tape in one form, whatever its source.
//!
//! Start at    [`RecordedTape`].

use pitwire_model::{Decimal, Lots, Phase, Side, Ticks, VenueNanos};

/// The recorded orders of one instrument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedTape {
    /// In order of time.
    pub steps: Vec<TapeStep>,
    /// Recorded trades that no step can produce, such as those of hidden orders.
    pub hidden_trades: u64,
    /// Rows that the replay does not support, such as stops.
    pub unsupported: u64,
    /// Price of a tick and quantity of a lot, if the tape has decimals.
    pub units: Option<[Decimal; 2]>,
}

/// One recorded event with the trades that it made.
#[derive(Clone, Debug, PartialEq)]
pub struct TapeStep {
    pub at: VenueNanos,
    pub action: TapeAction,
    pub trades: Vec<RecordedTrade>,
}

/// What a recorded event does. Ids are those of the tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapeAction {
    /// An order; `None` as price for a market order. It rests if it may.
    Enter {
        id: u64,
        side: Side,
        price: Option<Ticks>,
        lots: Lots,
        rests: bool,
    },
    /// Cancels a part of an order, which keeps its place in the queue.
    Reduce {
        id: u64,
        lots: Lots,
    },
    /// Changes the price or the quantity of an order; `lots` counts what has traded.
    Amend {
        id: u64,
        price: Ticks,
        lots: Lots,
    },
    Delete {
        id: u64,
    },
    /// Changes the session. The end of a call makes its trades.
    Session {
        to: Phase,
    },
    /// An order that the tape has no id for takes lots of a resting order.
    Take {
        maker: u64,
        side: Side,
        price: Ticks,
        lots: Lots,
    },
}

/// A recorded trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedTrade {
    pub maker: u64,
    pub price: Ticks,
    pub lots: Lots,
}
