//! Recent messages of private channels, kept so that a subscriber can resume.
//!
//! Does        keep the newest order and fill messages of accounts with resumable subscriptions,
//!             each with its position.
//! Holds       1. positions only grow, and a position is never later than the venue time of the
//!                messages that follow: everything since then is found in the history by time;
//!             2. memory is bounded by [`MOST_BYTES`] per account, for such accounts only;
//!             3. the buffer of an account without subscribers is dropped after [`RESUMABLE_NS`].
//! Leaves out  which subscriber gets which message: see `resume`.
//! Costs       one encoding of each change of such an account.
//! Start at    [`ReplayBuffers::record`], [`ReplayBuffer::after`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::account_events::{AccountEvent, AccountEventKind};
use crate::codec::{Json, Token, objects};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, InstrumentId, OrderId, VenueNanos};

use crate::account_objects::order_moment;

/// How long the buffer of an account is kept after its last subscriber left, in nanoseconds of
/// venue time.
pub const RESUMABLE_NS: u64 = 120_000_000_000;
/// Buffer size of one account in bytes: some thousand messages.
const MOST_BYTES: usize = 512 * 1024;
/// Overhead of each entry in bytes, beside its text.
const ENTRY_BYTES: usize = 64;

/// A position in an account's messages: venue time in nanoseconds, and how many messages were sent
/// before at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReplayPosition {
    pub at: u64,
    pub part: u32,
}

impl ReplayPosition {
    pub fn of(token: Token) -> ReplayPosition {
        ReplayPosition { at: token.number, part: token.part }
    }

    pub fn token(self, epoch: u64) -> Token {
        Token { epoch, number: self.at, part: self.part }
    }

