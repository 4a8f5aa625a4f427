//! One connection's memory: who it is and which channels it hears.
//!
//! Holds       1. a private channel tells of the account that asked for it, whoever the connection speaks for later;
//!             2. what a connection can make us remember is bounded: [`Session::MOST_CHANNELS`] names.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::codec::{Channel, Heartbeat, RpcError};
use pitwire_model::{AccountId, SessionId};

use crate::auth::Login;
use crate::limits::{Meter, RefusalBudget};
use crate::subscription::{PortfolioState, PrivateSubscription};
use crate::tokens::SessionNumber;

#[derive(Debug, Default)]
pub struct Session {
    /// What the orders of a connection carry; zero for an HTTP request.
    pub(crate) id: SessionId,
    /// Where the peer is, if the host says so.
    pub(crate) address: Option<IpAddr>,
    login: Option<Login>,
    /// Why the header of an HTTP request proves nobody; told to those who need somebody.
    refusal: Option<RpcError>,
    /// Given with the first tokens.
    pub(crate) number: Option<SessionNumber>,
    /// By account, then by the name as the client wrote it, which notifications carry back.
    pub(crate) private: BTreeMap<AccountId, BTreeMap<String, PrivateSubscription>>,
    /// Names of public channels. The host holds the channels themselves; here they are counted.
    public: BTreeSet<String>,
    /// Sessions whose tokens were granted over this connection, its own and named ones.
    pub(crate) granted: BTreeSet<SessionNumber>,
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) on_disconnect: OnDisconnect,
    /// Of calls that speak for no account.
    pub(crate) meter: Meter,
    pub(crate) refusals: RefusalBudget,
}

/// What becomes of a connection's orders when it ends.
#[derive(Debug, Default)]
pub(crate) struct OnDisconnect {
    /// Whether an account's orders are cancelled. Settled when it first enters one or logs in, or when it says so.
    pub cancels: BTreeMap<AccountId, bool>,
    /// Accounts that have entered orders.
    pub entered: BTreeSet<AccountId>,
}

impl Session {
    /// How many channels one connection may hear.
    pub const MOST_CHANNELS: usize = 1_000;

    const MOST_GRANTED: usize = 256;

    pub fn new() -> Self {
        Self::default()
    }

    /// For a connection. `id` is above every other's: see [`crate::Dispatcher::connect`].
    pub(crate) fn numbered(id: SessionId) -> Self {
        Session { id, ..Self::default() }
    }

    /// Tells where the peer is, for tokens that work from one address only.
    #[must_use]
    pub fn coming_from(self, address: Option<IpAddr>) -> Self {
        Session { address: address.map(|address| address.to_canonical()), ..self }
    }

    /// For an HTTP request, which is a session of one call.
    pub fn logged_in(login: Login) -> Self {
        Session { login: Some(login), ..Self::default() }
    }

    /// For an HTTP request whose header proves nobody: public methods need not know.
    pub fn refused(refusal: RpcError) -> Self {
        Session { refusal: Some(refusal), ..Self::default() }
    }

    /// Whom a call speaks for that brings no token of its own.
    pub(crate) fn caller(&self) -> Result<Option<Login>, RpcError> {
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.login),
        }
    }

    /// A connection that becomes somebody else hears no more of whom it was.
    pub(crate) fn log_in(&mut self, login: Login) {
        if let Some(before) = self.login.filter(|before| before.account != login.account) {
            self.private.remove(&before.account);
        }
        self.login = Some(login);
        self.refusal = None;
    }

    /// Which sessions a logout will end. A key holds fewer than this at a time, so what is let go of here has ended.
    pub(crate) fn remember_grant(&mut self, session: Option<SessionNumber>) {
        self.granted.extend(session);
        while self.granted.len() > Self::MOST_GRANTED {
            self.granted.pop_first();
        }
    }

    /// Whoever leaves on purpose keeps its orders.
    pub(crate) fn log_out(&mut self) {
        self.login = None;
        self.on_disconnect = OnDisconnect::default();
        self.unsubscribe_all();
    }

    /// When [`Self::beat`] has something to do, by the host's steady clock.
    pub fn beat_due_ns(&self) -> Option<u64> {
        self.heartbeat.as_ref().map(|heartbeat| heartbeat.due_ns)
    }

    /// Sends what is due of the heartbeat that the peer asked for; says why the connection must end, if it must.
    pub fn beat(&mut self, now_ns: u64, send: &mut dyn FnMut(&[u8])) -> Result<(), String> {
        self.heartbeat.as_mut().map_or(Ok(()), |heartbeat| heartbeat.beat(now_ns, send))
    }

    /// Whether any private channel is open: most sessions need not be looked at after a command.
    pub fn listens(&self) -> bool {
        !self.private.is_empty()
    }

    /// The accounts with a resumable subscription.
    pub(crate) fn resumable_accounts(&self) -> impl Iterator<Item = AccountId> {
        let resumable = self.private.iter().filter(|(_, subs)| subs.values().any(|sub| sub.stands.is_some()));
        resumable.map(|(account, _)| *account)
    }

    /// The accounts whose private channels are open.
    pub fn accounts_heard(&self) -> impl Iterator<Item = AccountId> {
        self.private.keys().copied()
    }

    /// Whether it speaks for no account and none of its orders hangs on it: it can only listen to what is everybody's.
    pub fn is_nobodys(&self) -> bool {
        let has_spoken = self.login.is_some() || !self.granted.is_empty() || !self.on_disconnect.entered.is_empty();
        !has_spoken && self.private.is_empty()
    }

    pub(crate) fn channels(&self) -> usize {
        self.public.len() + self.private.values().map(BTreeMap::len).sum::<usize>()
    }

    /// Whether a channel is open already; `account` for a private one.
    pub(crate) fn hears(&self, name: &str, account: Option<AccountId>) -> bool {
        match account {
            Some(account) => self.private.get(&account).is_some_and(|subs| subs.contains_key(name)),
            None => self.public.contains(name),
        }
    }

    pub(crate) fn subscribe_private(&mut self, account: AccountId, name: &str, channel: Channel) {
        self.private.entry(account).or_default().entry(name.to_owned()).or_insert_with(|| PrivateSubscription {
            channel,
            orders: BTreeSet::new(),
            trades: Vec::new(),
            changes: BTreeMap::new(),
            portfolio: PortfolioState { stale: true, told: BTreeMap::new() },
            stands: None,
        });
    }

    /// Whether something will have to be told when a window ends.
    pub fn awaits_window(&self) -> bool {
        self.private.values().flat_map(BTreeMap::values).any(PrivateSubscription::waits)
    }

    /// Says whether the channel was not open before.
    pub(crate) fn subscribe_public(&mut self, name: &str) -> bool {
        self.public.insert(name.to_owned())
    }

    pub(crate) fn unsubscribe(&mut self, name: &str) {
        self.public.remove(name);
        self.private.retain(|_, subs| {
            subs.remove(name);
            !subs.is_empty()
        });
    }

    pub(crate) fn unsubscribe_all(&mut self) {
        self.public.clear();
        self.private.clear();
    }
}
