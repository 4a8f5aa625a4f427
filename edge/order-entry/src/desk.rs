//! The desk: takes a request, finds the method, writes the answer.

use std::io;

use pitwire_jsonrpc::{Channel, Params, Request, RequestId, RpcError, write_error, write_result};
use pitwire_model::AccountId;
use pitwire_ports::Venue;

use crate::auth::{Authorization, Credential, Keys, Login, SignedRequest};
use crate::methods;
use crate::session::Session;
use crate::vault::{Forgetful, Vault};

/// Which door a request came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    WebSocket,
    Http,
}

/// Wall time, in microseconds since 1970: signatures, token life and `usIn` go by it, never the market.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub received_us: u64,
    /// Read again when the answer is written.
    pub now_us: fn() -> u64,
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
    Unsubscribe(String),
    UnsubscribeAll,
    Close,
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
}

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
        let is_operator = matches!(&self.login, Ok(Some(login)) if login.operator);
        if is_operator { Ok(account) } else { Err(RpcError::new("operator_only", "this login is no operator's")) }
    }
}

impl Desk {
    /// `random` must be fit for secrets: tokens are made of it.
    pub fn new(credentials: Vec<Credential>, random: fn() -> [u8; 32]) -> Self {
        Desk { keys: Keys::new(credentials, random), vault: Box::new(Forgetful) }
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

    /// The session of an HTTP request with an `Authorization` header. What is wrong with the header is told only by
    /// methods that need a login: a client whose token has gone stale must still be able to ask for another.
    pub fn session_of(&self, header: Authorization<'_>, request: SignedRequest<'_>, wall_ms: u64) -> Session {
        match self.keys.by_header(header, request, wall_ms) {
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
            Err((id, error)) => Self::refuse(&id, &error, visit.clock, out),
        }
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
        let mut call = Call {
            desk: self,
            venue,
            session,
            params: &request.params,
            login,
            entrance,
            wall_ms,
            effects: Vec::new(),
            out: Vec::with_capacity(512),
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
        Answer { effects, is_error: done.is_err(), log_failed }
    }

    /// A token among the parameters decides its one call, valid or refused, and nothing after it: a connection may
    /// carry the orders of several accounts, each with its own token.
    fn caller(&self, session: &Session, params: &Params<'_>, wall_ms: u64) -> Result<Option<Login>, RpcError> {
        match params.text("access_token")? {
            Some(token) => self.keys.by_token(&token, wall_ms).map(Some),
            None => session.caller(),
        }
    }
}
