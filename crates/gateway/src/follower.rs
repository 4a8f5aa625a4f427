//! Puts batches into the venue's order: duplicates, gaps, restarts of the venue.
//!
//! Does        Takes batches as they arrive, returns them in order, and says what to ask the venue
//!             for.
//! Holds       1. Each sequence is passed on once, after the one before it.
//!             2. Only the venue's answer to a question changes which start of the venue counts. A
//!                batch never does, so a recording of an earlier start has no effect.
//!             3. One question is under way at a time. After a failure the next one waits.
//! Leaves out  MACs: the caller has verified them.
//! Start at    [`Follower::batch`], [`Follower::next_question`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::protocol::{Batch, Reply};

use crate::upstream::VenueQuestion;

/// Most bytes of batches that wait behind a gap. The gateway asks for further batches again when
/// the gap is filled.
const PARKED_BYTES: usize = 32 << 20;
const RETRY_FIRST_NS: u64 = 50_000_000;
const RETRY_MOST_NS: u64 = 2_000_000_000;
/// Shortest interval between two questions which start is current, in nanoseconds, however many
/// batches of another start arrive.
const DOUBT_NS: u64 = 200_000_000;

/// Consequences of an event.
#[derive(Debug, Default)]
pub struct FollowerProgress {
    /// Set if everything before is void: after a restart of the venue, or after a gap that cannot
    /// be filled.
    pub restarted: Option<FollowerRestart>,
    /// Batches in order, each with the sequence from which on its messages are new.
    pub fresh: Vec<(Arc<[u8]>, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerRestart {
    pub epoch: u64,
    /// Sequence of the first message to come.
    pub next: u64,
    /// The venue has restarted. Otherwise only messages are lost.
    pub is_new_start: bool,
}

#[derive(Debug, Default)]
pub struct Follower {
    epoch: Option<u64>,
    /// Sequence of the next message.
    next: u64,
    /// The venue has announced that all sequences below this exist.
    promised: u64,
    /// A batch of another start has arrived.
    is_doubtful: bool,
    parked: BTreeMap<u64, Arc<[u8]>>,
    parked_bytes: usize,
    is_asking: bool,
    failures: u32,
    not_before_ns: u64,
    /// Until this time the arrival of a foreign batch causes no question.
    calm_until_ns: u64,
    pub counts: FollowerCounts,
}

/// Counters for the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FollowerCounts {
    pub batches: u64,
    pub messages: u64,
    /// Batches that had been received before.
    pub repeated: u64,
    /// Batches of another start of the venue.
    pub foreign: u64,
    pub gaps: u64,
    /// Messages that the venue sent on request.
    pub filled: u64,
    pub restarts: u64,
}

impl Follower {
    pub fn epoch(&self) -> Option<u64> {
        self.epoch
    }

