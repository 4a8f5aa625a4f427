//! Halls in use and halls in reserve: who gets messages, and when readers move to another thread.
//!
//! Does        give messages to the halls in use; notice when those have more to do than they can, and when they could do with
//!             one less; have readers moved.
//! Holds       1. a hall in reserve sleeps: it has no listener, gets no messages, and costs its memory;
//!             2. messages, moves and the end come to all inboxes as if at one moment: whoever moves finds in its new hall
//!                everything behind the last message that it got in the old one;
//!             3. the first halls are always in use; a hall goes back into the reserve only when nobody is in it, and nobody
//!                on the way.
//! Leaves out  which readers can be moved, and how they are seated: the floor's (`floor/moving.rs`) and the loops'.
//! Costs       a lock that is almost never contended for each batch of messages; one look at the thread's clock each
//!             [`Relief::window_ms`], where there is a reserve.
//! Start at    [`Reserve`], [`Watch::look`].

use std::net::{IpAddr, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use pitwire_tls::Session;

use crate::board::Board;
use crate::hall::Batch;
use crate::inbox::{Errand, Inbox};
use crate::loops::core_ns;
use crate::programme::Tag;
use pitwire_delivery::StreamId;

/// When halls in reserve are used.
#[derive(Clone, Copy, Debug)]
pub struct Relief {
    /// Of a core, for each hall in use on average: above that, one more is used. Pacing keeps halls below 50 where
    /// messages may wait for company (see [`Pace`](crate::Pace)).
    pub busy_percent: u32,
    /// Of a core, for each hall that would be left: below that, one less.
    pub calm_percent: u32,
    /// How often it is looked at, and how many times in a row before something is done.
    pub window_ms: u32,
    pub busy_windows: u32,
    pub calm_windows: u32,
}

impl Default for Relief {
    fn default() -> Self {
        Relief { busy_percent: 55, calm_percent: 40, window_ms: 100, busy_windows: 4, calm_windows: 50 }
    }
}

/// After so many windows with one more in use, it is looked again whether readers are dealt out evenly.
const LEVEL_WINDOWS: u32 = 10;
/// Fewer than these more than its share are not worth moving.
const UNEVEN: usize = 16;

/// A reader on its way from one hall to another.
pub(crate) struct Mover {
    pub socket: TcpStream,
    /// In which all that is sent and received goes on.
    pub tls: Option<Box<Session>>,
    pub tag: Tag,
    /// Where it counts as coming from.
    pub from: Option<IpAddr>,
    pub place: Place,
}

/// What a hall knows of one that goes, in words that every hall understands.
#[derive(Default)]
pub(crate) struct Place {
    /// On the clock of all halls.
    pub heard_ms: u32,
    /// The last message that it got of each of its streams.
    pub read: Vec<(StreamId, u64)>,
    /// In which form it gets them, and whether it may compress what it says itself.
    pub class: u8,
    pub deflates: bool,
    /// What it has chosen of its first stream, by name: numbers are each hall's own.
    pub keys: Option<Vec<Arc<[u8]>>>,
    pub account: Option<Arc<str>>,
}

struct Standing {
    in_use: usize,
    is_stopping: bool,
    /// Moves into each hall so far.
    moves: Vec<u64>,
}

/// All halls' inboxes.
pub(crate) struct Reserve {
    relief: Relief,
    inboxes: Vec<Arc<Inbox>>,
    /// So many are always in use.
    least: usize,
    standing: RwLock<Standing>,
    /// The same, for whoever need not know it at a certain moment.
    in_use: AtomicUsize,
    /// Per cent of a core that each hall had lately.
    shares: Vec<AtomicU32>,
}

/// What is to be done about how busy halls are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Nothing,
    More,
    Less,
    /// As many as there are, with readers dealt out evenly.
    Level,
}

impl Reserve {
    pub fn new(inboxes: Vec<Arc<Inbox>>, least: usize, relief: Relief) -> Self {
        let shares = inboxes.iter().map(|_| AtomicU32::new(0)).collect();
        let standing = Standing { in_use: least, is_stopping: false, moves: vec![0; inboxes.len()] };
        Reserve { relief, inboxes, least, standing: RwLock::new(standing), in_use: AtomicUsize::new(least), shares }
    }