    fn next(self, at: u64) -> ReplayPosition {
        if at > self.at {
            ReplayPosition { at, part: 0 }
        } else {
            ReplayPosition { at: self.at, part: self.part.saturating_add(1) }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayEventKind {
    Fill,
    Order { id: OrderId, triggers: bool },
}

#[derive(Debug)]
pub(crate) struct ReplayEntry {
    pub place: ReplayPosition,
    pub instrument: InstrumentId,
    pub what: ReplayEventKind,
    /// The JSON object of the fill or the order.
    pub object: Vec<u8>,
}

/// The messages of one account.
#[derive(Debug)]
pub(crate) struct ReplayBuffer {
    kept: VecDeque<ReplayEntry>,
    bytes: usize,
    /// The oldest position that can be resumed from.
    pub first: ReplayPosition,
    pub last: ReplayPosition,
    subscribed_at: VenueNanos,
}

impl ReplayBuffer {
    fn new(now: VenueNanos) -> ReplayBuffer {
        let place = ReplayPosition { at: now.0, part: 0 };
        ReplayBuffer { kept: VecDeque::new(), bytes: 0, first: place, last: place, subscribed_at: now }
    }

    /// Returns the messages after a position, oldest first.
    pub fn after(&self, place: ReplayPosition) -> impl Iterator<Item = &ReplayEntry> {
        let next = self.kept.partition_point(|entry| entry.place <= place);
        self.kept.range(next..)
    }

    fn push(&mut self, at: u64, instrument: InstrumentId, what: ReplayEventKind, object: Vec<u8>) {
        self.last = self.last.next(at);
        self.bytes += object.len() + ENTRY_BYTES;
        self.kept.push_back(ReplayEntry { place: self.last, instrument, what, object });
    }

    /// Drops the oldest messages beyond the size limit. All connected subscribers have been sent
    /// them.
    fn trim(&mut self) {
        while self.bytes > MOST_BYTES
            && let Some(gone) = self.kept.pop_front()
        {
            self.bytes -= gone.object.len() + ENTRY_BYTES;
            self.first = gone.place;
        }
    }
}

/// The buffers of all accounts with resumable subscriptions.
#[derive(Debug, Default)]
pub(crate) struct ReplayBuffers {
    pub epoch: u64,
    /// Whether the venue's history holds the messages of earlier epochs.
    pub has_history: bool,
    accounts: BTreeMap<AccountId, ReplayBuffer>,
}

impl ReplayBuffers {
    /// Returns the buffer of an account, and starts one if there is none.
    pub fn open(&mut self, account: AccountId, now: VenueNanos) -> &ReplayBuffer {
        let buffer = self.accounts.entry(account).or_insert_with(|| ReplayBuffer::new(now));
        buffer.subscribed_at = buffer.subscribed_at.max(now);
        buffer
    }

    pub fn of(&self, account: AccountId) -> Option<&ReplayBuffer> {
        self.accounts.get(&account)
    }

    /// Records events. Must be called before the sessions are notified of them.
    pub fn record(&mut self, engine: &Engine, events: &[AccountEvent]) {
        if self.accounts.is_empty() {
            return;
        }
        let touched: BTreeSet<AccountId> = events.iter().map(AccountEvent::account).collect();
        for account in touched {
            let Some(buffer) = self.accounts.get_mut(&account) else { continue };
            // Messages of this call are not trimmed: connected subscribers are sent them from the
            // buffer.
            buffer.trim();
            let of_account = events.iter().filter(|event| event.account() == account);
            let mut entries: Vec<NewEntry> = of_account.filter_map(|event| entry_of(engine, event)).collect();
            // A later message of this turn may carry an earlier time than an order that is sent in
            // its current state, so the times are made non-decreasing from the end.
            let mut earliest = u64::MAX;
            for (at, ..) in entries.iter_mut().rev() {
                earliest = earliest.min(*at);
                *at = earliest;
            }
            for (at, instrument, what, object) in entries {
                buffer.push(at, instrument, what, object);
            }
        }
    }

    /// Forgets the messages of an account, because some were not recorded.
    pub fn forget(&mut self, account: AccountId) {
        self.accounts.remove(&account);
    }

    /// Drops the buffers without a subscriber for [`RESUMABLE_NS`]. `subscribed` are the
    /// accounts with a subscriber now.
    pub fn expire(&mut self, subscribed: impl Iterator<Item = AccountId>, now: VenueNanos) {
        for account in subscribed {
            if let Some(buffer) = self.accounts.get_mut(&account) {
                buffer.subscribed_at = now;
            }
        }
        self.accounts.values_mut().for_each(ReplayBuffer::trim);
        self.accounts.retain(|_, buffer| buffer.subscribed_at.0.saturating_add(RESUMABLE_NS) > now.0);
    }
}

type NewEntry = (u64, InstrumentId, ReplayEventKind, Vec<u8>);

fn entry_of(engine: &Engine, event: &AccountEvent) -> Option<NewEntry> {
    let mut object = Vec::new();
    match &event.kind {
        AccountEventKind::Fill(fill) => {
            let market = engine.market(fill.instrument)?;
            objects::user_trade(&mut Json::new(&mut object), &market.spec, fill, engine.currencies());
            Some((fill.trade.at.0, fill.instrument, ReplayEventKind::Fill, object))
        }
        AccountEventKind::Order { record, triggers } => {
            let market = engine.market(record.instrument)?;
            let moment = objects::OrderMoment { triggers: *triggers, ..order_moment(engine, record) };
            objects::order(&mut Json::new(&mut object), &market.spec, record, moment);
            let what = ReplayEventKind::Order { id: record.id, triggers: *triggers };
            Some((record.updated.0, record.instrument, what, object))
        }
        AccountEventKind::Report(_) | AccountEventKind::Money => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(at: u64, part: u32) -> ReplayPosition {
        ReplayPosition { at, part }
    }

    #[test]
    fn replay_positions_grow_and_oldest_entries_are_dropped() {
        let mut buffer = ReplayBuffer::new(VenueNanos(5));
        let object = vec![b'x'; MOST_BYTES / 4 - ENTRY_BYTES];
        for at in [5, 5, 7, 6] {
            buffer.push(at, InstrumentId(0), ReplayEventKind::Fill, object.clone());
        }
        let places: Vec<ReplayPosition> = buffer.after(place(5, 0)).map(|entry| entry.place).collect();
        assert_eq!(places, [place(5, 1), place(5, 2), place(7, 0), place(7, 1)]);
        assert_eq!((buffer.first, buffer.last), (place(5, 0), place(7, 1)));
        assert_eq!(buffer.after(place(7, 0)).count(), 1);
        assert_eq!(buffer.after(place(7, 1)).count(), 0);
        buffer.push(9, InstrumentId(0), ReplayEventKind::Fill, object);
        assert_eq!(buffer.after(place(5, 0)).count(), 5, "a connected subscriber has not received them yet");
        buffer.trim();
        assert_eq!((buffer.first, buffer.after(buffer.first).count()), (place(5, 1), 4));
    }

    #[test]
    fn replay_buffer_without_subscriber_expires() {
        let (mut buffers, now) = (ReplayBuffers::default(), VenueNanos(1));
        buffers.open(AccountId(3), now);
        buffers.open(AccountId(4), now);
        buffers.expire([AccountId(4)].into_iter(), VenueNanos(RESUMABLE_NS));
        buffers.expire([].into_iter(), VenueNanos(RESUMABLE_NS + 1));
        assert!(buffers.of(AccountId(3)).is_none() && buffers.of(AccountId(4)).is_some());
    }
}
