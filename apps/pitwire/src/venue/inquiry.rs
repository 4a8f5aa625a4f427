//! What a directory's log says about an order or a command: for `pitwire explain`, and for a venue that is asked about its own.
//!
//! Holds       the loop never waits for an inquiry: it runs in a thread of its own, one at a time, and is asked for again.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use pitwire_explain::{Audience, Explainer, Note, Question};
use pitwire_host::DirectoryStorage;
use pitwire_model::{AccountId, OrderId, Seq};
use pitwire_ports::Explained;

use super::recovery::{Replay, inspect_settled};
use crate::failure::Failure;

/// What was found, and in which commands it was looked for.
pub struct Answer {
    pub notes: Vec<Note>,
    pub first: Seq,
    pub last: Seq,
}

/// Replays everything that is kept: from the first command, or from the oldest snapshot.
pub fn inquire(directory: &Path, question: Question, audience: Audience) -> Result<Answer, Failure> {
    let nothing = |what: String| Failure::new(what).remedy("name the data directory of a venue with --data");
    let storage = DirectoryStorage::read_only(directory)
        .map_err(|error| nothing(format!("cannot read {}: {error}", directory.display())))?;
    let recovery = inspect_settled(&storage)?;
    if recovery.is_fresh {
        return Err(nothing(format!("{} holds no journal", directory.display())));
    }
    let mut replay = Replay::start(&recovery)?;
    let mut explainer = Explainer::resume(question, audience, &replay.engine.image(), replay.last);
    replay.run(
        &recovery,
        &storage,
        |_, stamped, events| {
            explainer.observe(stamped, events);
            Ok(())
        },
        |_| Ok(()),
    )?;
    Ok(Answer { notes: explainer.finish(), first: recovery.base().next(), last: replay.last })
}

/// An order and who asked.
type Asked = (OrderId, Audience);

/// Those that a venue makes about its own log.
pub struct Inquiries {
    directory: PathBuf,
    running: Option<(Asked, JoinHandle<Result<Answer, Failure>>)>,
}

impl Inquiries {
    pub fn into(directory: &Path) -> Inquiries {
        Inquiries { directory: directory.to_owned(), running: None }
    }

    /// Begins an inquiry, or gives its answer if it is done. One about another order has to end first.
    pub fn ask(&mut self, order: OrderId, member: Option<AccountId>) -> Explained {
        let asked = (order, member.map_or(Audience::Operator, Audience::Member));
        match self.running.take_if(|(_, thread)| thread.is_finished()) {
            Some((of, thread)) if of == asked => return answer(thread),
            _ => {}
        }
        if self.running.is_none() {
            let directory = self.directory.clone();
            let work = move || inquire(&directory, Question::Order(order), asked.1);
            match thread::Builder::new().name("explain".into()).spawn(work) {
                Ok(thread) => self.running = Some((asked, thread)),
                Err(error) => return Explained::Failed(error.to_string()),
            }
        }
        Explained::Working
    }
}

fn answer(thread: JoinHandle<Result<Answer, Failure>>) -> Explained {
    match thread.join() {
        Ok(Ok(answer)) => match serde_json::to_string(&answer.notes) {
            Ok(notes) => Explained::Notes(notes),
            Err(error) => Explained::Failed(error.to_string()),
        },
        Ok(Err(failure)) => Explained::Failed(failure.to_string()),
        Err(_) => Explained::Failed("the replay did not come to its end".into()),
    }
}
