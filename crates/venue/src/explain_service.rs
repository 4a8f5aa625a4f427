//! What a directory's log says about an order or a command: for `pitwire explain`, and for a venue that is asked about its own.
//!
//! Holds       1. the loop never waits for an inquiry: it runs in a thread of its own, one at a time, and is asked for again;
//!             2. whoever waits is answered, whoever else asks meanwhile.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use pitwire_disk::DirectoryStorage;
use pitwire_explain::{Audience, Explainer, Note, Question};
use pitwire_failure::Failure;
use pitwire_model::{AccountId, Event, OrderId, Seq, Stamped};
use tracing::error;

use crate::recovery::inspect_settled;
use crate::replay::{Interrupted, Replay};

/// What was found, and in which commands it was looked for.
pub struct ExplainAnswer {
    pub notes: Vec<Note>,
    pub first: Seq,
    pub last: Seq,
}

/// Replays everything that is kept: from the first command, or from the oldest snapshot.
pub fn explain(directory: &Path, question: Question, audience: Audience) -> Result<ExplainAnswer, Failure> {
    let nothing = |what: String| Failure::new(what).remedy("name the data directory of a venue with --data");
    let storage = DirectoryStorage::read_only(directory)
        .map_err(|error| nothing(format!("cannot read {}: {error}", directory.display())))?;
    let recovery = inspect_settled(&storage)?;
    if recovery.is_fresh {
        return Err(nothing(format!("{} holds no journal", directory.display())));
    }
    let mut skipped = BTreeSet::new();
    loop {
        let mut replay = Replay::start_without(&recovery, &skipped)?;
        let mut explainer = Explainer::resume(question.clone(), audience, &replay.engine.image(), replay.last);
        let observe = |_: &Replay, stamped: &Stamped, events: &[Event]| {
            explainer.observe(stamped, events);
            Ok(())
        };
        match replay.run(&recovery, &storage, observe, |_| Ok(())) {
            Ok(_) => {
                let (first, last) = (recovery.base().next(), replay.last);
                return Ok(ExplainAnswer { notes: explainer.finish(), first, last });
            }
            // As the venue itself would, which died before it could write it down.
            Err(Interrupted::EngineFailed(seq)) if skipped.insert(seq) => {
                error!(seq = seq.0, "this command makes the engine fail: it is passed over");
            }
            Err(interrupted) => return Err(interrupted.into()),
        }
    }
}

/// What the log says about an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogExplanation {
    /// The log is being read; ask again.
    Working,
    /// A JSON array of the rules that decided, with their numbers.
    Notes(String),
    Failed(String),
}

/// An order and who asked.
type Asked = (OrderId, Audience);

/// How many wait at most, of all and of one who asks; whoever finds no place asks again.
const MOST_WAITING: usize = 64;
const MOST_OF_ONE: usize = 8;
/// How many answers are kept for those who have not come back for them, and how long.
const MOST_ANSWERS: usize = 64;
const KEPT_NS: u64 = 60_000_000_000;
/// How long nothing more is looked up for whom something has been: members may not keep a core busy.
const REST_NS: u64 = 1_000_000_000;

/// Who waits, and what was found for whom.
#[derive(Debug, Default)]
struct Line {
    running: Option<Asked>,
    waiting: VecDeque<Asked>,
    /// With the moment until which it is kept, soonest first.
    answers: VecDeque<(Asked, LogExplanation, u64)>,
    /// Until when, soonest first.
    resting: VecDeque<(Audience, u64)>,
}

impl Line {
    /// The answer, if there is one; else the question has its place, unless there is none to have.
    fn ask(&mut self, asked: Asked, now_ns: u64) -> Option<LogExplanation> {
        while self.answers.front().is_some_and(|(_, _, until)| *until <= now_ns) {
            self.answers.pop_front();
        }
        if let Some(at) = self.answers.iter().position(|(of, _, _)| *of == asked) {
            return self.answers.remove(at).map(|(_, answer, _)| answer);
        }
        let of_one = self.waiting.iter().filter(|(_, audience)| *audience == asked.1).count();
        let has_place = self.waiting.len() < MOST_WAITING && of_one < MOST_OF_ONE;
        if has_place && self.running != Some(asked) && !self.waiting.contains(&asked) {
            self.waiting.push_back(asked);
        }
        None
    }

