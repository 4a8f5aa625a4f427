//! The state of the dialect across requests: credentials, rate limits, and messages that can be
//! sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use core::net::IpAddr;

use pitwire_model::{AccountId, SessionId};

use crate::Venue;
use crate::auth::{Credential, Keys};
use crate::codec::RpcError;
use crate::credential_store::{CredentialStore, NoCredentialStore};
use crate::limits::{DialectLimits, Meter, RequestClass};
use crate::replay_buffer::ReplayBuffers;
use crate::session::Session;
use crate::volume::Volume;

/// Most addresses whose unauthenticated HTTP requests are counted at a time.
const MOST_ADDRESSES: usize = 10_000;

/// State that all connections of one venue share.
pub(crate) struct SharedState {
    pub keys: Keys,
    pub store: Box<dyn CredentialStore>,
    /// Whether the store has credentials without an open account. They are removed after the
    /// commit.
    store_has_surplus: bool,
    /// Whether a signed request may enter an order only once.
    pub refuses_replays: bool,
    /// Accounts whose future connections start with cancel on disconnect. A restart clears the set,
    /// because it ends every connection.
    pub cancels_by_default: BTreeSet<AccountId>,
    /// Recent private messages of accounts with resumable subscriptions.
    pub replay: ReplayBuffers,
    pub rates: RateLimits,
    /// Most open orders of an account, unless an operator has set a limit for it.
    pub max_open_orders: u32,
    /// Most stop orders of an account that wait for their trigger price. It does not hold for an
    /// account whose open orders an operator has limited.
    pub max_stop_orders: u32,
}

/// Rate limits and what each caller has used of them.
#[derive(Default)]
pub(crate) struct RateLimits {
    /// `None` if requests are not limited.
    pub limits: Option<DialectLimits>,
    by_account: BTreeMap<AccountId, Meter>,
    /// HTTP requests without a login, by address.
    by_address: BTreeMap<IpAddr, Meter>,
    /// Traded volume of the accounts that have sent orders.
    volumes: BTreeMap<AccountId, Volume>,
}

/// A request that exceeds its limit.
pub(crate) struct LimitExceeded {
    pub error: RpcError,
    /// Whether the connection has been refused so often that it must be closed.
    pub closes: bool,
}

impl SharedState {
    /// `random` must be fit for secrets, because tokens are made from it.
    pub fn new(credentials: Vec<Credential>, random: fn() -> [u8; 32]) -> Self {
        SharedState {
            keys: Keys::new(credentials, random),
            store: Box::new(NoCredentialStore),
            store_has_surplus: false,
            refuses_replays: true,
            cancels_by_default: BTreeSet::new(),
            replay: ReplayBuffers::default(),
            rates: RateLimits::default(),
            max_open_orders: DialectLimits::MAX_OPEN_ORDERS,
            max_stop_orders: DialectLimits::MAX_STOP_ORDERS,
        }
    }

    /// Makes a credential for an account, given by number and name, and stores it. Returns its
    /// secret.
    ///
    /// # Errors
    ///
    /// Returns the error of the store; then the credential does not exist.
    pub fn add_credential(&mut self, client_id: &str, account: (AccountId, &str)) -> io::Result<String> {
        self.keys.add(client_id, account, |all, removed| self.store.keep(all, removed))
    }

    /// Replaces the secret of a credential, stores it and returns it. `None` for an unknown client
    /// id.
    ///
    /// # Errors
    ///
    /// Returns the error of the store; then the old secret stays valid.
    pub fn rotate_credential(&mut self, client_id: &str) -> io::Result<Option<String>> {
        self.keys.rotate(client_id, |all, removed| self.store.keep(all, removed))
    }

    /// Removes a credential. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// Returns the error of the store; then the credential stays valid.
    pub fn remove_credential(&mut self, client_id: &str) -> io::Result<bool> {
        self.keys.remove(client_id, |all, removed| self.store.keep(all, removed))
    }

    /// Takes back a credential whose account was refused. The client id is free again.
    pub fn withdraw_credential(&mut self, client_id: &str) {
        self.keys.withdraw(client_id);
        self.store_has_surplus = true;
    }

    /// Ends the logins of an account, which a command of this turn has closed, and removes its
    /// credentials. The store follows after the commit.
    pub fn close_account(&mut self, account: AccountId) {
        self.keys.close_account(account);
        self.store_has_surplus = true;
    }

    /// Removes the credentials without an open account from the store, if there are any. Call it
    /// after the commit.
    ///
    /// # Errors
    ///
    /// Returns the error of the store. The next change or the next start removes them.
    pub fn remove_surplus_credentials(&mut self) -> io::Result<()> {
        if !std::mem::take(&mut self.store_has_surplus) {
            return Ok(());
        }
        self.keys.keep_all(|all, removed| self.store.keep(all, removed))
    }
}

impl RateLimits {
    /// The limits of an account by its traded volume, and whether the venue enforces them.
    pub fn of_account(&self, account: AccountId, venue: &dyn Venue) -> (DialectLimits, bool) {
        let mut volume = self.volumes.get(&account).cloned().unwrap_or_default();
        let book = venue.views().account(account);
        let dollars = book.map_or(0, |book| volume.count(book, venue.engine(), venue.now()));
        (self.limits.unwrap_or_default().of_volume(dollars), self.limits.is_some())
    }

    /// Counts one request at `now_ns` (a steady clock) against the account, or without one against
    /// the address or the connection.
    ///
    /// # Errors
    ///
    /// Returns [`LimitExceeded`] if the caller has used up the allowance of this class of requests.
    pub fn charge(
        &mut self,
        venue: &dyn Venue,
        session: &mut Session,
        account: Option<AccountId>,
        class: RequestClass,
        now_ns: u64,
    ) -> Result<(), LimitExceeded> {
        let Some(mut limits) = self.limits else { return Ok(()) };
        if let (RequestClass::Order | RequestClass::Cancel, Some(account)) = (class, account)
            && let Some(book) = venue.views().account(account)
        {
            let volume = self.volumes.entry(account).or_default();
            limits = limits.of_volume(volume.count(book, venue.engine(), venue.now()));
        }
        let is_http = session.id == SessionId::ZERO;
        let meter = match (account, session.address) {
            (Some(account), _) => self.by_account.entry(account).or_default(),
            (None, Some(address)) if is_http => {
                if self.by_address.len() >= MOST_ADDRESSES && !self.by_address.contains_key(&address) {
                    self.by_address.pop_first();
                }
                self.by_address.entry(address).or_default()
            }
            (None, _) => &mut session.meter,
        };
        meter
            .take(&limits, class, now_ns)
            .map_err(|error| LimitExceeded { error, closes: session.refusals.ends(&limits, now_ns) })
    }
}
