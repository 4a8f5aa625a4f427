//! Which batch comes next: duplicates, gaps, other starts of the venue.
//!
//! Does        take batches as they arrive, give them on in the venue's order, and say what to ask the venue for.
//! Holds       1. a sequence is given on once, and after the one before it;
//!             2. which start of the venue counts is the venue's answer to a question, never what a batch says: a recording of
//!                an earlier start changes nothing;
//!             3. one question at a time; after one that failed, a while of waiting.
//! Leaves out  MACs: what arrives here was checked.
//! Start at    [`Follower::live`], [`Follower::wish`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::protocol::{Batch, Reply};

use crate::upstream::Ask;

/// Batches behind a gap wait for it to be filled, up to so many bytes; what is beyond is asked for again.
const PARKED_BYTES: usize = 32 << 20;
const RETRY_FIRST_NS: u64 = 50_000_000;
const RETRY_MOST_NS: u64 = 2_000_000_000;
/// How often the venue is asked which start it is, however many batches of another one arrive.
const DOUBT_NS: u64 = 200_000_000;

/// What to do with what has arrived.
#[derive(Debug, Default)]
pub struct Progress {
    /// Everything before is void: a new start, or a gap that cannot be filled.
    pub restarted: Option<Restart>,
    /// Batches in order, each with the sequence from which on it is new.
    pub fresh: Vec<(Arc<[u8]>, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    pub epoch: u64,
    /// The sequence of the first message to come.
    pub next: u64,
    /// The venue has begun anew; otherwise only messages are lost.
    pub is_new_start: bool,
}

#[derive(Debug, Default)]
pub struct Follower {
    epoch: Option<u64>,
    /// The sequence to come.
    next: u64,
    /// Somewhere the venue has said that it has come to this one.
    promised: u64,
    /// A batch of another start has come.
    is_doubtful: bool,
    parked: BTreeMap<u64, Arc<[u8]>>,
    parked_bytes: usize,
    is_asking: bool,
    failures: u32,
    not_before_ns: u64,
    /// Until then doubt alone is no reason to ask.
    calm_until_ns: u64,
    pub counts: Counts,
}

/// For the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub batches: u64,
    pub messages: u64,
    /// Batches of what had been taken in already.
    pub repeated: u64,
    /// Batches of another start.
    pub foreign: u64,
    pub gaps: u64,
    /// Messages that came by asking for them.
    pub filled: u64,
    pub restarts: u64,
}

impl Follower {
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// The newest sequence that was given on.
    pub fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Whether nothing is known to be missing. A doubt is not: anybody can raise it by a recording.
    pub fn is_up_to_date(&self) -> bool {
        self.epoch.is_some() && self.promised <= self.next
    }

    /// A batch from the bus.
    pub fn live(&mut self, bytes: Vec<u8>) -> Progress {
        let mut progress = Progress::default();
        let bytes: Arc<[u8]> = bytes.into();
        let Some(batch) = Batch::parse(&bytes) else { return progress };
        if self.epoch != Some(batch.epoch) {
            self.counts.foreign += u64::from(self.epoch.is_some());
            self.is_doubtful = true;
            return progress;
        }
        let (first, next, is_mark) = (batch.first, batch.next(), batch.count == 0);
        self.counts.batches += u64::from(!is_mark);
        if next <= self.next {
            self.counts.repeated += u64::from(!is_mark);
            return progress;
        }
        let was_whole = self.promised <= self.next;
        self.promised = self.promised.max(next);
        if first <= self.next {
            self.give(&bytes, next, &mut progress);
            self.unpark(&mut progress);
        } else {
            self.counts.gaps += u64::from(was_whole);
            self.park(first, &bytes);
        }
        progress
    }

    fn give(&mut self, bytes: &Arc<[u8]>, next: u64, progress: &mut Progress) {
        progress.fresh.push((Arc::clone(bytes), self.next));
        self.counts.messages += next - self.next;
        self.next = next;
    }

    fn park(&mut self, first: u64, bytes: &Arc<[u8]>) {
        let is_mark = Batch::parse(bytes).is_none_or(|batch| batch.count == 0);
        if is_mark || self.parked_bytes + bytes.len() > PARKED_BYTES || self.parked.contains_key(&first) {
            return;
        }
        self.parked_bytes += bytes.len();
        self.parked.insert(first, Arc::clone(bytes));
    }

