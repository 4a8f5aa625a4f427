//! Subscriptions that wait for the venue.

use std::collections::{BTreeMap, BTreeSet};

use pitwire_deribit::codec::{IgnoredChannels, Params, RequestId, RpcError, Token, shown};

/// Channels of a request that are to be resumable, with the token to resume from.
pub(crate) type ResumeWishes = BTreeMap<String, Option<Token>>;

/// The first messages of a resumed subscription.
#[derive(Debug)]
pub(crate) struct Resumption {
    /// Sequence at which `missed` ends.
    pub after: u64,
    pub missed: Vec<Vec<u8>>,
}

/// A subscription request that waits for the venue's answers.
#[derive(Debug)]
pub(crate) struct PendingSubscription {
    pub to: u64,
    /// `None` if the URL subscribed: then no reply is expected.
    pub id: Option<RequestId>,
    pub us_in: u64,
    pub names: Vec<String>,
    pub missing: BTreeSet<String>,
    /// Epoch and sequence after which the client wants to continue.
    pub from: Option<(u64, u64)>,
    pub wishes: ResumeWishes,
    /// The venue's answers to `wishes`.
    pub resumptions: BTreeMap<String, Resumption>,
    pub malformed: Option<String>,
    pub ignored: IgnoredChannels,
    pub failed: Option<String>,
}

#[derive(Debug, Default)]
pub(crate) struct PendingTable {
    requests: BTreeMap<u64, PendingSubscription>,
    last: u64,
}

impl PendingTable {
    /// Stores a request and returns its number.
    pub fn insert(&mut self, pending: PendingSubscription) -> u64 {
        self.last += 1;
        self.requests.insert(self.last, pending);
        self.last
    }

    pub fn get(&self, number: u64) -> Option<&PendingSubscription> {
        self.requests.get(&number)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut PendingSubscription> {
        self.requests.get_mut(&number)
    }

    pub fn remove_connection(&mut self, id: u64) {
        self.requests.retain(|_, pending| pending.to != id);
    }

    /// Removes and returns a request for which nothing is missing any more.
    pub fn take_complete(&mut self, number: u64) -> Option<PendingSubscription> {
        let is_complete = self.requests.get(&number)?.missing.is_empty();
        if is_complete { self.requests.remove(&number) } else { None }
    }

    /// Returns the names in all waiting requests.
    pub fn names(&self) -> BTreeSet<&String> {
        self.requests.values().flat_map(|pending| &pending.names).collect()
    }
}

/// Returns the error for a name that no channel has.
pub(crate) fn no_such_channel(name: &str, ignored: &IgnoredChannels) -> RpcError {
    let why = ignored.reason_of(name).unwrap_or("docs/dialect.md lists the channels");
    RpcError::invalid("channels", format!("no channel is named {:?}: {why}", shown(name)))
}

/// Reads the parameter `from`: EPOCH:SEQ.
///
/// # Errors
///
/// The text has another form.
pub(crate) fn read_from(params: &Params<'_>) -> Result<Option<(u64, u64)>, RpcError> {
    let Some(text) = params.text("from")? else { return Ok(None) };
    let position = text.split_once(':').and_then(|(epoch, seq)| Some((epoch.parse().ok()?, seq.parse().ok()?)));
    position.map(Some).ok_or_else(|| RpcError::invalid("from", "from is EPOCH:SEQ, as an envelope has them"))
}