    pub fn inboxes(&self) -> &[Arc<Inbox>] {
        &self.inboxes
    }

    pub fn in_use(&self) -> usize {
        self.in_use.load(Ordering::Relaxed)
    }

    fn is_empty(&self) -> bool {
        self.least == self.inboxes.len()
    }

    fn change(&self) -> RwLockWriteGuard<'_, Standing> {
        self.standing.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives every hall in use the batch's messages. It waits for moves, some microseconds, and for no hall.
    pub fn send(&self, batch: &Batch) {
        let standing = self.standing.read().unwrap_or_else(PoisonError::into_inner);
        for inbox in self.inboxes.iter().take(standing.in_use) {
            inbox.put(batch.posted(), batch.content());
        }
    }

    /// Nobody moves any more, and everybody is told.
    pub fn stop(&self, reason: &str) {
        self.change().is_stopping = true;
        for inbox in &self.inboxes {
            inbox.run(Errand::Stop { reason: reason.to_owned() });
        }
    }

    /// Hands over readers that have got everything up to a message each, and that whoever asks forgets in `movers`. `None`
    /// when they cannot go now; then `movers` has not been called.
    pub fn hand_over(&self, to: usize, movers: impl FnOnce() -> Vec<Mover>) -> Option<()> {
        let mut standing = self.change();
        let inbox = self.inboxes.get(to).filter(|_| to < standing.in_use && !standing.is_stopping)?;
        if inbox.is_shedding() {
            // What it sheds it declares to everybody behind what waits: also to those who have got it.
            return None;
        }
        let movers = movers();
        standing.moves[to] += movers.len() as u64;
        inbox.run(Errand::Settle(movers));
        Some(())
    }

    /// A hall in which nobody is goes back into the reserve, unless somebody has been sent there since it was asked to.
    pub fn retire(&self, hall: usize, moves: u64) {
        let mut standing = self.change();
        if standing.in_use == hall + 1 && hall >= self.least && standing.moves[hall] == moves {
            standing.in_use = hall;
            self.in_use.store(hall, Ordering::Relaxed);
        }
    }

    fn more(&self, board: &Board) {
        let mut standing = self.change();
        if standing.in_use == self.inboxes.len() || standing.is_stopping {
            return;
        }
        standing.in_use += 1;
        self.in_use.store(standing.in_use, Ordering::Relaxed);
        self.shares[standing.in_use - 1].store(0, Ordering::Relaxed);
        self.level(board, standing.in_use);
    }

    /// Has the last in use give all its readers away, and go.
    fn less(&self, board: &Board) {
        let standing = self.change();
        let (last, counts) = (standing.in_use - 1, connections(board));
        if last < self.least || standing.is_stopping {
            return;
        }
        let fewest = (0..last).min_by_key(|hall| counts[*hall]).unwrap_or(0);
        // Up to its share: a hall holds so many and no more. The rest goes to others when this is asked again.
        let share = counts.iter().take(standing.in_use).sum::<usize>().div_ceil(last.max(1));
        let count = share.saturating_sub(counts[fewest]).max(1);
        self.inboxes[last].run(Errand::Part { to: fewest, count });
        self.inboxes[last].run(Errand::Retire { moves: standing.moves[last] });
    }

    /// Whoever has more than its share gives readers to the one that has fewest.
    fn level(&self, board: &Board, in_use: usize) {
        let counts = connections(board);
        let Some(counts) = counts.get(..in_use) else { return };
        let share = counts.iter().sum::<usize>() / in_use.max(1);
        let to = (0..in_use).min_by_key(|hall| counts[*hall]).unwrap_or(0);
        for (hall, count) in counts.iter().enumerate() {
            if *count > share + share / 8 + UNEVEN {
                self.inboxes[hall].run(Errand::Part { to, count: count - share });
            }
        }
    }
}

