//! The surroundings of a message of binary order entry, and what it leaves to the server.
//!
//! Start at    [`EntryContext`].

use pitwire_deribit::{Dispatcher, LongAnswer, RequestClock, Venue};
use pitwire_model::InstrumentId;
use pitwire_net::{ConnectionId, Notices};

/// Identifies a session while the venue runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey(pub(crate) u32);

/// The client that gets an answer which takes several turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRecipient {
    pub(crate) session: SessionKey,
    /// The connection that acts on nothing before the answer.
    pub connection: Option<ConnectionId>,
    pub(crate) request_id: u64,
}

/// A session that wants the public data of an instrument.
#[derive(Clone, Copy, Debug)]
pub struct FollowRequest {
    pub session: SessionKey,
    pub instrument: InstrumentId,
}

/// Work that a message leaves to the server.
#[derive(Debug, Default)]
pub struct EntryEffects {
    /// Writing the journal failed: nothing may be sent, and the venue must stop.
    pub log_failed: bool,
    /// An answer that takes several turns. [`crate::BinaryEntry::finish`] takes its result.
    pub long_answer: Option<(EntryRecipient, LongAnswer)>,
    pub follow: Option<FollowRequest>,
}

/// The surroundings of a message, and its effects.
pub struct EntryContext<'a> {
    pub venue: &'a mut dyn Venue,
    pub dispatcher: &'a mut Dispatcher,
    pub notices: &'a mut Notices,
    pub clock: RequestClock,
    pub effects: EntryEffects,
}
