//! Values of operators' commands.

use crate::{AccountId, InstrumentId, Label, Lots, OrderId, SessionId, Ticks, TradeSeq};

/// The orders that a kill cancels and blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KillScope {
    /// One order; nothing stays blocked.
    Order(OrderId),
    Session(SessionId),
    Account(AccountId),
    Venue,
}

/// The details of a trade to be busted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bust {
    pub instrument: InstrumentId,
    pub trade_seq: TradeSeq,
    pub price: Ticks,
    pub lots: Lots,
    pub buyer: AccountId,
    pub seller: AccountId,
    pub reason: Label,
}

/// The setting of the generated order flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowSetting {
    pub running: bool,
    /// Event rate in percent of the configured rate, from 1 to [`Self::MOST_RATE_PERCENT`].
    pub rate_percent: u32,
}

impl FlowSetting {
    pub const MOST_RATE_PERCENT: u32 = 100_000;
    /// Longest text that defines a flow. It fits a text of the journal.
    pub const MOST_TEXT_BYTES: usize = 60_000;
}

impl Default for FlowSetting {
    fn default() -> Self {
        FlowSetting { running: true, rate_percent: 100 }
    }
}
