//! One private channel of one account: its collected changes and the position of its subscriber.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pitwire_model::{CurrencyId, InstrumentId, OrderId};

use crate::codec::{Channel, Interval, Token};
use crate::replay_buffer::{ReplayEntry, ReplayEventKind};

#[derive(Debug)]
pub(crate) struct PrivateSubscription {
    pub channel: Channel,
    /// Orders that a merged channel sends at the end of the window.
    pub orders: BTreeSet<OrderId>,
    pub trades: PendingFills,
    /// Collected changes by instrument, for `user.changes`.
    pub changes: BTreeMap<InstrumentId, PendingChanges>,
    pub portfolio: PortfolioState,
    /// The token of a resumable channel: the position that its subscriber reaches once everything
    /// collected has been sent.
    pub token: Option<Token>,
}

/// Changes of one instrument that have not been sent yet.
#[derive(Debug, Default)]
pub(crate) struct PendingChanges {
    pub orders: BTreeSet<OrderId>,
    pub trades: PendingFills,
}

/// Most orders, and most fills, in one message of a private channel.
pub(crate) const RECORDS_PER_MESSAGE: usize = 100;

/// Fills that wait to be sent, as JSON, in parts for one message each.
#[derive(Debug, Default)]
pub(crate) struct PendingFills {
    parts: VecDeque<Vec<u8>>,
    /// Fills in the last part.
    last_len: usize,
}

impl PendingFills {
    /// Adds one fill, which `write` writes.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.parts.is_empty() || self.last_len == RECORDS_PER_MESSAGE {
            self.parts.push_back(Vec::new());
            self.last_len = 0;
        }
        self.last_len += 1;
        if let Some(part) = self.parts.back_mut() {
            if !part.is_empty() {
                part.push(b',');
            }
            write(part);
        }
    }

    /// Removes the oldest fills, as many as fit into a message: objects with commas between them.
    pub fn take_part(&mut self) -> Vec<u8> {
        self.parts.pop_front().unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }
}

impl PendingChanges {
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty() && self.trades.is_empty()
    }
}

/// Removes the orders of the next message, the oldest first.
pub(crate) fn take_orders(orders: &mut BTreeSet<OrderId>) -> Vec<OrderId> {
    std::iter::from_fn(|| orders.pop_first()).take(RECORDS_PER_MESSAGE).collect()
}

/// The last messages of a `user.portfolio` channel.
#[derive(Debug, Default)]
pub(crate) struct PortfolioState {
    /// Whether anything may have changed since.
    pub stale: bool,
    /// The last summary sent, by currency.
    pub sent: BTreeMap<CurrencyId, Vec<u8>>,
}

impl PrivateSubscription {
    /// Whether something is to be sent at the end of a window of this length.
    pub(crate) fn is_due_at(&self, interval: Interval) -> bool {
        self.channel.interval() == interval && self.waits()
    }

    /// Whether the messages are sent from the replay buffer, with their positions.
    pub(crate) fn is_sent_from_replay(&self) -> bool {
        self.token.is_some() && self.channel.interval() == Interval::Raw
    }

    /// Whether the replay buffer holds this channel's messages: raw fills and orders.
    pub(crate) fn is_replayable_raw(&self) -> bool {
        is_numbered(&self.channel) && self.channel.interval() == Interval::Raw
    }

    /// Whether it has collected anything for the end of the window.
    pub(crate) fn has_collected(&self) -> bool {
        !(self.orders.is_empty() && self.trades.is_empty() && self.changes.is_empty())
    }

    /// Collects one entry of the replay buffer for the end of the window.
    pub(crate) fn collect(&mut self, entry: &ReplayEntry) {
        let (orders, trades) = match self.channel {
            Channel::UserChanges { .. } => {
                let waiting = self.changes.entry(entry.instrument).or_default();
                (&mut waiting.orders, &mut waiting.trades)
            }
            _ => (&mut self.orders, &mut self.trades),
        };
        match entry.what {
            ReplayEventKind::Fill => trades.push(|part| part.extend_from_slice(&entry.object)),
            ReplayEventKind::Order { id, .. } => drop(orders.insert(id)),
        }
    }

    /// Returns the collected bytes of fills and the number of orders.
    pub(crate) fn collected(&self) -> (usize, usize) {
        let changes = self.changes.values().map(|waiting| (waiting.trades.bytes(), waiting.orders.len()));
        changes.fold((self.trades.bytes(), self.orders.len()), |sum, more| (sum.0 + more.0, sum.1 + more.1))
    }

    pub(crate) fn waits(&self) -> bool {
        let is_portfolio = matches!(self.channel, Channel::UserPortfolio { .. });
        self.has_collected() || (is_portfolio && self.portfolio.stale)
    }
}

/// Whether the messages of a channel have positions from which they can be resumed.
pub(crate) fn is_numbered(channel: &Channel) -> bool {
    matches!(channel, Channel::UserOrders { .. } | Channel::UserTrades { .. } | Channel::UserChanges { .. })
}