    /// Returns the newest sequence that was passed on.
    pub fn last(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    /// Whether no message is known to be missing. A batch of another start does not count: anyone
    /// can replay one.
    pub fn is_up_to_date(&self) -> bool {
        self.epoch.is_some() && self.promised <= self.next
    }

    /// Handles a batch from the bus.
    pub fn batch(&mut self, bytes: Vec<u8>) -> FollowerProgress {
        let mut progress = FollowerProgress::default();
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

    fn give(&mut self, bytes: &Arc<[u8]>, next: u64, progress: &mut FollowerProgress) {
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

    fn unpark(&mut self, progress: &mut FollowerProgress) {
        while let Some(entry) = self.parked.first_entry().filter(|entry| *entry.key() <= self.next) {
            let bytes = entry.remove();
            self.parked_bytes -= bytes.len();
            if let Some(next) = Batch::parse(&bytes).map(|batch| batch.next()).filter(|next| *next > self.next) {
                self.give(&bytes, next, progress);
            }
        }
    }

    /// Returns what to ask the venue now. The caller passes the answer to [`Self::answered`], or
    /// calls [`Self::failed`].
    pub fn next_question(&mut self, now_ns: u64) -> Option<VenueQuestion> {
        if self.is_asking || now_ns < self.not_before_ns {
            return None;
        }
        let ask = match self.epoch {
            // The answer also says which start is current, so a gap takes precedence over a doubt.
            Some(epoch) if self.promised > self.next => VenueQuestion::From { epoch, seq: self.next },
            Some(_) if !self.is_doubtful || now_ns < self.calm_until_ns => return None,
            _ => VenueQuestion::Status,
        };
        self.is_asking = true;
        Some(ask)
    }

    /// Returns the time at which [`Self::next_question`] may have something to ask, in nanoseconds.
    pub fn due_ns(&self) -> Option<u64> {
        match () {
            () if self.is_asking => None,
            () if !self.is_up_to_date() => Some(self.not_before_ns),
            () => self.is_doubtful.then_some(self.not_before_ns.max(self.calm_until_ns)),
        }
    }

    /// Handles the venue's answer to a question.
    pub fn answered(&mut self, ask: &VenueQuestion, reply: &Reply, now_ns: u64) -> FollowerProgress {
        let mut progress = FollowerProgress::default();
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
        if !matches!(ask, VenueQuestion::From { .. }) {
            return progress;
        }
        if reply.oldest > self.next {
            // The venue no longer has the missing messages either.
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

    /// Records that a question could not be asked, or was not answered.
    pub fn failed(&mut self, now_ns: u64) {
        self.is_asking = false;
        self.not_before_ns = now_ns + (RETRY_FIRST_NS << self.failures.min(6)).min(RETRY_MOST_NS);
        self.failures += 1;
    }

    /// Cancels the delay after failures, because their cause is gone.
    pub fn retry_now(&mut self) {
        self.failures = 0;
        self.not_before_ns = 0;
    }

    /// Records the venue's position, as seen in the answer to another question.
    pub fn position_seen(&mut self, epoch: u64, last: u64) {
        if self.epoch == Some(epoch) {
            self.promised = self.promised.max(last.saturating_add(1));
        } else {
            self.is_doubtful = true;
        }
    }

    fn restart(&mut self, reply: &Reply, is_new_start: bool, progress: &mut FollowerProgress) {
        self.counts.restarts += u64::from(self.epoch.is_some());
        self.epoch = Some(reply.epoch);
        self.next = reply.oldest.max(1);
        self.promised = reply.last.saturating_add(1);
        if is_new_start {
            self.parked.clear();
            self.parked_bytes = 0;
        }
        progress.restarted = Some(FollowerRestart { epoch: reply.epoch, next: self.next, is_new_start });
    }
}

#[cfg(test)]
mod tests {
    use pitwire_random::SplitMix64;

    use super::*;
    use crate::protocol::{BatchWriter, mark};

    fn batch(epoch: u64, first: u64, count: u64) -> Vec<u8> {
        let mut writer = BatchWriter::new(epoch, first);
        (0..count).for_each(|_| writer.push(0, "a", |_| Ok::<(), ()>(())).unwrap());
        writer.finish()
    }

    fn answer(epoch: u64, oldest: u64, last: u64, batches: Vec<Vec<u8>>) -> Reply {
        Reply { epoch, oldest, last, batches, ..Reply::default() }
    }

    /// Returns a follower of start 7 that has all messages up to `last`.
    fn following(last: u64) -> Follower {
        let mut follower = Follower::default();
        assert_eq!(follower.next_question(0), Some(VenueQuestion::Status));
        follower.answered(&VenueQuestion::Status, &answer(7, last + 1, last, vec![]), 0);
        assert!(follower.is_up_to_date());
        follower
    }

    /// Returns the sequences that were passed on, as ranges.
    fn given(progress: &FollowerProgress) -> Vec<(u64, u64)> {
        progress.fresh.iter().map(|(bytes, from)| (*from, Batch::parse(bytes).unwrap().next())).collect()
    }

    #[test]
    fn each_message_is_passed_on_once_and_in_order() {
        let mut follower = following(10);
        assert_eq!(given(&follower.batch(batch(7, 11, 3))), [(11, 14)]);
        assert_eq!(given(&follower.batch(batch(7, 11, 3))), [], "a recording");
        assert_eq!(given(&follower.batch(batch(7, 12, 4))), [(14, 16)], "half of it is known");
        assert_eq!(given(&follower.batch(mark(7, 16, ""))), []);
        assert!(follower.is_up_to_date() && follower.next_question(0).is_none());
        assert_eq!((follower.counts.messages, follower.counts.repeated, follower.counts.gaps), (5, 1, 0));
    }

    #[test]
    fn batches_behind_a_gap_wait_for_its_answer() {
        let mut follower = following(10);
        assert_eq!(given(&follower.batch(batch(7, 13, 2))), []);
        assert_eq!(given(&follower.batch(batch(7, 15, 1))), []);
        let ask = follower.next_question(0).unwrap();
        assert_eq!(ask, VenueQuestion::From { epoch: 7, seq: 11 });
        assert_eq!(follower.next_question(0), None, "one question at a time");
        let outcome = follower.answered(&ask, &answer(7, 2, 15, vec![batch(7, 10, 2), batch(7, 12, 1)]), 0);
        assert_eq!(given(&outcome), [(11, 12), (12, 13), (13, 15), (15, 16)]);
        assert!(follower.is_up_to_date());
        assert_eq!((follower.counts.gaps, follower.counts.filled), (1, 2));
    }

    #[test]
    fn position_message_reveals_a_loss_at_the_end() {
        let mut follower = following(10);
        follower.batch(mark(7, 14, ""));
        assert!(!follower.is_up_to_date());
        assert_eq!(follower.next_question(0), Some(VenueQuestion::From { epoch: 7, seq: 11 }));
    }

    #[test]
    fn only_an_answer_of_the_venue_changes_the_epoch() {
        let mut follower = following(10);
        follower.batch(batch(6, 11, 1));
        assert_eq!(follower.counts.foreign, 1);
        let ask = follower.next_question(0).unwrap();
        assert_eq!(ask, VenueQuestion::Status);
        let outcome = follower.answered(&ask, &answer(7, 2, 10, vec![]), 0);
        assert!(outcome.restarted.is_none() && follower.is_up_to_date());
        // Repetition does not make the questions more frequent.
        follower.batch(batch(6, 11, 1));
        assert_eq!(
            (follower.next_question(DOUBT_NS - 1), follower.next_question(DOUBT_NS)),
            (None, Some(VenueQuestion::Status))
        );
        let outcome = follower.answered(&VenueQuestion::Status, &answer(8, 1, 3, vec![]), DOUBT_NS);
        assert_eq!(outcome.restarted, Some(FollowerRestart { epoch: 8, next: 1, is_new_start: true }));
        assert_eq!(follower.next_question(2 * DOUBT_NS), Some(VenueQuestion::From { epoch: 8, seq: 1 }));
    }

    #[test]
    fn replayed_batches_do_not_delay_a_gap() {
        let mut follower = following(10);
        follower.batch(batch(7, 13, 1));
        for seq in 11..13 {
            follower.batch(batch(6, 11, 1));
            let ask = follower.next_question(0).unwrap();
            assert_eq!(ask, VenueQuestion::From { epoch: 7, seq });
            follower.batch(batch(6, 11, 1));
            follower.answered(&ask, &answer(7, 2, 13, vec![batch(7, seq, 1)]), 0);
        }
        follower.batch(batch(6, 11, 1));
        assert!(follower.is_up_to_date(), "a recording is no gap");
        assert_eq!((follower.last(), follower.next_question(0), follower.due_ns()), (13, None, Some(DOUBT_NS)));
        // If the venue has restarted, the answer to the gap says so.
        follower.batch(batch(7, 15, 1));
        follower.batch(batch(8, 1, 1));
        let ask = follower.next_question(0).unwrap();
        let outcome = follower.answered(&ask, &answer(8, 1, 1, vec![]), 0);
        assert_eq!(outcome.restarted, Some(FollowerRestart { epoch: 8, next: 1, is_new_start: true }));
    }

    #[test]
    fn messages_that_the_venue_dropped_are_lost() {
        let mut follower = following(10);
        follower.batch(batch(7, 41, 1));
        let ask = follower.next_question(0).unwrap();
        let outcome = follower.answered(&ask, &answer(7, 30, 41, vec![batch(7, 30, 5)]), 0);
        assert_eq!(outcome.restarted, Some(FollowerRestart { epoch: 7, next: 30, is_new_start: false }));
        assert_eq!(given(&outcome), [(30, 35)]);
        let ask = follower.next_question(0).unwrap();
        assert_eq!(ask, VenueQuestion::From { epoch: 7, seq: 35 });
        assert_eq!(given(&follower.answered(&ask, &answer(7, 30, 41, vec![batch(7, 35, 6)]), 0)), [(35, 41), (41, 42)]);
    }

    #[test]
    fn questions_back_off_after_failures() {
        let mut follower = Follower::default();
        let (mut now, mut waits) = (0, Vec::new());
        for _ in 0..8 {
            assert_eq!(follower.next_question(now), Some(VenueQuestion::Status));
            follower.failed(now);
            let due = follower.due_ns().unwrap();
            assert_eq!(follower.next_question(due - 1), None);
            waits.push((due - now) / 1_000_000);
            now = due;
        }
        assert_eq!(waits, [50, 100, 200, 400, 800, 1_600, 2_000, 2_000]);
    }

    #[test]
    fn random_losses_and_repeats_lose_nothing() {
        let mut random = SplitMix64::new(1);
        let mut below = |most: usize| random.index(most);
        let mut follower = following(0);
        let (mut sent, mut all, mut got) = (1, Vec::new(), Vec::new());
        let mut take = |progress: &FollowerProgress| {
            for (bytes, from) in &progress.fresh {
                got.extend(*from..Batch::parse(bytes).unwrap().next());
            }
        };
        for _ in 0..5_000 {
            let count = 1 + below(4) as u64;
            all.push(batch(7, sent, count));
            sent += count;
            // One batch in five is lost, one in five arrives late.
            match below(5) {
                0 => {}
                1 => take(&follower.batch(all[below(all.len())].clone())),
                _ => take(&follower.batch(all[all.len() - 1].clone())),
            }
            if below(3) == 0
                && let Some(ask) = follower.next_question(u64::MAX / 2)
            {
                let VenueQuestion::From { seq, .. } = ask else { panic!("{ask:?}") };
                let behind = |bytes: &&Vec<u8>| Batch::parse(bytes).unwrap().next() > seq;
                let batches = all.iter().filter(behind).take(3).cloned().collect();
                take(&follower.answered(&ask, &answer(7, 1, sent - 1, batches), u64::MAX / 2));
            }
        }
        take(&follower.batch(mark(7, sent, "")));
        while let Some(ask) = follower.next_question(u64::MAX / 2) {
            let VenueQuestion::From { seq, .. } = ask else { panic!("{ask:?}") };
            let batches =
                all.iter().filter(|bytes| Batch::parse(bytes).unwrap().next() > seq).take(3).cloned().collect();
            take(&follower.answered(&ask, &answer(7, 1, sent - 1, batches), u64::MAX / 2));
        }
        assert_eq!(got, (1..sent).collect::<Vec<_>>());
    }
}