    fn unpark(&mut self, progress: &mut Progress) {
        while let Some(entry) = self.parked.first_entry().filter(|entry| *entry.key() <= self.next) {
            let bytes = entry.remove();
            self.parked_bytes -= bytes.len();
            if let Some(next) = Batch::parse(&bytes).map(|batch| batch.next()).filter(|next| *next > self.next) {
                self.give(&bytes, next, progress);
            }
        }
    }

    /// What the venue is to be asked now, if anything. The answer must come to [`Self::told`] or [`Self::failed`].
    pub fn wish(&mut self, now_ns: u64) -> Option<Ask> {
        if self.is_asking || now_ns < self.not_before_ns {
            return None;
        }
        let ask = match self.epoch {
            // Its answer says which start it is, too: a gap is filled whatever is in doubt.
            Some(epoch) if self.promised > self.next => Ask::From { epoch, seq: self.next },
            Some(_) if !self.is_doubtful || now_ns < self.calm_until_ns => return None,
            _ => Ask::Status,
        };
        self.is_asking = true;
        Some(ask)
    }

    /// When [`Self::wish`] may have something, if it has nothing now.
    pub fn due_ns(&self) -> Option<u64> {
        match () {
            () if self.is_asking => None,
            () if !self.is_up_to_date() => Some(self.not_before_ns),
            () => self.is_doubtful.then_some(self.not_before_ns.max(self.calm_until_ns)),
        }
    }

    /// The venue's answer to a wish.
    pub fn told(&mut self, ask: &Ask, reply: &Reply, now_ns: u64) -> Progress {
        let mut progress = Progress::default();
        self.is_asking = false;
        self.failures = 0;
        self.not_before_ns = now_ns;
        if self.is_doubtful {
            self.calm_until_ns = now_ns + DOUBT_NS;
        }
        self.is_doubtful = false;
        if self.epoch != Some(reply.epoch) {
            self.restart(reply, true, &mut progress);
            return progress;
        }
        self.promised = self.promised.max(reply.last.saturating_add(1));
        if !matches!(ask, Ask::From { .. }) {
            return progress;
        }
        if reply.oldest > self.next {
            // The venue has let it go, too.
            self.restart(reply, false, &mut progress);
        }
        let before = self.next;
        for bytes in &reply.batches {
            let bytes: Arc<[u8]> = bytes.as_slice().into();
            let Some(batch) = Batch::parse(&bytes).filter(|batch| Some(batch.epoch) == self.epoch) else { continue };
            let (first, next) = (batch.first, batch.next());
            if first <= self.next && next > self.next {
                self.give(&bytes, next, &mut progress);
            }
        }
        self.counts.filled += self.next - before;
        self.unpark(&mut progress);
        progress
    }

    /// A wish could not be asked, or was not answered.
    pub fn failed(&mut self, now_ns: u64) {
        self.is_asking = false;
        self.not_before_ns = now_ns + (RETRY_FIRST_NS << self.failures.min(6)).min(RETRY_MOST_NS);
        self.failures += 1;
    }

    /// Whatever kept the venue from answering is over: the next wish need not wait.
    pub fn hurry(&mut self) {
        self.failures = 0;
        self.not_before_ns = 0;
    }

    /// The venue has answered something else, and was at this point.
    pub fn heard(&mut self, epoch: u64, last: u64) {
        if self.epoch == Some(epoch) {
            self.promised = self.promised.max(last.saturating_add(1));
        } else {
            self.is_doubtful = true;
        }
    }

    fn restart(&mut self, reply: &Reply, is_new_start: bool, progress: &mut Progress) {
        self.counts.restarts += u64::from(self.epoch.is_some());
        self.epoch = Some(reply.epoch);
        self.next = reply.oldest.max(1);
        self.promised = reply.last.saturating_add(1);
        if is_new_start {
            self.parked.clear();
            self.parked_bytes = 0;
        }
        progress.restarted = Some(Restart { epoch: reply.epoch, next: self.next, is_new_start });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Writer, mark};

