//! Questions to the venue that are due: joins, keep-alives and resumptions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pitwire_deribit::codec::Token;

use crate::pending::PendingSubscription;
use crate::upstream::VenueQuestion;

/// Interval of the question which channels are still needed, in nanoseconds. The venue drops a
/// channel after four times as long.
pub(crate) const KEEP_NS: u64 = 15_000_000_000;
/// Shortest interval between two attempts to join lost channels, in nanoseconds.
const REJOIN_NS: u64 = 500_000_000;
/// Most names in one keep-alive question. The limit keeps its body small.
const NAMES_PER_KEEP: usize = 500;
/// Most requests with resume tokens that may wait for the venue.
const RESUMES_WAITING_MAX: usize = 4_096;
/// Most requests with resume tokens that the venue works on at a time: other questions must not
/// wait for them.
const RESUMES_ASKED_MAX: usize = 2;

/// A channel of a resume question, with the token to resume from.
pub(crate) type ResumeWish = (String, Option<Token>);

#[derive(Debug, Default)]
pub(crate) struct QuestionQueue {
    queued: VecDeque<VenueQuestion>,
    /// Unanswered joins by channel, and the pending requests that wait for each.
    joins: BTreeMap<String, Vec<u64>>,
    /// Channels to join again, for clients that got a gap notice.
    lost: BTreeSet<String>,
    rejoin_ns: u64,
    keep_ns: u64,
    resumes: VecDeque<(u64, Vec<ResumeWish>)>,
    resumes_asked: usize,
    pub joined_total: u64,
}

impl QuestionQueue {
    /// Returns the number of unanswered joins.
    pub fn joins_waiting(&self) -> usize {
        self.joins.len()
    }

    /// Asks for a channel, unless that question is already waiting.
    pub fn join(&mut self, name: &str, pending: Option<u64>) {
        if let Some(waiting) = self.joins.get_mut(name) {
            waiting.extend(pending);
            return;
        }
        self.joins.insert(name.to_owned(), pending.into_iter().collect());
        self.joined_total += 1;
        self.queued.push_back(VenueQuestion::Join { name: name.to_owned() });
    }

    /// Returns the pending requests that waited for this channel.
    pub fn take_joined(&mut self, name: &str) -> Vec<u64> {
        self.joins.remove(name).unwrap_or_default()
    }

    /// Marks a channel to be joined again.
    pub fn rejoin(&mut self, name: &str) {
        self.lost.insert(name.to_owned());
    }

    pub fn rejoin_now(&mut self) {
        self.rejoin_ns = 0;
    }

    pub fn rejoin_later(&mut self, now_ns: u64) {
        self.rejoin_ns = self.rejoin_ns.max(now_ns + REJOIN_NS);
    }

    pub fn is_keep_due(&self, now_ns: u64) -> bool {
        now_ns >= self.keep_ns
    }

    /// Returns the first keep-alive question for these channels, and queues the rest. Without
    /// channels it still tests whether the venue answers.
    pub fn keep(&mut self, names: &[String], now_ns: u64) -> VenueQuestion {
        self.keep_ns = now_ns + KEEP_NS;
        let first = names.len().min(NAMES_PER_KEEP);
        let more = names[first..].chunks(NAMES_PER_KEEP).map(|names| VenueQuestion::Keep { names: names.to_vec() });
        self.queued.extend(more);
        self.queued.push_back(VenueQuestion::Instruments);
        VenueQuestion::Keep { names: names[..first].to_vec() }
    }

    pub fn join_lost(&mut self, now_ns: u64) {
        if !self.lost.is_empty() && now_ns >= self.rejoin_ns {
            self.rejoin_ns = now_ns + REJOIN_NS;
            for name in std::mem::take(&mut self.lost) {
                self.join(&name, None);
            }
        }
    }

    pub fn next(&mut self) -> Option<VenueQuestion> {
        self.queued.pop_front()
    }

    /// Whether a question is ready.
    pub fn has_next(&self) -> bool {
        !self.queued.is_empty() || self.can_resume()
    }

    /// Returns the times of the next keep-alive and of the next rejoin.
    pub fn due_ns(&self) -> [Option<u64>; 2] {
        [Some(self.keep_ns), (!self.lost.is_empty()).then_some(self.rejoin_ns)]
    }

    /// Whether no further request with resume tokens fits.
    pub fn is_full_of_resumes(&self) -> bool {
        self.resumes.len() >= RESUMES_WAITING_MAX
    }

    /// Queues the resume question of a pending request, if it has one.
    pub fn ask_resume(&mut self, number: u64, pending: &PendingSubscription) {
        let wanted = pending.wishes.iter().filter(|(name, _)| pending.missing.contains(*name));
        let wishes: Vec<ResumeWish> = wanted.map(|(name, token)| (name.clone(), *token)).collect();
        if !wishes.is_empty() {
            self.resumes.push_back((number, wishes));
        }
    }

    /// Returns the next resume question of a request for which `is_pending` is true.
    pub fn next_resume(&mut self, is_pending: impl Fn(u64) -> bool) -> Option<VenueQuestion> {
        while self.can_resume() {
            let (number, wishes) = self.resumes.pop_front()?;
            if is_pending(number) {
                self.resumes_asked += 1;
                return Some(VenueQuestion::Resume { number, wishes });
            }
        }
        None
    }

    pub fn resume_answered(&mut self) {
        self.resumes_asked = self.resumes_asked.saturating_sub(1);
    }

    fn can_resume(&self) -> bool {
        self.resumes_asked < RESUMES_ASKED_MAX && !self.resumes.is_empty()
    }
}
