//! Changes of accounts that wait to be sent to their connections.
//!
//! Holds       1. changes of an account are sent in order, and only while its connections have
//!                room;
//!             2. accounts take turns;
//!             3. a part makes as many notices as its caller says, however many connections the
//!                account has;
//!             4. an account has at most [`MAX_EVENTS`] changes that wait.
//! Start at    [`PrivateEvents::push`], [`PrivateEvents::next`].

use std::collections::{BTreeMap, VecDeque};

use pitwire_deribit::AccountEvent;
use pitwire_model::AccountId;
use pitwire_net::ConnectionId;

use crate::account_listeners::AccountListeners;

/// Most notices that the changes of a command are sent as at once. Writing them takes about half a
/// millisecond.
pub const NOTICES_PER_COMMAND: usize = 512;
/// Notices of a turn that follows one whose notices are not all written: about as many as a turn
/// writes at least.
pub const NOTICES_WHILE_BEHIND: usize = 16;
/// Most changes of one account that wait. A command makes about 20,000 of them, two for each trade.
const MAX_EVENTS: usize = 1 << 17;
/// Time in nanoseconds that the changes of an account wait for a connection without room.
const MAX_WAIT_NS: u64 = 10_000_000_000;

/// Changes of one account, oldest first.
#[derive(Debug)]
struct AccountQueue {
    events: VecDeque<AccountEvent>,
    /// The last connection that has got the first change, if there are more.
    sent_to: Option<ConnectionId>,
    /// When the queue began, or changes were last taken from it.
    since_ns: u64,
}

/// All changes that wait.
#[derive(Debug, Default)]
pub struct PrivateEvents {
    accounts: BTreeMap<AccountId, AccountQueue>,
    /// The keys of `accounts` in turn.
    turns: VecDeque<AccountId>,
}

/// Changes of one account to send now.
#[derive(Debug)]
pub struct EventPart {
    pub account: AccountId,
    pub events: Vec<AccountEvent>,
    pub to: Vec<ConnectionId>,
    /// No part with these changes was taken before.
    pub is_first: bool,
}

impl PrivateEvents {
    /// Says whether changes of an account wait, so that newer ones have to wait behind them.
    pub fn has(&self, account: AccountId) -> bool {
        self.accounts.contains_key(&account)
    }

    /// Adds changes of one account, in order. Returns false if they are too many: all changes of
    /// the account are dropped then.
    pub fn push(&mut self, account: AccountId, events: Vec<AccountEvent>, now_ns: u64) -> bool {
        if events.is_empty() {
            return true;
        }
        let queue = self.accounts.entry(account).or_insert_with(|| {
            self.turns.push_back(account);
            AccountQueue { events: VecDeque::new(), sent_to: None, since_ns: now_ns }
        });
        queue.events.extend(events);
        if queue.events.len() <= MAX_EVENTS {
            return true;
        }
        self.accounts.remove(&account);
        self.turns.retain(|other| *other != account);
        false
    }

    /// Returns the place in turn of the next account whose next `notices` connections have room.
    fn next_at(
        &self,
        notices: usize,
        listeners: &AccountListeners,
        has_room: impl Fn(ConnectionId) -> bool,
    ) -> Option<usize> {
        self.turns.iter().position(|account| {
            let sent_to = self.accounts.get(account).and_then(|queue| queue.sent_to);
            listeners.behind(*account, sent_to).take(notices).all(&has_room)
        })
    }

    /// Says whether a part of about `notices` can be sent now.
    pub fn has_next(
        &self,
        notices: usize,
        listeners: &AccountListeners,
        has_room: impl Fn(ConnectionId) -> bool,
    ) -> bool {
        self.next_at(notices, listeners, has_room).is_some()
    }

    /// Takes a part of the changes of the next account whose connections have room: about `notices`
    /// notices. An account with more connections than that gets one change, for some of them.
    pub fn next(
        &mut self,
        notices: usize,
        now_ns: u64,
        listeners: &AccountListeners,
        has_room: impl Fn(ConnectionId) -> bool,
    ) -> Option<EventPart> {
        let notices = notices.max(1);
        let account = self.turns.remove(self.next_at(notices, listeners, has_room)?)?;
        let queue = self.accounts.get_mut(&account)?;
        queue.since_ns = now_ns;
        let is_first = queue.sent_to.is_none();
        let to: Vec<ConnectionId> = listeners.behind(account, queue.sent_to).take(notices).collect();
        queue.sent_to = to.last().copied().filter(|last| listeners.behind(account, Some(*last)).next().is_some());
        let events = if queue.sent_to.is_some() {
            queue.events.front().cloned().into_iter().collect()
        } else {
            let count = if is_first { notices / to.len().max(1) } else { 1 };
            queue.events.drain(..count.min(queue.events.len())).collect()
        };
        if queue.events.is_empty() {
            self.accounts.remove(&account);
        } else {
            self.turns.push_back(account);
        }
        Some(EventPart { account, events, to, is_first })
    }

    /// Returns when [`Self::blocked`] next has an account, if no changes are taken before.
    pub fn blocked_due_ns(&self) -> Option<u64> {
        self.accounts.values().map(|queue| queue.since_ns + MAX_WAIT_NS).min()
    }