    fn batch(epoch: u64, first: u64, count: u64) -> Vec<u8> {
        let mut writer = Writer::new(epoch, first);
        (0..count).for_each(|_| writer.push(0, "a", |_| Ok::<(), ()>(())).unwrap());
        writer.finish()
    }

    fn answer(epoch: u64, oldest: u64, last: u64, batches: Vec<Vec<u8>>) -> Reply {
        Reply { epoch, oldest, last, batches, ..Reply::default() }
    }

    /// One that has heard from start 7 that messages up to `last` have been, and has them.
    fn following(last: u64) -> Follower {
        let mut follower = Follower::default();
        assert_eq!(follower.wish(0), Some(Ask::Status));
        follower.told(&Ask::Status, &answer(7, last + 1, last, vec![]), 0);
        assert!(follower.is_up_to_date());
        follower
    }

    /// What was given on, as ranges.
    fn given(progress: &Progress) -> Vec<(u64, u64)> {
        progress.fresh.iter().map(|(bytes, from)| (*from, Batch::parse(bytes).unwrap().next())).collect()
    }

    #[test]
    fn each_message_is_given_on_once_and_in_order() {
        let mut follower = following(10);
        assert_eq!(given(&follower.live(batch(7, 11, 3))), [(11, 14)]);
        assert_eq!(given(&follower.live(batch(7, 11, 3))), [], "a recording");
        assert_eq!(given(&follower.live(batch(7, 12, 4))), [(14, 16)], "half of it is known");
        assert_eq!(given(&follower.live(mark(7, 16, ""))), []);
        assert!(follower.is_up_to_date() && follower.wish(0).is_none());
        assert_eq!((follower.counts.messages, follower.counts.repeated, follower.counts.gaps), (5, 1, 0));
    }

    #[test]
    fn a_gap_is_asked_for_and_what_came_behind_it_waits() {
        let mut follower = following(10);
        assert_eq!(given(&follower.live(batch(7, 13, 2))), []);
        assert_eq!(given(&follower.live(batch(7, 15, 1))), []);
        let ask = follower.wish(0).unwrap();
        assert_eq!(ask, Ask::From { epoch: 7, seq: 11 });
        assert_eq!(follower.wish(0), None, "one question at a time");
        let told = follower.told(&ask, &answer(7, 2, 15, vec![batch(7, 10, 2), batch(7, 12, 1)]), 0);
        assert_eq!(given(&told), [(11, 12), (12, 13), (13, 15), (15, 16)]);
        assert!(follower.is_up_to_date());
        assert_eq!((follower.counts.gaps, follower.counts.filled), (1, 2));
    }

    #[test]
    fn a_loss_at_the_end_shows_by_the_mark() {
        let mut follower = following(10);
        follower.live(mark(7, 14, ""));
        assert!(!follower.is_up_to_date());
        assert_eq!(follower.wish(0), Some(Ask::From { epoch: 7, seq: 11 }));
    }

    #[test]
    fn only_the_venue_says_that_it_has_begun_anew() {
        let mut follower = following(10);
        follower.live(batch(6, 11, 1));
        assert_eq!(follower.counts.foreign, 1);
        let ask = follower.wish(0).unwrap();
        assert_eq!(ask, Ask::Status);
        let told = follower.told(&ask, &answer(7, 2, 10, vec![]), 0);
        assert!(told.restarted.is_none() && follower.is_up_to_date());
        // However often it is repeated, the venue is not asked more often than so.
        follower.live(batch(6, 11, 1));
        assert_eq!((follower.wish(DOUBT_NS - 1), follower.wish(DOUBT_NS)), (None, Some(Ask::Status)));
        let told = follower.told(&Ask::Status, &answer(8, 1, 3, vec![]), DOUBT_NS);
        assert_eq!(told.restarted, Some(Restart { epoch: 8, next: 1, is_new_start: true }));
        assert_eq!(follower.wish(2 * DOUBT_NS), Some(Ask::From { epoch: 8, seq: 1 }));
    }

