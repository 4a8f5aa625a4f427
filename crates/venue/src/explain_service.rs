//! Explanations of orders and commands, read from the log of a data directory.
//!
//! Holds       1. the event loop never waits for an explanation: a thread of low priority looks up
//!                one at a time, and the client asks again;
//!             2. every waiting account gets its answer, however many requests other accounts send.
//! Start at    [`explain`] for a command queue, [`ExplainService::ask`] for a running venue.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use pitwire_disk::DirectoryStorage;
use pitwire_explain::{Explainer, Note, Question, TextStyle, UtcOffset, Viewer};
use pitwire_failure::Failure;
use pitwire_model::{AccountId, Event, OrderId, Seq, SequencedCommand};
use pitwire_schedule::utc_offset_of;
use tracing::error;

use crate::recovery::inspect_settled;
use crate::replay::{Replay, ReplayError, ReplayProgress, report_progress};
use crate::startup::applied_time_zone;

/// The notes that were found, and the range of commands that was searched.
pub struct ExplainAnswer {
    pub notes: Vec<Note>,
    pub first: Seq,
    pub last: Seq,
}

/// Replays the log from its first command, or from its oldest snapshot, and answers the question.
/// The texts give prices, amounts and local times, or ticks and lots if `raw` is set.
///
/// # Errors
///
/// Returns a failure if the directory has no readable journal, or if the replay produces other
/// events than were sent.
pub fn explain(
    directory: &Path,
    question: Question,
    viewer: Viewer,
    raw: bool,
    progress: ReplayProgress<'_>,
) -> Result<ExplainAnswer, Failure> {
    let nothing = |what: String| Failure::new(what).remedy("name the data directory of a venue with --data");
    let storage = DirectoryStorage::read_only(directory)
        .map_err(|error| nothing(format!("cannot read {}: {error}", directory.display())))?;
    let recovery = inspect_settled(&storage)?;
    if recovery.is_fresh {
        return Err(nothing(format!("{} holds no journal", directory.display())));
    }
    let zone = applied_time_zone(&storage);
    let utc_offset = zone.and_then(|zone| utc_offset_of(&zone)).map(|offset| Arc::new(offset) as UtcOffset);
    let style = TextStyle { raw, utc_offset };
    let mut skipped = BTreeSet::new();
    loop {
        let mut replay = Replay::start_without(&recovery, &skipped)?;
        let mut explainer =
            Explainer::resume(question.clone(), viewer, &replay.engine.image(), replay.last).with_style(style.clone());
        let observe = |_: &Replay, stamped: &SequencedCommand, events: &[Event]| {
            report_progress(&mut *progress, recovery.base(), stamped.seq, recovery.last);
            explainer.observe(stamped, events);
            Ok(())
        };
        match replay.run(&recovery, &storage, observe, |_| Ok(())) {
            Ok(_) => {
                let (first, last) = (recovery.base().next(), replay.last);
                return Ok(ExplainAnswer { notes: explainer.finish(), first, last });
            }
            // The venue stopped before it could quarantine this command. Skip it, as the next start
            // will.
            Err(ReplayError::EngineFailed(seq)) if skipped.insert(seq) => {
                error!(seq = seq.0, "engine panicked on this command; skipping it");
            }
            Err(interrupted) => return Err(interrupted.into()),
        }
    }
}

/// The explanation of an order by the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogExplanation {
    /// The log is being read; ask again.
    Working,
    /// A JSON array of the rules that decided, with their numbers.
    Notes(String),
    Failed(String),
}

/// A request: an order, and the account or operator that asks.
type ExplainRequest = (OrderId, Viewer);

/// Most waiting requests, of all accounts and of one. A client whose request finds no place asks
/// again.
const MOST_WAITING: usize = 64;
const MOST_OF_ONE: usize = 8;
/// Most answers that wait to be collected, and how long they wait, in nanoseconds.
const MOST_ANSWERS: usize = 64;
const KEPT_NS: u64 = 60_000_000_000;
/// Pause between two lookups for the same account, in nanoseconds. It keeps one member from using a
/// whole core.
const REST_NS: u64 = 1_000_000_000;

/// The waiting requests, and the answers that have not been collected.
#[derive(Debug, Default)]
struct ExplainQueue {
    running: Option<ExplainRequest>,
    waiting: VecDeque<ExplainRequest>,
    /// Answers with the time at which they expire, soonest first.
    answers: VecDeque<(ExplainRequest, LogExplanation, u64)>,
    /// Accounts that must wait, with the time at which their pause ends, soonest first.
    resting: VecDeque<(Viewer, u64)>,
}

impl ExplainQueue {
    /// Returns the answer if it is ready. Otherwise queues the request, if there is a place.
    fn ask(&mut self, request: ExplainRequest, now_ns: u64) -> Option<LogExplanation> {
        while self.answers.front().is_some_and(|(_, _, until)| *until <= now_ns) {
            self.answers.pop_front();
        }
        if let Some(at) = self.answers.iter().position(|(of, _, _)| *of == request) {
            return self.answers.remove(at).map(|(_, answer, _)| answer);
        }
        let of_one = self.waiting.iter().filter(|(_, viewer)| *viewer == request.1).count();
        let has_place = self.waiting.len() < MOST_WAITING && of_one < MOST_OF_ONE;
        if has_place && self.running != Some(request) && !self.waiting.contains(&request) {
            self.waiting.push_back(request);
        }
        None
    }