    /// Returns the accounts whose changes have waited too long for a connection.
    pub fn blocked(&self, now_ns: u64) -> Vec<AccountId> {
        let is_blocked = |queue: &AccountQueue| now_ns >= queue.since_ns + MAX_WAIT_NS;
        self.accounts.iter().filter(|(_, queue)| is_blocked(queue)).map(|(account, _)| *account).collect()
    }
}

#[cfg(test)]
mod tests {
    use pitwire_engine::Engine;
    use pitwire_projections::{Change, Views};

    use super::*;

    fn push(waiting: &mut PrivateEvents, account: u32, count: usize) -> bool {
        let changes = vec![Change::Balance { account: AccountId(account) }; count];
        let none = std::iter::empty();
        let events = pitwire_deribit::account_events(&Engine::default(), &Views::new(), &changes, |_| true, none);
        waiting.push(AccountId(account), events, 7)
    }

    /// Connections of two accounts: 100 to 129, and 200.
    fn listeners() -> AccountListeners {
        let mut listeners = AccountListeners::default();
        (100..130).for_each(|id| listeners.set(ConnectionId(id), [AccountId(1)].into_iter()));
        listeners.set(ConnectionId(200), [AccountId(2)].into_iter());
        listeners
    }

    /// Takes the next part while the connection `full` has no room. Returns its account, the number
    /// of its changes, and its connections.
    fn next(waiting: &mut PrivateEvents, notices: usize, full: u64) -> Option<(u32, usize, Vec<u64>)> {
        let part = waiting.next(notices, 9, &listeners(), |id| id.0 != full)?;
        Some((part.events[0].account().0, part.events.len(), part.to.iter().map(|id| id.0).collect()))
    }

    #[test]
    fn changes_are_sent_by_the_number_of_listeners_and_accounts_take_turns() {
        let mut waiting = PrivateEvents::default();
        assert!(push(&mut waiting, 1, 1_000) && push(&mut waiting, 2, 3) && push(&mut waiting, 3, 0));
        assert!(waiting.has(AccountId(2)) && !waiting.has(AccountId(3)));
        let of_first = Vec::from_iter(100..130);
        assert_eq!(next(&mut waiting, 600, 0), Some((1, 20, of_first.clone())), "600 notices for 30 connections");
        assert_eq!(next(&mut waiting, 600, 0), Some((2, 3, vec![200])));
        assert_eq!(next(&mut waiting, usize::MAX, 0), Some((1, 980, of_first)));
        assert_eq!((next(&mut waiting, 600, 0), waiting.accounts.len()), (None, 0));
    }

    #[test]
    fn change_reaches_more_connections_than_a_part_has_notices_one_after_the_other() {
        let mut waiting = PrivateEvents::default();
        assert!(push(&mut waiting, 1, 2));
        let mut firsts = 0;
        for _ in 0..2 {
            for ids in [100..112, 112..124, 124..130] {
                let part = waiting.next(12, 9, &listeners(), |_| true).expect("a part");
                let to: Vec<u64> = part.to.iter().map(|id| id.0).collect();
                assert_eq!((part.events.len(), to), (1, Vec::from_iter(ids)));
                firsts += usize::from(part.is_first);
            }
        }
        assert_eq!((firsts, next(&mut waiting, 12, 0)), (2, None));
    }

    #[test]
    fn connection_without_room_stops_only_the_parts_that_have_it() {
        let mut waiting = PrivateEvents::default();
        assert!(push(&mut waiting, 1, 1));
        assert_eq!(next(&mut waiting, 20, 125).map(|part| part.2.len()), Some(20));
        assert_eq!(next(&mut waiting, 20, 125), None);
        assert!(!waiting.has_next(20, &listeners(), |id| id.0 != 125));
        // It leaves, and so do all the others.
        let part = waiting.next(20, 9, &AccountListeners::default(), |_| true).expect("a part");
        assert_eq!((part.events.len(), part.to.len(), part.is_first), (1, 0, false));
        assert!(!waiting.has(AccountId(1)));
    }

    #[test]
    fn changes_wait_for_a_connection_without_room_but_not_for_ever() {
        let mut waiting = PrivateEvents::default();
        assert!(push(&mut waiting, 1, 50) && push(&mut waiting, 2, 1));
        assert_eq!(next(&mut waiting, 30, 129), Some((2, 1, vec![200])));
        assert_eq!(next(&mut waiting, 30, 129), None);
        assert!(!waiting.has_next(30, &listeners(), |id| id.0 != 129) && waiting.has_next(30, &listeners(), |_| true));
        let due_ns = 7 + MAX_WAIT_NS;
        assert_eq!(waiting.blocked_due_ns(), Some(due_ns));
        assert_eq!((waiting.blocked(due_ns - 1), waiting.blocked(due_ns)), (vec![], vec![AccountId(1)]));
        assert_eq!(next(&mut waiting, 30, 0).map(|part| part.1), Some(1));
        assert_eq!(waiting.blocked_due_ns(), Some(9 + MAX_WAIT_NS));
    }

    #[test]
    fn account_with_too_many_changes_loses_them_all() {
        let mut waiting = PrivateEvents::default();
        assert!(push(&mut waiting, 1, MAX_EVENTS));
        assert!(!push(&mut waiting, 1, 1));
        assert_eq!(next(&mut waiting, 10, 0), None);
        assert!(push(&mut waiting, 1, 1));
    }
}
