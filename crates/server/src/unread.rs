//! Bytes of answers and notices that connections on delivery threads have not read.
//!
//! Holds       1. a connection with [`ROOM_BYTES`] of them gets no more answers, and an account
//!                with too many gets none at all: see [`Unread::has_room`];
//!             2. a connection that does not read in time is closed, and so are the connections
//!                with the most unread bytes if all of them have too many.
//! Leaves out  messages of public channels, which wait in rings.
//! Start at    [`Unread::add`], [`Unread::report`].

use std::collections::{BTreeMap, BTreeSet};

use pitwire_model::AccountId;
use pitwire_net::{ConnectionId, Limits};
use pitwire_publisher::{OUTBOX_REPORT_BYTES, OutboxReport};
use pitwire_websocket::{Opcode, write_header};

/// Unread bytes up to which a connection gets more answers. Above it, its thread reads no more
/// requests either.
const ROOM_BYTES: usize = 64 * 1024;
/// Most bytes of one connection that count.
const COUNTED_BYTES: usize = 1024 * 1024;
/// A connection that reads this many bytes reads its answers.
const PROGRESS_BYTES: usize = 64 * 1024;
/// Interval in nanoseconds between two looks for connections that do not read.
const CHECK_NS: u64 = 1_000_000_000;

/// The unread bytes of one connection.
#[derive(Clone, Copy, Debug, Default)]
struct UnreadCount {
    account: Option<AccountId>,
    /// Bytes for the connection since it came to its thread, modulo 2^32.
    sent: u32,
    /// How many of them its thread has taken in, and what waits there, by the last report.
    taken: u32,
    waiting: usize,
    /// When it had to begin to read, or last read [`PROGRESS_BYTES`].
    since_ns: u64,
    read_since: usize,
}

impl UnreadCount {
    /// Unread bytes that count. The thread does not report the last [`OUTBOX_REPORT_BYTES`].
    fn bytes(&self) -> usize {
        let unread = self.sent.wrapping_sub(self.taken) as usize + self.waiting;
        unread.saturating_sub(OUTBOX_REPORT_BYTES).min(COUNTED_BYTES)
    }

    fn has_room(&self) -> bool {
        self.bytes() < ROOM_BYTES
    }
}

/// The unread bytes of all connections on delivery threads.
#[derive(Debug)]
pub struct Unread {
    counts: BTreeMap<ConnectionId, UnreadCount>,
    accounts: BTreeMap<AccountId, usize>,
    all_bytes: usize,
    /// The connections that have something to read.
    waiting: BTreeSet<ConnectionId>,
    /// Connections whose room has changed since the last look.
    changed: BTreeMap<ConnectionId, bool>,
    has_freed: bool,
    now_ns: u64,
    check_due_ns: u64,
    limits: Limits,
}

impl Default for Unread {
    fn default() -> Self {
        let defaults = Limits::default();
        // The venue thread has a separate limit for its connections.
        Self::new(Limits { outbox_bytes: defaults.outbox_bytes / 2, ..defaults })
    }
}

impl Unread {
    fn new(limits: Limits) -> Self {
        Unread {
            counts: BTreeMap::new(),
            accounts: BTreeMap::new(),
            all_bytes: 0,
            waiting: BTreeSet::new(),
            changed: BTreeMap::new(),
            has_freed: false,
            now_ns: 0,
            check_due_ns: 0,
            limits,
        }
    }

