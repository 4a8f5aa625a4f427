//! The desk: takes a request, finds the method, writes the answer.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::Venue;
use crate::codec::{Channel, Params, Request, RequestId, RpcError, Token, write_error, write_result};
use pitwire_engine::Engine;
use pitwire_journal::LogError;
use pitwire_model::{AccountId, CancelFilter, CancelReason, Command, SessionId};

use crate::access::{Area, Level};
use crate::auth::{Authorization, Credential, Keys, Login, SignedRequest};
use crate::diary::Diary;
use crate::limits::{Limits, Meter, Sort};
use crate::methods;
use crate::replays::Replays;
use crate::session::{OnDisconnect, Session};
use crate::vault::{Forgetful, Vault};
use crate::volume::Volume;

/// Which door a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    WebSocket,
    Http,
}

/// What time it is outside the market. Signatures, token life, `valid_until` and `usIn` go by the wall clock; limits and
/// heartbeats by one that nobody can set. None of it goes by venue time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Microseconds since 1970.
    pub received_us: u64,
    /// Read again when the answer is written.
    pub now_us: fn() -> u64,
    /// Nanoseconds since an arbitrary start.
    pub steady_ns: u64,
}

/// One request's surroundings: who asks, through which door, of which venue, and when.
pub struct Visit<'a> {
    pub venue: &'a mut dyn Venue,
    pub session: &'a mut Session,
    pub entrance: Entrance,
    pub clock: Clock,
}

/// What the host must do to the connection after the answer has been queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A public channel, by the name the client gave it.
    Subscribe(String, Channel),
    /// The same of one who wants to be able to come back, and perhaps comes back now.
    Resume(String, Channel, Option<Token>),
    Unsubscribe(String),
    UnsubscribeAll,
    /// What a subscriber who comes back has missed, and how it goes on.
    Tell(Vec<u8>),
    Close,
    /// For misbehaviour, with the reason.
    Expel(String),
}

/// What a request came to.
#[derive(Debug, Default)]
pub struct Answer {
    pub effects: Vec<Effect>,
    pub is_error: bool,
    /// The log failed: nothing of this may leave, the venue must stop.
    pub log_failed: bool,
}

pub struct Desk {
    pub(crate) keys: Keys,
    vault: Box<dyn Vault>,
    pub(crate) limits: Option<Limits>,
    meters: BTreeMap<AccountId, Meter>,
    /// What accounts have traded, of those that are limited.
    volumes: BTreeMap<AccountId, Volume>,
    /// Of HTTP requests that speak for no account.
    strangers: BTreeMap<IpAddr, Meter>,
    /// Signatures that have entered an order, unless replays are allowed.
    pub(crate) replays: Option<Replays>,
    /// Accounts whose future connections begin with cancel on disconnect. Not kept over a restart, which ends every
    /// connection anyway: whoever connects again says so again.
    pub(crate) cancels_by_default: BTreeSet<AccountId>,
    last_session: SessionId,
    /// Of accounts that somebody wants to be able to come back to.
    pub(crate) diary: Diary,
    /// The last result's buffer, for the next one.
    result: Vec<u8>,
}

/// A result's buffer is given back when one result has made it larger than this.
const KEPT_RESULT_BYTES: usize = 64 * 1024;
/// How many addresses are counted at a time.
const MOST_STRANGERS: usize = 10_000;

/// What a method has at hand.
pub(crate) struct Call<'a> {
    pub desk: &'a mut Desk,
    pub venue: &'a mut dyn Venue,
    pub session: &'a mut Session,
    pub params: &'a Params<'a>,
    /// Whom this call speaks for, or why nobody believes it. Methods that need nobody do not look.
    pub login: Result<Option<Login>, RpcError>,
    pub entrance: Entrance,
    pub wall_ms: u64,
    pub clock: Clock,
    pub effects: Vec<Effect>,
    /// Where the method writes its `result`.
    pub out: Vec<u8>,
    pub log_failed: bool,
}

