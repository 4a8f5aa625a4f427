//! Long answers that wait to be continued over the turns of the venue thread.
//!
//! Holds       1. accounts take turns, and one answer of an account is worked on at a time;
//!             2. the next answer of an account begins when the client has read the last one, so
//!                that an account has at most one long answer in an outbox;
//!             3. an account has at most [`MAX_ANSWERS`] of them;
//!             4. a mass cancel is finished although its client has left;
//!             5. the answer to a request that has changed the market, and the cancels of a session
//!                that has ended, are neither refused nor wait for the account's other answers.
//! Start at    [`LongAnswers::push`], [`LongAnswers::next`].

use std::collections::{BTreeSet, VecDeque};

use pitwire_deribit::LongAnswer;
use pitwire_model::AccountId;
use pitwire_net::ConnectionId;
use pitwire_sbe_gateway::EntryRecipient;

/// Most long answers of one account that wait.
const MAX_ANSWERS: usize = 64;

/// The client that gets an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipient {
    WebSocket(ConnectionId),
    Http {
        connection: ConnectionId,
        keep_alive: bool,
        head_only: bool,
    },
    /// A session of binary order entry.
    Binary(EntryRecipient),
    /// The client has left.
    Gone,
}

impl Recipient {
    fn connection(self) -> Option<ConnectionId> {
        match self {
            Recipient::WebSocket(id) | Recipient::Http { connection: id, .. } => Some(id),
            Recipient::Binary(_) | Recipient::Gone => None,
        }
    }
}

/// An answer that waits for its next part.
#[derive(Debug)]
pub struct QueuedAnswer {
    pub to: Recipient,
    pub answer: LongAnswer,
}

/// The answers of one account, oldest first.
#[derive(Debug)]
struct AccountQueue {
    account: AccountId,
    answers: VecDeque<QueuedAnswer>,
    /// The connection that got the last answer.
    last: Option<ConnectionId>,
    /// The last answer was finished in this turn, and is not in its outbox yet.
    has_finished: bool,
}

impl AccountQueue {
    fn can_go_on(&self, has_room: &impl Fn(ConnectionId) -> bool) -> bool {
        !self.has_finished && self.has_next(has_room) || self.begins_with_outcome()
    }

    /// Says whether an answer can be continued, unless one was finished in this turn.
    fn has_next(&self, has_room: &impl Fn(ConnectionId) -> bool) -> bool {
        !self.answers.is_empty() && self.last.is_none_or(has_room) || self.begins_with_outcome()
    }

    fn begins_with_outcome(&self) -> bool {
        self.answers.front().is_some_and(|queued| queued.answer.is_outcome())
    }
}

/// All answers that wait.
#[derive(Debug, Default)]
pub struct LongAnswers {
    /// In the order in which the accounts take turns.
    accounts: VecDeque<AccountQueue>,
    /// Connections that wait for an answer.
    waiting: BTreeSet<ConnectionId>,
}

impl LongAnswers {
    /// Adds an answer.
    ///
    /// # Errors
    ///
    /// Returns it if its account has too many already.
    pub fn push(&mut self, queued: QueuedAnswer) -> Result<(), Box<QueuedAnswer>> {
        let account = queued.answer.account();
        let at = self.accounts.iter().position(|queue| queue.account == account).unwrap_or_else(|| {
            let answers = VecDeque::new();
            self.accounts.push_back(AccountQueue { account, answers, last: None, has_finished: false });
            self.accounts.len() - 1
        });
        let answers = &mut self.accounts[at].answers;
        let is_outcome = queued.answer.is_outcome();
        if answers.len() >= MAX_ANSWERS && !is_outcome {
            return Err(Box::new(queued));
        }
        self.waiting.extend(queued.to.connection());
        let outcomes = answers.iter().take_while(|queued| queued.answer.is_outcome()).count();
        answers.insert(if is_outcome { outcomes } else { answers.len() }, queued);
        Ok(())
    }

    /// Begins a turn. `has_room` says whether a client has read its messages.
    pub fn begin_turn(&mut self, has_room: impl Fn(ConnectionId) -> bool) {
        self.accounts.retain_mut(|queue| {
            queue.has_finished = false;
            !queue.answers.is_empty() || !queue.last.is_none_or(&has_room)
        });
    }

    /// Returns whether an answer can be continued in the next turn. It may wait behind an answer
    /// that this turn has finished.
    pub fn has_next(&self, has_room: impl Fn(ConnectionId) -> bool) -> bool {
        self.accounts.iter().any(|queue| queue.has_next(&has_room))
    }

    /// Takes the next answer to continue. Its account is last in turn then.
    pub fn next(&mut self, has_room: impl Fn(ConnectionId) -> bool) -> Option<QueuedAnswer> {
        let at = self.accounts.iter().position(|queue| queue.can_go_on(&has_room))?;
        let mut queue = self.accounts.remove(at)?;
        let next = queue.answers.pop_front();
        self.accounts.push_back(queue);
        next
    }

    /// Puts an answer back that is not finished.
    pub fn put_back(&mut self, queued: QueuedAnswer) {
        let account = queued.answer.account();
        if let Some(queue) = self.accounts.iter_mut().find(|queue| queue.account == account) {
            queue.answers.push_front(queued);
        }
    }

    /// Notes that an answer is finished.
    pub fn finish(&mut self, queued: &QueuedAnswer) {
        let connection = queued.to.connection();
        if let Some(id) = connection {
            self.waiting.remove(&id);
        }
        if queued.answer.is_outcome() {
            return;
        }
        if let Some(queue) = self.accounts.iter_mut().find(|queue| queue.account == queued.answer.account()) {
            (queue.last, queue.has_finished) = (connection, true);
        }
    }

    /// Says whether a connection waits for an answer.
    pub fn is_waiting(&self, id: ConnectionId) -> bool {
        self.waiting.contains(&id)
    }

    /// Forgets a connection that has ended. Its mass cancels remain.
    pub fn forget(&mut self, id: ConnectionId) {
        self.waiting.remove(&id);
        for queue in &mut self.accounts {
            queue.last = queue.last.filter(|last| *last != id);
            queue.answers.retain_mut(|queued| {
                if queued.to.connection() == Some(id) {
                    queued.to = Recipient::Gone;
                }
                queued.to != Recipient::Gone || queued.answer.is_cancel()
            });
        }
    }

    /// Takes all mass cancels that are not finished, because the venue stops.
    pub fn take_cancels(&mut self) -> Vec<QueuedAnswer> {
        let all = self.accounts.drain(..).flat_map(|queue| queue.answers);
        all.filter(|queued| queued.answer.is_cancel()).collect()
    }
}
