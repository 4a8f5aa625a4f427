//! The desk: takes a request, finds the method, writes the answer.

use pitwire_jsonrpc::{Channel, Params, Request, RequestId, RpcError, write_error, write_result};
use pitwire_model::AccountId;
use pitwire_ports::Venue;

use crate::auth::{Authorization, Credential, Keys, Login, SignedRequest};
use crate::methods;
use crate::session::Session;

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
}

/// What a method has at hand.
pub(crate) struct Call<'a> {
    pub desk: &'a mut Desk,
    pub venue: &'a mut dyn Venue,
    pub session: &'a mut Session,
    pub params: &'a Params<'a>,
    pub entrance: Entrance,
    pub wall_ms: u64,
    pub effects: Vec<Effect>,
    /// Where the method writes its `result`.
    pub out: Vec<u8>,
    pub log_failed: bool,
}

impl Call<'_> {
    pub fn account(&self) -> Result<AccountId, RpcError> {
        let login = self.session.login.ok_or_else(|| RpcError::new("authorization_required", "log in first"))?;
        Ok(login.account)
    }
}

impl Desk {
    /// `random` must be fit for secrets: tokens are made of it.
    pub fn new(credentials: Vec<Credential>, random: fn() -> [u8; 32]) -> Self {
        Desk { keys: Keys::new(credentials, random) }
    }

    /// The login that an HTTP request's header proves.
    pub fn login(
        &self,
        header: Authorization<'_>,
        request: SignedRequest<'_>,
        wall_ms: u64,
    ) -> Result<Login, RpcError> {
        self.keys.by_header(header, request, wall_ms)
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
        let mut call = Call {
            desk: self,
            venue,
            session,
            params: &request.params,
            entrance,
            wall_ms: clock.received_us / 1000,
            effects: Vec::new(),
            out: Vec::with_capacity(512),
            log_failed: false,
        };
        let done = methods::run(&request.method, &mut call);
        let Call { effects, out: result, log_failed, .. } = call;
        let us_out = (clock.now_us)();
        match &done {
            Ok(()) => write_result(out, &request.id, &result, clock.received_us, us_out),
            Err(error) => write_error(out, &request.id, error, clock.received_us, us_out),
        }
        Answer { effects, is_error: done.is_err(), log_failed }
    }
}
