//! One private channel of one account: what it has collected and how far its subscriber has read.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::{CurrencyId, InstrumentId, OrderId};

use crate::codec::{Channel, Interval, Token};
use crate::replay_buffer::{ReplayEntry, ReplayEventKind};

#[derive(Debug)]
pub(crate) struct PrivateSubscription {
    pub channel: Channel,
    /// What a merged channel will tell at the next window: orders by id, or ready trade objects.
    pub orders: BTreeSet<OrderId>,
    pub trades: Vec<u8>,
    /// The same by instrument, for `user.changes`.
    pub changes: BTreeMap<InstrumentId, PendingChanges>,
    pub portfolio: PortfolioState,
    /// Of one whose reader may come back: what it will have heard up to, when all that waits is told.
    pub stands: Option<Token>,
}

/// What has happened in one instrument and is not told yet.
#[derive(Debug, Default)]
pub(crate) struct PendingChanges {
    pub orders: BTreeSet<OrderId>,
    pub trades: Vec<u8>,
}

/// What a `user.portfolio` channel has told.
#[derive(Debug, Default)]
pub(crate) struct PortfolioState {
    /// Whether anything may differ from that.
    pub stale: bool,
    /// The last summary of each currency.
    pub told: BTreeMap<CurrencyId, Vec<u8>>,
}

impl PrivateSubscription {
    /// Whether something waits for the end of this window.
    pub(crate) fn waits_for(&self, interval: Interval) -> bool {
        self.channel.interval() == interval && self.waits()
    }

    /// Whether its messages come from the diary, with their places, and not from what has changed.
    pub(crate) fn is_sent_from_replay(&self) -> bool {
        self.stands.is_some() && self.channel.interval() == Interval::Raw
    }

    /// Whether the diary can tell it, for one who may come back or beside one: fills and orders as they happen.
    pub(crate) fn is_replayable_raw(&self) -> bool {
        is_numbered(&self.channel) && self.channel.interval() == Interval::Raw
    }

    /// Whether it has collected what a window's end will tell.
    pub(crate) fn awaits(&self) -> bool {
        !(self.orders.is_empty() && self.trades.is_empty() && self.changes.is_empty())
    }

    /// Takes in what will be told of the account in one instrument, as the diary has it.
    pub(crate) fn collect(&mut self, entry: &ReplayEntry) {
        let (orders, trades) = match self.channel {
            Channel::UserChanges { .. } => {
                let waiting = self.changes.entry(entry.instrument).or_default();
                (&mut waiting.orders, &mut waiting.trades)
            }
            _ => (&mut self.orders, &mut self.trades),
        };
        match entry.what {
            ReplayEventKind::Fill => {
                if !trades.is_empty() {
                    trades.push(b',');
                }
                trades.extend_from_slice(&entry.object);
            }
            ReplayEventKind::Order { id, .. } => drop(orders.insert(id)),
        }
    }

    /// What it has collected, in bytes and orders.
    pub(crate) fn collected(&self) -> (usize, usize) {
        let changes = self.changes.values().map(|waiting| (waiting.trades.len(), waiting.orders.len()));
        changes.fold((self.trades.len(), self.orders.len()), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    pub(crate) fn waits(&self) -> bool {
        let is_portfolio = matches!(self.channel, Channel::UserPortfolio { .. });
        self.awaits() || (is_portfolio && self.portfolio.stale)
    }
}

/// Whether a channel's messages can be resumed by their place.
pub(crate) fn is_numbered(channel: &Channel) -> bool {
    matches!(channel, Channel::UserOrders { .. } | Channel::UserTrades { .. } | Channel::UserChanges { .. })
}
