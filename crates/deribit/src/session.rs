//! The session of one connection: its login and its channels.
//!
//! Holds       1. a private channel belongs to the account that subscribed it, whatever the
//!                connection logs in as later;
//!             2. memory per connection is bounded by [`Session::MAX_CHANNELS`] names.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::codec::{Channel, Heartbeat, Interval, RpcError};
use pitwire_model::{AccountId, SessionId};

use crate::ended_logins::EndedLogins;
use crate::limits::{Meter, RefusalBudget};
use crate::login::Login;
use crate::subscription::{PendingFills, PortfolioState, PrivateSubscription};
use crate::tokens::{CredentialNumber, SessionNumber};

#[derive(Debug, Default)]
pub struct Session {
    /// The number that the orders of this connection carry; zero for an HTTP request.
    pub(crate) id: SessionId,
    /// The peer's address, if the server knows it.
    pub(crate) address: Option<IpAddr>,
    login: Option<Login>,
    /// The newest login of each credential that has logged in or subscribed here.
    used: BTreeMap<CredentialNumber, Login>,
    /// Why the header of an HTTP request was refused. Methods that need a login return it.
    refusal: Option<RpcError>,
    /// The session number of the tokens, assigned with the first ones.
    pub(crate) number: Option<SessionNumber>,
    /// Private channels by account, then by the name that the client used; notifications carry it.
    pub(crate) private: BTreeMap<AccountId, BTreeMap<String, PrivateSubscription>>,
    /// Names of public channels. The server holds the channels themselves; here they are counted.
    public: BTreeSet<String>,
    /// Sessions whose tokens were granted over this connection, its own and named ones.
    pub(crate) granted: BTreeSet<SessionNumber>,
    pub(crate) heartbeat: Option<Heartbeat>,
    pub(crate) on_disconnect: OnDisconnect,
    /// Credits of calls without a login.
    pub(crate) meter: Meter,
    pub(crate) refusals: RefusalBudget,
}

/// Orders of a connection to cancel when it ends.
#[derive(Debug, Default)]
pub(crate) struct OnDisconnect {
    /// Whether an account's orders are cancelled. Decided at the first order or login, or by
    /// request.
    pub cancels: BTreeMap<AccountId, bool>,
    /// Accounts that have entered orders over this connection.
    pub entered: BTreeSet<AccountId>,
}

impl Session {
    /// Most channels of one connection.
    pub const MAX_CHANNELS: usize = 1_000;

    /// Most bytes of fills that merged channels collect for a connection that does not read.
    const MAX_COLLECTED_BYTES: usize = 4 * 1024 * 1024;
    /// Most orders that merged channels collect for a connection that does not read.
    const MAX_COLLECTED_ORDERS: usize = 100_000;

    const MOST_GRANTED: usize = 256;

    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the session of a connection. `id` is above all earlier ones: see
    /// [`crate::Dispatcher::connect`].
    pub(crate) fn numbered(id: SessionId) -> Self {
        Session { id, ..Self::default() }
    }

    /// Sets the peer's address, for tokens that are bound to one address.
    #[must_use]
    pub fn coming_from(self, address: Option<IpAddr>) -> Self {
        Session { address: address.map(|address| address.to_canonical()), ..self }
    }

    /// Returns the session of an HTTP request, which lasts for one call.
    pub fn logged_in(login: Login) -> Self {
        Session { login: Some(login), ..Self::default() }
    }

    /// Returns the session of an HTTP request with a refused header. Public methods ignore the
    /// refusal.
    pub fn refused(refusal: RpcError) -> Self {
        Session { refusal: Some(refusal), ..Self::default() }
    }

    /// Returns the login of a call without an access token.
    pub(crate) fn caller(&self) -> Result<Option<Login>, RpcError> {
        match &self.refusal {
            Some(refusal) => Err(refusal.clone()),
            None => Ok(self.login),
        }
    }

    /// Logs in. If the account changes, the private channels of the previous account end.
    pub(crate) fn log_in(&mut self, login: Login) {
        if let Some(before) = self.login.filter(|before| before.account != login.account) {
            self.private.remove(&before.account);
        }
        self.login = Some(login);
        self.refusal = None;
        self.note_login(login);
    }

    /// Records a login on which channels of this connection depend.
    pub(crate) fn note_login(&mut self, login: Login) {
        self.used.insert(login.credential, login);
    }