    /// Notes the time of the turn, in nanoseconds of the steady clock.
    pub fn begin_turn(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Counts the bytes of a connection against an account from here on.
    pub fn charge(&mut self, id: ConnectionId, account: AccountId) {
        self.change(id, |count| count.account = Some(account));
    }

    /// Counts a text message that is sent to a connection.
    pub fn add(&mut self, id: ConnectionId, text_bytes: usize) {
        let mut header = Vec::new();
        write_header(&mut header, Opcode::Text, text_bytes);
        let bytes = u32::try_from(header.len() + text_bytes).unwrap_or(u32::MAX);
        self.change(id, |count| count.sent = count.sent.wrapping_add(bytes));
    }

    /// Notes the outbound queue of a connection.
    pub fn report(&mut self, report: OutboxReport) {
        let now_ns = self.now_ns;
        self.change(ConnectionId(report.subscriber.0), |count| {
            let before = count.bytes();
            (count.taken, count.waiting) = (report.taken, report.waiting);
            count.read_since += before.saturating_sub(count.bytes());
            if count.read_since >= PROGRESS_BYTES {
                (count.since_ns, count.read_since) = (now_ns, 0);
            }
        });
    }

    fn change(&mut self, id: ConnectionId, change: impl FnOnce(&mut UnreadCount)) {
        let count = self.counts.entry(id).or_default();
        let before = *count;
        change(count);
        let after = *count;
        if after.bytes() == 0 {
            self.waiting.remove(&id);
        } else if self.waiting.insert(id) {
            (count.since_ns, count.read_since) = (self.now_ns, 0);
        }
        if before.has_room() != after.has_room() {
            self.changed.insert(id, after.has_room());
            self.has_freed |= after.has_room();
        }
        self.count(before, after);
    }

    /// Moves a connection from one count to another.
    fn count(&mut self, before: UnreadCount, after: UnreadCount) {
        self.all_bytes = self.all_bytes + after.bytes() - before.bytes();
        if let Some(account) = after.account.filter(|_| after.bytes() > 0) {
            *self.accounts.entry(account).or_default() += after.bytes();
        }
        if let Some(account) = before.account
            && let Some(bytes) = self.accounts.get_mut(&account)
        {
            let most = self.limits.outbox_bytes_per_payer;
            // With `after`, if it is the same account.
            let was = *bytes - if after.account == before.account { after.bytes() } else { 0 };
            *bytes -= before.bytes();
            self.has_freed |= *bytes < was && was >= most && *bytes < 2 * most;
            if *bytes == 0 {
                self.accounts.remove(&account);
            }
        }
    }

    /// Says whether a connection may get more answers. A connection that has read everything may go
    /// on up to twice the limit of its account, because another connection probably does not read.
    pub fn has_room(&self, id: ConnectionId) -> bool {
        let Some(count) = self.counts.get(&id) else { return true };
        let of_account = count.account.and_then(|account| self.accounts.get(&account)).copied().unwrap_or(0);
        let factor = if count.bytes() == 0 { 2 } else { 1 };
        count.has_room() && of_account < factor * self.limits.outbox_bytes_per_payer
    }

    /// Returns the connections whose own room has changed since the last call.
    pub fn take_room_changes(&mut self) -> BTreeMap<ConnectionId, bool> {
        std::mem::take(&mut self.changed)
    }

    /// Says whether some connection may have got room since the last call.
    pub fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.has_freed)
    }

    /// Forgets a connection that has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.waiting.remove(&id);
        self.changed.remove(&id);
        if let Some(count) = self.counts.remove(&id) {
            self.count(count, UnreadCount::default());
        }
    }

    /// Returns the connections that must be closed now, and forgets them.
    pub fn take_slow(&mut self) -> Vec<ConnectionId> {
        let mut slow = Vec::new();
        if self.now_ns >= self.check_due_ns {
            self.check_due_ns = self.now_ns + CHECK_NS;
            let is_late = |count: &UnreadCount| self.now_ns > count.since_ns + self.limits.unread_ns;
            slow.extend(self.waiting.iter().filter(|id| self.counts.get(id).is_some_and(is_late)).copied());
        }
        slow.iter().for_each(|id| self.forget(*id));
        if self.all_bytes > self.limits.outbox_bytes {
            let of_waiting = |id: &ConnectionId| Some((self.counts.get(id)?.bytes(), *id));
            let mut largest: Vec<_> = self.waiting.iter().filter_map(of_waiting).collect();
            largest.sort_unstable();
            while self.all_bytes > self.limits.outbox_bytes / 4 * 3
                && let Some((_, id)) = largest.pop()
            {
                self.forget(id);
                slow.push(id);
            }
        }
        slow
    }
}

#[cfg(test)]
mod tests {
    use pitwire_publisher::SubscriberId;

    use super::*;

    const KIB: usize = 1024;
    const SECOND_NS: u64 = 1_000_000_000;
    /// A text whose frame has 100 KiB.
    const TEXT: usize = 100 * KIB - 10;

    fn unread(max: usize, max_of_account: usize) -> Unread {
        let limits =
            Limits { outbox_bytes: max * KIB, outbox_bytes_per_payer: max_of_account * KIB, ..Limits::default() };
        Unread::new(limits)
    }