impl Call<'_> {
    pub fn account(&self) -> Result<AccountId, RpcError> {
        let login = self.login.as_ref().map_err(Clone::clone)?;
        login.map(|login| login.account).ok_or_else(|| RpcError::new("authorization_required", "log in first"))
    }

    /// For what only operators may do.
    pub fn operator(&self) -> Result<AccountId, RpcError> {
        let account = self.account()?;
        let is_operator = matches!(&self.login, Ok(Some(login)) if login.access.is_operator());
        if is_operator { Ok(account) } else { Err(RpcError::new("operator_only", "this login is no operator's")) }
    }

    /// Whether the caller's login reaches so far. The dialect has two numbers for one that does not.
    pub fn must_reach(&self, area: Area, level: Level) -> Result<(), RpcError> {
        let login = self.login.as_ref().map_err(Clone::clone)?;
        let login = login.ok_or_else(|| RpcError::new("authorization_required", "log in first"))?;
        let has = login.access.level(area);
        if has >= level {
            return Ok(());
        }
        let name = if self.entrance == Entrance::Http { "forbidden" } else { "scope_exceeded" };
        let (area, level, has) = (area.name(), level.name(), has.name());
        Err(RpcError::new(name, format!("the call needs {area}:{level}; this login has {area}:{has}")))
    }

    /// The wall clock as it stands now, in milliseconds: later than when the request was read.
    pub fn wall_ms_now(&self) -> u64 {
        (self.clock.now_us)() / 1000
    }
}

impl Desk {
    /// `random` must be fit for secrets: tokens are made of it.
    pub fn new(credentials: Vec<Credential>, random: fn() -> [u8; 32]) -> Self {
        Desk {
            keys: Keys::new(credentials, random),
            vault: Box::new(Forgetful),
            limits: None,
            meters: BTreeMap::new(),
            volumes: BTreeMap::new(),
            strangers: BTreeMap::new(),
            replays: Some(Replays::default()),
            cancels_by_default: BTreeSet::new(),
            last_session: SessionId::ZERO,
            diary: Diary::default(),
            result: Vec::new(),
        }
    }

    /// Keeps credentials made at run time for the next start.
    #[must_use]
    pub fn with_vault(mut self, vault: Box<dyn Vault>) -> Self {
        self.vault = vault;
        self
    }

    pub(crate) fn add_credential(&mut self, client_id: &str, account: AccountId) -> io::Result<String> {
        self.keys.add(client_id, account, |all| self.vault.keep(all))
    }

    /// Without it everybody may ask as often as they like.
    pub fn with_limits(self, limits: Limits) -> Self {
        Desk { limits: Some(limits), ..self }
    }

    /// What an account is allowed, and whether that is kept to.
    pub(crate) fn limits_of(&self, account: AccountId, venue: &dyn Venue) -> (Limits, bool) {
        let mut volume = self.volumes.get(&account).cloned().unwrap_or_default();
        let book = venue.views().account(account);
        let dollars = book.map_or(0, |book| volume.count(book, venue.engine(), venue.now()));
        (self.limits.unwrap_or_default().of_volume(dollars), self.limits.is_some())
    }

    /// Lets one signed request enter an order more than once.
    pub fn allowing_replays(self) -> Self {
        Desk { replays: None, ..self }
    }

    /// The session of a new connection.
    pub fn connect(&mut self, engine: &Engine) -> Session {
        let last = self.last_session.max(engine.last_session());
        // A venue that has used up four billion numbers gives its connections none: their orders belong to nobody.
        let Some(next) = last.0.checked_add(1).map(SessionId) else { return Session::new() };
        self.last_session = next;
        Session::numbered(next)
    }

    /// A connection has ended: takes back what died with it, and cancels the orders that were to go with it.
    pub fn disconnected(&mut self, session: &mut Session, venue: &mut dyn Venue) -> Result<(), LogError> {
        if let Some(number) = session.number.take() {
            self.keys.forget_session(number);
        }
        let OnDisconnect { cancels, entered } = std::mem::take(&mut session.on_disconnect);
        for account in entered.into_iter().filter(|account| cancels.get(account) == Some(&true)) {
            let (which, reason) = (CancelFilter::Session(session.id), CancelReason::Disconnected);
            venue.submit(Command::CancelAll { account, which, reason })?;
        }
        Ok(())
    }

    /// The session of an HTTP request with an `Authorization` header. What is wrong with the header is told only by
    /// methods that need a login: a client whose token has gone stale must still be able to ask for another.
    pub fn session_of(
        &self,
        header: Authorization<'_>,
        request: SignedRequest<'_>,
        address: Option<IpAddr>,
        wall_ms: u64,
    ) -> Session {
        match self.keys.by_header(header, request, address, wall_ms) {
            Ok(login) => Session::logged_in(login),
            Err(refusal) => Session::refused(refusal),
        }
    }