    /// What to look up now: the oldest question of whoever does not rest.
    fn begin(&mut self, now_ns: u64) -> Option<Asked> {
        while self.resting.front().is_some_and(|(_, until)| *until <= now_ns) {
            self.resting.pop_front();
        }
        if self.running.is_some() {
            return None;
        }
        let rests = |asked: &Asked| self.resting.iter().any(|(audience, _)| *audience == asked.1);
        let next = self.waiting.iter().position(|asked| !rests(asked))?;
        self.running = self.waiting.remove(next);
        self.running
    }

    fn ended(&mut self, answer: LogExplanation, now_ns: u64) {
        let Some(asked) = self.running.take() else { return };
        if self.answers.len() == MOST_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back((asked, answer, now_ns.saturating_add(KEPT_NS)));
        self.resting.push_back((asked.1, now_ns.saturating_add(REST_NS)));
    }
}

/// Those that a venue makes about its own log.
pub struct ExplainService {
    directory: PathBuf,
    line: Line,
    thread: Option<JoinHandle<Result<ExplainAnswer, Failure>>>,
}

impl ExplainService {
    pub fn new(directory: &Path) -> ExplainService {
        ExplainService { directory: directory.to_owned(), line: Line::default(), thread: None }
    }

    /// The answer, if it has been found; it is then looked up anew for whoever asks again.
    pub fn ask(&mut self, order: OrderId, member: Option<AccountId>, now_ns: u64) -> LogExplanation {
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            self.line.ended(answer(thread), now_ns);
        }
        let found = self.line.ask((order, member.map_or(Audience::Operator, Audience::Member)), now_ns);
        if let Some((order, audience)) = self.line.begin(now_ns) {
            let directory = self.directory.clone();
            let work = move || explain(&directory, Question::Order(order), audience);
            match thread::Builder::new().name("explain".into()).spawn(work) {
                Ok(thread) => self.thread = Some(thread),
                Err(error) => self.line.ended(LogExplanation::Failed(error.to_string()), now_ns),
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

    fn asked(order: u64, account: u32) -> Asked {
        (OrderId(order), Audience::Member(AccountId(account)))
    }

    fn notes(order: u64) -> LogExplanation {
        LogExplanation::Notes(order.to_string())
    }

    /// Two who ask in turn, and whose answers are ready whenever the other one asks.
    #[test]
    fn who_asks_in_between_takes_nobodys_answer() {
        let (mut line, mut told) = (Line::default(), Vec::new());
        for turn in 0..4 {
            for account in [1, 2] {
                if let Some((order, _)) = line.running {
                    line.ended(notes(order.0), turn);
                }
                told.extend(line.ask(asked(10 + u64::from(account), account), turn));
                line.begin(turn);
            }
        }
        assert_eq!(told, [notes(11), notes(12)]);
    }

    #[test]
    fn one_who_asks_for_much_waits_behind_those_who_ask_for_little() {
        let mut line = Line::default();
        for order in 0..20 {
            assert_eq!(line.ask(asked(order, 1), 0), None);
        }
        assert_eq!(line.waiting.len(), MOST_OF_ONE);
        line.ask(asked(100, 2), 0);
        assert_eq!(line.begin(0), Some(asked(0, 1)));
        assert_eq!(line.begin(0), None, "one at a time");
        line.ended(notes(0), 5);
        assert_eq!(line.begin(5), Some(asked(100, 2)));
        line.ended(notes(100), 6);
        assert_eq!([line.begin(6), line.begin(SECOND + 4)], [None, None], "a second of rest");
        assert_eq!(line.begin(SECOND + 5), Some(asked(1, 1)));
    }

    #[test]
    fn an_answer_is_given_once_and_not_kept_for_ever() {
        let mut line = Line::default();
        let found = |line: &mut Line, order: u64, now_ns: u64| {
            line.ask(asked(order, 1), now_ns);
            assert_eq!(line.begin(now_ns), Some(asked(order, 1)));
            line.ended(notes(order), now_ns);
        };
        found(&mut line, 1, 0);
        assert_eq!(line.ask(asked(1, 3), 1), None, "somebody else's");
        assert_eq!(line.ask(asked(1, 1), 1), Some(notes(1)));
        assert_eq!(line.ask(asked(1, 1), 2), None, "looked up anew");
        line.waiting.clear();
        found(&mut line, 2, 2 * SECOND);
        assert_eq!(line.ask(asked(2, 1), 2 * SECOND + KEPT_NS), None);
        line.waiting.clear();
        for order in 0..1_000 {
            found(&mut line, order, (100 + order) * SECOND);
        }
        assert!(line.answers.len() <= MOST_ANSWERS && line.resting.len() == 1);
    }
}