    fn report(unread: &mut Unread, id: u64, taken: usize, waiting: usize) {
        let (subscriber, taken) = (SubscriberId(id), u32::try_from(taken * KIB).unwrap());
        unread.report(OutboxReport { subscriber, taken, waiting: waiting * KIB });
    }

    #[test]
    fn connection_has_room_again_when_it_has_read() {
        let (mut unread, id) = (unread(10_000, 10_000), ConnectionId(1));
        unread.add(id, TEXT);
        assert!(!unread.has_room(id) && unread.has_room(ConnectionId(2)));
        assert_eq!(unread.take_room_changes(), [(id, false)].into());
        report(&mut unread, 1, 100, 90);
        assert!(!unread.has_room(id) && !unread.take_freed());
        report(&mut unread, 1, 100, 70);
        assert!(unread.has_room(id) && unread.take_freed());
        assert_eq!(unread.take_room_changes(), [(id, true)].into());
        report(&mut unread, 1, 100, 0);
        assert_eq!(unread.all_bytes, 0);
    }

    #[test]
    fn bytes_between_the_threads_are_counted_once() {
        let (mut unread, id) = (unread(10_000, 10_000), ConnectionId(1));
        // The sums wrap.
        for number in 1..=45_000_usize {
            unread.add(id, TEXT);
            let taken = u32::try_from(number * 100 * KIB % (1 << 32)).unwrap();
            assert_eq!(unread.all_bytes, (100 - 16) * KIB);
            unread.report(OutboxReport { subscriber: SubscriberId(1), taken, waiting: 0 });
            assert_eq!(unread.all_bytes, 0);
        }
    }

    #[test]
    fn connections_of_an_account_share_its_limit() {
        let mut unread = unread(10_000, 150);
        let [one, two, idle, other] = [1, 2, 3, 4].map(ConnectionId);
        for (id, account) in [(one, 7), (two, 7), (idle, 7), (other, 8)] {
            unread.charge(id, AccountId(account));
        }
        unread.add(one, TEXT);
        unread.add(two, 40 * KIB);
        assert!([two, idle, other].iter().all(|id| unread.has_room(*id)));
        unread.add(idle, TEXT);
        report(&mut unread, 3, 100, 0);
        unread.add(ConnectionId(5), TEXT);
        unread.charge(ConnectionId(5), AccountId(7));
        assert_eq!([two, idle, other].map(|id| unread.has_room(id)), [false, true, true]);
        unread.add(ConnectionId(6), TEXT + 100 * KIB);
        unread.charge(ConnectionId(6), AccountId(7));
        assert!(!unread.has_room(idle), "twice the limit stops every connection of the account");
        assert!(unread.take_freed(), "the third has read");
        unread.forget(ConnectionId(6));
        assert!(unread.take_freed() && unread.has_room(idle) && !unread.has_room(two));
        unread.forget(ConnectionId(5));
        assert!(unread.take_freed() && unread.has_room(two));
        [one, two, idle].into_iter().for_each(|id| unread.forget(id));
        assert!(unread.accounts.is_empty());
    }

    #[test]
    fn connection_that_does_not_read_in_time_is_closed() {
        let (mut unread, slow, quick) = (unread(10_000, 10_000), ConnectionId(1), ConnectionId(2));
        unread.add(slow, TEXT);
        unread.add(quick, TEXT);
        unread.add(ConnectionId(3), 10 * KIB);
        unread.begin_turn(29 * SECOND_NS);
        report(&mut unread, 2, 100, 30);
        unread.add(quick, TEXT);
        assert_eq!(unread.take_slow(), []);
        unread.begin_turn(31 * SECOND_NS);
        assert_eq!(unread.take_slow(), [slow]);
        unread.begin_turn(60 * SECOND_NS);
        assert_eq!(unread.take_slow(), [quick]);
        assert_eq!(unread.all_bytes, 0);
    }

    #[test]
    fn connections_with_the_most_unread_bytes_are_closed_first() {
        let mut unread = unread(1_000, 10_000);
        for (id, kib) in [(1, 300), (2, 400), (3, 200), (4, 170)] {
            unread.add(ConnectionId(id), kib * KIB);
        }
        assert_eq!(unread.take_slow(), [ConnectionId(2)]);
        assert_eq!(unread.take_slow(), []);
    }
}