fn connections(board: &Board) -> Vec<usize> {
    let count =
        |hall: &crate::Counters| usize::try_from(hall.connections.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    board.all().iter().map(count).collect()
}

/// One hall's look at how much of a core it has had. The first hall's judges them all.
#[derive(Debug)]
pub(crate) struct Watch {
    hall: usize,
    began_ns: u64,
    began_core_ns: u64,
    busy: u32,
    calm: u32,
    level: u32,
}

impl Watch {
    pub fn new(hall: usize) -> Self {
        Watch { hall, began_ns: 0, began_core_ns: 0, busy: 0, calm: 0, level: 0 }
    }

    /// Once a turn.
    pub fn look(&mut self, now_ns: u64, reserve: &Reserve, board: &Board) {
        let since_ns = now_ns.saturating_sub(self.began_ns);
        if reserve.is_empty() || since_ns < u64::from(reserve.relief.window_ms) * 1_000_000 {
            return;
        }
        let core_ns = core_ns();
        let percent = core_ns.saturating_sub(self.began_core_ns).saturating_mul(100) / since_ns.max(1);
        let is_first = self.began_ns == 0;
        (self.began_ns, self.began_core_ns) = (now_ns, core_ns);
        if let Some(share) = reserve.shares.get(self.hall).filter(|_| !is_first) {
            share.store(u32::try_from(percent).unwrap_or(100), Ordering::Relaxed);
        }
        if self.hall > 0 {
            return;
        }
        let in_use = reserve.in_use();
        let shares = reserve.shares.iter().take(in_use).map(|share| share.load(Ordering::Relaxed)).sum();
        match self.judge(shares, in_use, reserve.least..reserve.inboxes.len(), &reserve.relief) {
            Verdict::Nothing => {}
            Verdict::More => reserve.more(board),
            Verdict::Less => reserve.less(board),
            Verdict::Level => {
                // Nobody goes or comes meanwhile.
                let standing = reserve.change();
                reserve.level(board, standing.in_use);
            }
        }
    }

    /// Halls in use have had so many per cent of a core together. `halls`: as many as are always in use, up to all.
    fn judge(&mut self, percent: u32, in_use: usize, halls: Range<usize>, relief: &Relief) -> Verdict {
        let count = u32::try_from(in_use).unwrap_or(u32::MAX);
        let (has_more, has_reserve) = (in_use > halls.start, in_use < halls.end);
        let is_busy = percent > relief.busy_percent.saturating_mul(count);
        let is_calm = has_more && percent < relief.calm_percent.saturating_mul(count - 1);
        self.busy = if is_busy { self.busy + 1 } else { 0 };
        self.calm = if is_calm { self.calm + 1 } else { 0 };
        self.level = if has_more { self.level + 1 } else { 0 };
        if has_reserve && self.busy >= relief.busy_windows {
            (self.busy, self.level) = (0, 0);
            return Verdict::More;
        }
        if self.calm >= relief.calm_windows {
            return Verdict::Less;
        }
        if self.level >= LEVEL_WINDOWS && self.calm == 0 {
            self.level = 0;
            return Verdict::Level;
        }
        Verdict::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_more_is_used_when_all_are_busy_and_one_less_when_the_others_would_not_be() {
        let relief = Relief { busy_windows: 2, calm_windows: 3, ..Relief::default() };
        let mut watch = Watch::new(0);
        let mut said = |percent, in_use| watch.judge(percent, in_use, 2..4, &relief);
        // Two at 55 % are 110: more than that, twice.
        assert_eq!(said(111, 2), Verdict::Nothing);
        assert_eq!(said(110, 2), Verdict::Nothing);
        assert_eq!(said(111, 2), Verdict::Nothing);
        assert_eq!(said(200, 2), Verdict::More);
        // Of three, the two that would be left could have 80 together.
        for percent in [80, 79, 79, 80, 79, 79] {
            assert_ne!(said(percent, 3), Verdict::Less);
        }
        assert_eq!(said(79, 3), Verdict::Less);
        assert_eq!(said(0, 3), Verdict::Less, "again, until it has gone");
        // As few as there may be.
        assert!((0..10).all(|_| said(0, 2) == Verdict::Nothing));
    }

    #[test]
    fn readers_are_dealt_out_again_now_and_then() {
        let (relief, mut watch) = (Relief::default(), Watch::new(0));
        let said: Vec<Verdict> = (0..20).map(|_| watch.judge(300, 3, 2..3, &relief)).collect();
        let expected: Vec<Verdict> =
            (1..=20).map(|n| if n % 10 == 0 { Verdict::Level } else { Verdict::Nothing }).collect();
        assert_eq!(said, expected);
    }

    fn reserve(halls: usize, least: usize) -> (Reserve, Board) {
        let inboxes = (0..halls).map(|_| Arc::new(Inbox::new(1_000).unwrap())).collect();
        (Reserve::new(inboxes, least, Relief::default()), Board::new(halls, None, None))
    }

    fn orders(reserve: &Reserve, hall: usize) -> Vec<String> {
        let mut queue = crate::inbox::Queue::default();
        reserve.inboxes[hall].take(&mut queue);
        let text = |order: &crate::inbox::Order| match order {
            crate::inbox::Order::Errand(Errand::Part { to, count }) => format!("{count} to {to}"),
            crate::inbox::Order::Errand(Errand::Settle(movers)) => format!("{} settle", movers.len()),
            crate::inbox::Order::Errand(Errand::Retire { moves }) => format!("retire after {moves}"),
            crate::inbox::Order::Errand(_) => "something else".into(),
            crate::inbox::Order::Message(message) => format!("message {}", message.seq),
        };
        queue.orders.iter().map(text).collect()
    }

    fn send(reserve: &Reserve, seq: u64) {
        let mut batch = Batch::default();
        batch.text(StreamId(0), b"", seq, b"x");
        reserve.send(&batch);
    }

    #[test]
    fn a_hall_in_reserve_gets_messages_from_when_readers_are_sent_there_until_all_have_gone() {
        let (reserve, board) = reserve(3, 2);
        board.all()[0].connections.store(900, Ordering::Relaxed);
        board.all()[1].connections.store(300, Ordering::Relaxed);
        send(&reserve, 1);
        reserve.more(&board);
        send(&reserve, 2);
        // A share is 400: the first has 500 too many, the second too few.
        assert_eq!(orders(&reserve, 0), ["message 1", "500 to 2", "message 2"]);
        assert_eq!(orders(&reserve, 1), ["message 1", "message 2"]);
        assert_eq!(reserve.hand_over(2, Vec::new), Some(()));
        assert_eq!(orders(&reserve, 2), ["message 2", "0 settle"]);
        reserve.more(&board);
        assert_eq!(reserve.in_use(), 3, "that is all of them");

        reserve.less(&board);
        // 1,200 of two: 600 each, and the second has half of that.
        assert_eq!(orders(&reserve, 2), ["300 to 1", "retire after 0"]);
        reserve.retire(2, 0);
        send(&reserve, 3);
        assert_eq!(orders(&reserve, 2), Vec::<String>::new());
        assert_eq!(orders(&reserve, 1), ["message 3"]);
        assert_eq!(reserve.hand_over(2, || panic!("nobody goes to a hall that gets no messages")), None);
        reserve.less(&board);
        assert_eq!(reserve.in_use(), 2);
    }

    #[test]
    fn nobody_is_sent_where_messages_are_shed_or_everybody_is_told_goodbye_and_no_hall_goes_under_whoever_comes() {
        let (reserve, board) = reserve(2, 1);
        reserve.more(&board);
        let socket = || {
            let (door, mut movers) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), Vec::new());
            let socket = TcpStream::connect(door.local_addr().unwrap()).unwrap();
            movers.push(Mover { socket, tls: None, tag: Tag(1), from: None, place: Place::default() });
            movers
        };
        assert_eq!(reserve.hand_over(1, socket), Some(()));
        // It was asked to go before that one was sent there.
        reserve.retire(1, 0);
        assert_eq!(reserve.in_use(), 2);
        let mut batch = Batch::default();
        (1..=2).for_each(|seq| batch.text(StreamId(0), b"", seq, &[b'x'; 600]));
        reserve.send(&batch);
        reserve.send(&batch);
        assert_eq!(reserve.hand_over(1, || panic!("it sheds")), None);
        orders(&reserve, 1);
        assert_eq!(reserve.hand_over(1, Vec::new), Some(()));
        reserve.stop("over");
        assert_eq!(reserve.hand_over(1, || panic!("it may have ended")), None);
    }
}