    /// Returns the request to look up now: the oldest one whose account does not have to pause.
    fn begin(&mut self, now_ns: u64) -> Option<ExplainRequest> {
        while self.resting.front().is_some_and(|(_, until)| *until <= now_ns) {
            self.resting.pop_front();
        }
        if self.running.is_some() {
            return None;
        }
        let rests = |request: &ExplainRequest| self.resting.iter().any(|(viewer, _)| *viewer == request.1);
        let next = self.waiting.iter().position(|request| !rests(request))?;
        self.running = self.waiting.remove(next);
        self.running
    }

    fn ended(&mut self, answer: LogExplanation, now_ns: u64) {
        let Some(request) = self.running.take() else { return };
        if self.answers.len() == MOST_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((request, answer, now_ns.saturating_add(KEPT_NS)));
        self.resting.push_back((request.1, now_ns.saturating_add(REST_NS)));
    }
}

/// Looks up explanations in the venue's own log.
pub struct ExplainService {
    directory: PathBuf,
    queue: ExplainQueue,
    thread: Option<JoinHandle<Result<ExplainAnswer, Failure>>>,
}

impl ExplainService {
    pub fn new(directory: &Path) -> ExplainService {
        ExplainService { directory: directory.to_owned(), queue: ExplainQueue::default(), thread: None }
    }

    /// Returns the answer if it is ready, otherwise [`LogExplanation::Working`]. An answer is
    /// returned once; a later request is looked up again.
    pub fn ask(&mut self, order: OrderId, member: Option<AccountId>, now_ns: u64) -> LogExplanation {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            self.queue.ended(answer(thread), now_ns);
        }
        let found = self.queue.ask((order, member.map_or(Viewer::Operator, Viewer::Member)), now_ns);
        if let Some((order, viewer)) = self.queue.begin(now_ns) {
            let directory = self.directory.clone();
            let work = move || {
                // The venue and its clients come first.
                let _ = rustix::process::nice(10);
                explain(&directory, Question::Order(order), viewer, false, &mut |_, _| {})
            };
            match thread::Builder::new().name("explain".into()).spawn(work) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => self.queue.ended(LogExplanation::Failed(error.to_string()), now_ns),
            }
        }
        found.unwrap_or(LogExplanation::Working)
    }
}

fn answer(thread: JoinHandle<Result<ExplainAnswer, Failure>>) -> LogExplanation {
    match thread.join() {
        Ok(Ok(answer)) => match serde_json::to_string(&answer.notes) {
            Ok(notes) => LogExplanation::Notes(notes),
            Err(error) => LogExplanation::Failed(error.to_string()),
        },
        Ok(Err(failure)) => LogExplanation::Failed(failure.to_string()),
        Err(_) => LogExplanation::Failed("the replay did not come to its end".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn request(order: u64, account: u32) -> ExplainRequest {
        (OrderId(order), Viewer::Member(AccountId(account)))
    }

    fn notes(order: u64) -> LogExplanation {
        LogExplanation::Notes(order.to_string())
    }

    /// Two accounts ask in turn, and each answer is ready when the other account asks.
    #[test]
    fn answers_go_to_the_account_that_asked() {
        let (mut queue, mut answers) = (ExplainQueue::default(), Vec::new());
        for turn in 0..4 {
            for account in [1, 2] {
                if let Some((order, _)) = queue.running {
                    queue.ended(notes(order.0), turn);
                }
                answers.extend(queue.ask(request(10 + u64::from(account), account), turn));
                queue.begin(turn);
            }
        }
        assert_eq!(answers, [notes(11), notes(12)]);
    }

    #[test]
    fn busy_account_waits_for_other_accounts() {
        let mut queue = ExplainQueue::default();
        for order in 0..20 {
            assert_eq!(queue.ask(request(order, 1), 0), None);
        }
        assert_eq!(queue.waiting.len(), MOST_OF_ONE);
        queue.ask(request(100, 2), 0);
        assert_eq!(queue.begin(0), Some(request(0, 1)));
        assert_eq!(queue.begin(0), None, "one at a time");
        queue.ended(notes(0), 5);
        assert_eq!(queue.begin(5), Some(request(100, 2)));
        queue.ended(notes(100), 6);
        assert_eq!([queue.begin(6), queue.begin(SECOND + 4)], [None, None], "a second of rest");
        assert_eq!(queue.begin(SECOND + 5), Some(request(1, 1)));
    }

    #[test]
    fn answer_is_returned_once_and_expires() {
        let mut queue = ExplainQueue::default();
        let found = |queue: &mut ExplainQueue, order: u64, now_ns: u64| {
            queue.ask(request(order, 1), now_ns);
            assert_eq!(queue.begin(now_ns), Some(request(order, 1)));
            queue.ended(notes(order), now_ns);
        };
        found(&mut queue, 1, 0);
        assert_eq!(queue.ask(request(1, 3), 1), None, "of another account");
        assert_eq!(queue.ask(request(1, 1), 1), Some(notes(1)));
        assert_eq!(queue.ask(request(1, 1), 2), None, "looked up anew");
        queue.waiting.clear();
        found(&mut queue, 2, 2 * SECOND);
        assert_eq!(queue.ask(request(2, 1), 2 * SECOND + KEPT_NS), None);
        queue.waiting.clear();
        for order in 0..1_000 {
            found(&mut queue, order, (100 + order) * SECOND);
        }
        assert!(queue.answers.len() <= MOST_ANSWERS && queue.resting.len() == 1);
    }
}