    /// Whether a login of this connection has ended.
    pub fn has_ended_login(&self, ended: &EndedLogins) -> bool {
        self.used.values().any(|login| ended.include(login))
    }

    /// Ends the login and the private channels. The connection is being closed.
    pub fn end_login(&mut self) {
        self.login = None;
        self.used.clear();
        self.private.clear();
    }

    /// Records which sessions a logout will end. A key holds fewer sessions than the limit, so a
    /// number that is dropped here has ended already.
    pub(crate) fn remember_grant(&mut self, session: Option<SessionNumber>) {
        self.granted.extend(session);
        while self.granted.len() > Self::MOST_GRANTED {
            self.granted.pop_first();
        }
    }

    /// Logs out. The orders stay, because the client leaves on purpose.
    pub(crate) fn log_out(&mut self) {
        self.login = None;
        self.used.clear();
        self.on_disconnect = OnDisconnect::default();
        self.unsubscribe_all();
    }

    /// When [`Self::beat`] is due, in nanoseconds of the steady clock.
    pub fn beat_due_ns(&self) -> Option<u64> {
        self.heartbeat.as_ref().map(|heartbeat| heartbeat.due_ns)
    }

    /// Sends the heartbeat that is due.
    ///
    /// # Errors
    ///
    /// Returns the reason if the connection must be closed because the peer did not answer.
    pub fn beat(&mut self, now_ns: u64, send: &mut dyn FnMut(&[u8])) -> Result<(), String> {
        self.heartbeat.as_mut().map_or(Ok(()), |heartbeat| heartbeat.beat(now_ns, send))
    }

    /// Whether any private channel is open.
    pub fn has_private_channels(&self) -> bool {
        !self.private.is_empty()
    }

    /// The accounts with a resumable subscription.
    pub(crate) fn resumable_accounts(&self) -> impl Iterator<Item = AccountId> {
        let resumable = self.private.iter().filter(|(_, subs)| subs.values().any(|sub| sub.token.is_some()));
        resumable.map(|(account, _)| *account)
    }

    /// The accounts whose private channels are open.
    pub fn subscribed_accounts(&self) -> impl Iterator<Item = AccountId> + Clone {
        self.private.keys().copied()
    }

    /// Whether this session has never logged in and has no private channel, so that it can only
    /// receive public data.
    pub fn is_public_only(&self) -> bool {
        let has_spoken = self.login.is_some() || !self.granted.is_empty() || !self.on_disconnect.entered.is_empty();
        !has_spoken && self.private.is_empty()
    }

    pub(crate) fn channels(&self) -> usize {
        self.public.len() + self.private.values().map(BTreeMap::len).sum::<usize>()
    }

    /// Whether a channel is open. `account` is the owner of a private channel.
    pub(crate) fn is_subscribed(&self, name: &str, account: Option<AccountId>) -> bool {
        match account {
            Some(account) => self.private.get(&account).is_some_and(|subs| subs.contains_key(name)),
            None => self.public.contains(name),
        }
    }

    pub(crate) fn subscribe_private(&mut self, account: AccountId, name: &str, channel: Channel) {
        self.private.entry(account).or_default().entry(name.to_owned()).or_insert_with(|| PrivateSubscription {
            channel,
            orders: BTreeSet::new(),
            trades: PendingFills::default(),
            changes: BTreeMap::new(),
            portfolio: PortfolioState { stale: true, sent: BTreeMap::new() },
            token: None,
        });
    }

    /// Whether something must be sent when a window ends.
    pub fn has_pending_window(&self) -> bool {
        self.private.values().flat_map(BTreeMap::values).any(PrivateSubscription::waits)
    }

    /// Whether something must be sent at the end of a window of this length.
    pub fn is_due_at(&self, interval: Interval) -> bool {
        self.private.values().flat_map(BTreeMap::values).any(|sub| sub.is_due_at(interval))
    }

    /// Whether merged channels have collected more than a connection may leave unsent.
    pub fn has_collected_too_much(&self) -> bool {
        let all = self.private.values().flat_map(BTreeMap::values).map(PrivateSubscription::collected);
        let (bytes, orders) = all.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
        bytes > Self::MAX_COLLECTED_BYTES || orders > Self::MAX_COLLECTED_ORDERS
    }

    /// Subscribes a public channel. Returns false if it was open already.
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