    /// Answers one JSON text. `path_method` is what the URL named, if it named anything.
    pub fn answer_text(
        &mut self,
        visit: Visit<'_>,
        text: &str,
        path_method: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Answer {
        match Request::parse(text, path_method) {
            Ok(request) => self.answer(visit, &request, out),
            Err((id, error)) => {
                let Visit { venue, session, clock, .. } = visit;
                let (error, ends) = match self.charge(&*venue, session, None, Sort::Request, clock.steady_ns) {
                    Ok(()) => (error, false),
                    Err(refused) => refused,
                };
                let answer = Self::refuse(&id, &error, clock, out);
                Answer { effects: ending(ends), ..answer }
            }
        }
    }

    /// Counts a request. An error says how it is refused, and whether it was one too many.
    fn charge(
        &mut self,
        venue: &dyn Venue,
        session: &mut Session,
        account: Option<AccountId>,
        sort: Sort,
        now_ns: u64,
    ) -> Result<(), (RpcError, bool)> {
        let Some(mut limits) = self.limits else { return Ok(()) };
        if let (Sort::Order | Sort::Cancel, Some(account)) = (sort, account)
            && let Some(book) = venue.views().account(account)
        {
            let volume = self.volumes.entry(account).or_default();
            limits = limits.of_volume(volume.count(book, venue.engine(), venue.now()));
        }
        let limits = &limits;
        let is_passing = session.id == SessionId::ZERO;
        let meter = match (account, session.address) {
            (Some(account), _) => self.meters.entry(account).or_default(),
            (None, Some(address)) if is_passing => {
                if self.strangers.len() >= MOST_STRANGERS && !self.strangers.contains_key(&address) {
                    self.strangers.pop_first();
                }
                self.strangers.entry(address).or_default()
            }
            (None, _) => &mut session.meter,
        };
        meter.take(limits, sort, now_ns).map_err(|error| (error, session.patience.ends(limits, now_ns)))
    }

    /// Writes an error where no method got so far.
    pub fn refuse(id: &RequestId, error: &RpcError, clock: Clock, out: &mut Vec<u8>) -> Answer {
        write_error(out, id, error, clock.received_us, (clock.now_us)());
        Answer { is_error: true, ..Answer::default() }
    }

    /// Answers one request: exactly one envelope is appended to `out`.
    pub fn answer(&mut self, visit: Visit<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> Answer {
        let Visit { venue, session, entrance, clock } = visit;
        let wall_ms = clock.received_us / 1000;
        let login = self.caller(session, &request.params, wall_ms);
        let payer = login.as_ref().ok().copied().flatten().map(|login| login.account);
        if let Err((error, ends)) = self.charge(&*venue, session, payer, Sort::of(&request.method), clock.steady_ns) {
            return Answer { effects: ending(ends), ..Self::refuse(&request.id, &error, clock, out) };
        }
        let mut result = std::mem::take(&mut self.result);
        result.clear();
        let mut call = Call {
            desk: self,
            venue,
            session,
            params: &request.params,
            login,
            entrance,
            wall_ms,
            clock,
            effects: Vec::new(),
            out: result,
            log_failed: false,
        };
        let done = methods::run(&request.method, &mut call);
        let Call { mut effects, out: result, log_failed, .. } = call;
        if done.is_err() {
            // What answers an error has not happened.
            effects.clear();
        }
        let us_out = (clock.now_us)();
        match &done {
            Ok(()) => write_result(out, &request.id, &result, clock.received_us, us_out),
            Err(error) => write_error(out, &request.id, error, clock.received_us, us_out),
        }
        self.result = result;
        self.result.shrink_to(KEPT_RESULT_BYTES);
        Answer { effects, is_error: done.is_err(), log_failed }
    }

    /// A token among the parameters decides its one call, valid or refused, and nothing after it: a connection may
    /// carry the orders of several accounts, each with its own token.
    fn caller(&self, session: &Session, params: &Params<'_>, wall_ms: u64) -> Result<Option<Login>, RpcError> {
        match params.text("access_token")? {
            Some(token) => self.keys.by_token(&token, session.address, wall_ms).map(Some),
            None => session.caller(),
        }
    }
}

/// What becomes of a connection that was refused once too often.
fn ending(ends: bool) -> Vec<Effect> {
    if ends { vec![Effect::Expel("too many requests, refused too often".into())] } else { Vec::new() }
}