    #[test]
    fn a_gap_is_filled_however_often_an_earlier_start_is_replayed() {
        let mut follower = following(10);
        follower.live(batch(7, 13, 1));
        for seq in 11..13 {
            follower.live(batch(6, 11, 1));
            let ask = follower.wish(0).unwrap();
            assert_eq!(ask, Ask::From { epoch: 7, seq });
            follower.live(batch(6, 11, 1));
            follower.told(&ask, &answer(7, 2, 13, vec![batch(7, seq, 1)]), 0);
        }
        follower.live(batch(6, 11, 1));
        assert!(follower.is_up_to_date(), "a recording is no gap");
        assert_eq!((follower.last(), follower.wish(0), follower.due_ns()), (13, None, Some(DOUBT_NS)));
        // If the doubt was right, the answer to the gap says so.
        follower.live(batch(7, 15, 1));
        follower.live(batch(8, 1, 1));
        let ask = follower.wish(0).unwrap();
        let told = follower.told(&ask, &answer(8, 1, 1, vec![]), 0);
        assert_eq!(told.restarted, Some(Restart { epoch: 8, next: 1, is_new_start: true }));
    }

    #[test]
    fn what_the_venue_has_let_go_is_said_to_be_lost() {
        let mut follower = following(10);
        follower.live(batch(7, 41, 1));
        let ask = follower.wish(0).unwrap();
        let told = follower.told(&ask, &answer(7, 30, 41, vec![batch(7, 30, 5)]), 0);
        assert_eq!(told.restarted, Some(Restart { epoch: 7, next: 30, is_new_start: false }));
        assert_eq!(given(&told), [(30, 35)]);
        let ask = follower.wish(0).unwrap();
        assert_eq!(ask, Ask::From { epoch: 7, seq: 35 });
        assert_eq!(given(&follower.told(&ask, &answer(7, 30, 41, vec![batch(7, 35, 6)]), 0)), [(35, 41), (41, 42)]);
    }

    #[test]
    fn a_venue_that_does_not_answer_is_asked_again_more_and_more_seldom() {
        let mut follower = Follower::default();
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..8 {
            assert_eq!(follower.wish(now), Some(Ask::Status));
            follower.failed(now);
            let due = follower.due_ns().unwrap();
            assert_eq!(follower.wish(due - 1), None);
            waits.push((due - now) / 1_000_000);
            now = due;
        }
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    }

    #[test]
    fn random_losses_and_repeats_come_out_whole() {
        let mut state = 0x1234_5678_9ABC_DEF1_u64;
        let mut below = |most: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap_or(0) % most
        };
        let mut follower = following(0);
        let (mut sent, mut all, mut got) = (1, Vec::new(), Vec::new());
        let mut take = |progress: &Progress| {
            for (bytes, from) in &progress.fresh {
                got.extend(*from..Batch::parse(bytes).unwrap().next());
            }
        };
        for _ in 0..5_000 {
            let count = 1 + below(4) as u64;
            all.push(batch(7, sent, count));
            sent += count;
            // One in five is lost, one in five comes late.
            match below(5) {
                0 => {}
                1 => take(&follower.live(all[below(all.len())].clone())),
                _ => take(&follower.live(all[all.len() - 1].clone())),
            }
            if below(3) == 0
                && let Some(ask) = follower.wish(u64::MAX / 2)
            {
                let Ask::From { seq, .. } = ask else { panic!("{ask:?}") };
                let behind = |bytes: &&Vec<u8>| Batch::parse(bytes).unwrap().next() > seq;
                let batches = all.iter().filter(behind).take(3).cloned().collect();
                take(&follower.told(&ask, &answer(7, 1, sent - 1, batches), u64::MAX / 2));
            }
        }
        take(&follower.live(mark(7, sent, "")));
        while let Some(ask) = follower.wish(u64::MAX / 2) {
            let Ask::From { seq, .. } = ask else { panic!("{ask:?}") };
            let batches =
                all.iter().filter(|bytes| Batch::parse(bytes).unwrap().next() > seq).take(3).cloned().collect();
            take(&follower.told(&ask, &answer(7, 1, sent - 1, batches), u64::MAX / 2));
        }
        assert_eq!(got, (1..sent).collect::<Vec<_>>());
    }
}
