//! The dispatcher: takes a request, calls its method, writes the answer.
//!
//! Start at    [`Dispatcher::answer`].

use core::net::IpAddr;
use std::collections::BTreeSet;

use pitwire_engine::Engine;
use pitwire_model::{AccountId, SessionId, VenueNanos};
use pitwire_projections::Views;

use crate::Venue;
use crate::account_events::AccountEvent;
use crate::auth::{Authorization, Credential, FailedLogin, SignedRequest};
use crate::call::{Call, Effect, Transport};
use crate::codec::{IgnoredChannels, Params, Request, RequestId, RpcError, write_error, write_result_with};
use crate::credential_store::CredentialStore;
use crate::ended_logins::EndedLogins;
use crate::limits::{DialectLimits, RequestClass};
use crate::login::{Login, check_account};
use crate::login_failures::FailureCounts;
use crate::long_answer::LongAnswer;
use crate::methods;
use crate::methods::typed::{TypedAnswer, TypedOutcome, TypedRequest};
use crate::notices::VenueView;
use crate::request_clock::RequestClock;
use crate::resume;
use crate::session::{OnDisconnect, Session};
use crate::state::{LimitExceeded, SharedState};

/// The surroundings of a request: the venue, the connection's session, the transport and the
/// time.
pub struct RequestContext<'a> {
    pub venue: &'a mut dyn Venue,
    pub session: &'a mut Session,
    pub transport: Transport,
    pub clock: RequestClock,
}

/// The consequences of a request, besides the answer's bytes.
#[derive(Debug, Default)]
pub struct DispatchOutcome {
    pub effects: Vec<Effect>,
    pub is_error: bool,
    /// Writing the journal failed: nothing of this may be sent, and the venue must stop.
    pub log_failed: bool,
    /// The account of the request's login or access token.
    pub account: Option<AccountId>,
    /// The rest of the work, which the server continues. Nothing has been answered then, and
    /// nothing more of the connection may be acted on before the answer is complete.
    pub rest: Option<LongAnswer>,
}

/// Answers the requests of all connections of one venue.
pub struct Dispatcher {
    state: SharedState,
    last_session: SessionId,
    /// The buffer of the last result, reused for the next.
    result: Vec<u8>,
}

/// The result buffer shrinks to this many bytes after a larger result.
const RESULT_BUFFER_BYTES: usize = 64 * 1024;

impl Dispatcher {
    /// `random` must be fit for secrets, because tokens are made from it.
    pub fn new(credentials: Vec<Credential>, random: fn() -> [u8; 32]) -> Self {
        Dispatcher { state: SharedState::new(credentials, random), last_session: SessionId::ZERO, result: Vec::new() }
    }

    /// Stores credentials that are made at run time, so that the next start has them.
    #[must_use]
    pub fn with_credential_store(mut self, store: Box<dyn CredentialStore>) -> Self {
        self.state.store = store;
        self
    }

    /// Sets the client ids that were removed at run time. They are not used again.
    #[must_use]
    pub fn without_client_ids(mut self, removed: BTreeSet<String>) -> Self {
        self.state.keys.set_removed(removed);
        self
    }

    /// Limits the rate of requests. Without this call rates are not limited.
    #[must_use]
    pub fn with_limits(mut self, limits: DialectLimits) -> Self {
        self.state.rates.limits = Some(limits);
        self
    }

    /// Sets the most open orders of an account, unless an operator has set a limit for it. Without
    /// this call it is [`DialectLimits::MAX_OPEN_ORDERS`].
    #[must_use]
    pub fn with_max_open_orders(mut self, max: u32) -> Self {
        self.state.max_open_orders = max;
        self
    }

    /// Sets how many stop orders of an account may wait for their trigger price. It does not hold
    /// for an account whose open orders an operator has limited. Without this call it is
    /// [`DialectLimits::MAX_STOP_ORDERS`].
    #[must_use]
    pub fn with_max_stop_orders(mut self, max: u32) -> Self {
        self.state.max_stop_orders = max;
        self
    }

    /// Lets one signed request enter an order more than once.
    #[must_use]
    pub fn allowing_replays(mut self) -> Self {
        self.state.refuses_replays = false;
        self
    }

    /// Returns the session of a new connection.
    pub fn connect(&mut self, engine: &Engine) -> Session {
        let last = self.last_session.max(engine.last_session());
        // After four billion sessions the numbers are used up: later connections get none, and
        // cancel on disconnect does not work for them.
        let Some(next) = last.0.checked_add(1).map(SessionId) else { return Session::new() };
        self.last_session = next;
        Session::numbered(next)
    }

    /// Ends a session: revokes the tokens that were bound to the connection. Returns the cancels of
    /// its open orders, for accounts with cancel on disconnect. The server continues them.
    pub fn disconnected(&mut self, session: &mut Session, views: &Views) -> Vec<LongAnswer> {
        if let Some(number) = session.number.take() {
            self.state.keys.forget_session(number);
        }
        let OnDisconnect { cancels, entered } = std::mem::take(&mut session.on_disconnect);
        let with_cancel = entered.into_iter().filter(|account| cancels.get(account) == Some(&true));
        with_cancel.filter_map(|account| LongAnswer::end_of_session(views, account, session.id)).collect()
    }

    /// Returns the session of an HTTP request with an `Authorization` header. An invalid header is
    /// reported only by methods that need a login, because a client with an expired token must
    /// still be able to ask for a new one.
    pub fn session_of(
        &mut self,
        header: Authorization<'_>,
        request: SignedRequest<'_>,
        address: Option<IpAddr>,
        clock: RequestClock,
    ) -> Session {
        match self.state.keys.by_header(header, request, address, clock) {
            Ok(login) => Session::logged_in(login),
            Err(refusal) => Session::refused(refusal),
        }
    }

    /// Answers one JSON text. `path_method` is the method that the URL names, if it names one.
    pub fn answer_text(
        &mut self,
        context: RequestContext<'_>,
        text: &str,
        path_method: Option<&str>,
        out: &mut Vec<u8>,
    ) -> DispatchOutcome {
        match Request::parse(text, path_method) {
            Ok(request) => self.answer(context, &request, out),
            Err((id, error)) => {
                let RequestContext { venue, session, clock, .. } = context;
                let class = RequestClass::Request;
                let (error, closes) = match self.state.rates.charge(&*venue, session, None, class, clock.steady_ns) {
                    Ok(()) => (error, false),
                    Err(LimitExceeded { error, closes }) => (error, closes),
                };
                let dispatched = Self::refuse(&id, &error, clock, out);
                DispatchOutcome { effects: closing(closes), ..dispatched }
            }
        }
    }

    /// Writes the answer to a request that never reached a method.
    pub fn refuse(id: &RequestId, error: &RpcError, clock: RequestClock, out: &mut Vec<u8>) -> DispatchOutcome {
        write_error(out, id, error, clock.received_us, (clock.now_us)());
        DispatchOutcome { is_error: true, ..DispatchOutcome::default() }
    }

    /// Answers one request: appends exactly one envelope to `out`.
    pub fn answer(&mut self, context: RequestContext<'_>, request: &Request<'_>, out: &mut Vec<u8>) -> DispatchOutcome {
        let RequestContext { venue, session, transport, clock } = context;
        let wall_ms = clock.wall_ms();
        let login = self.caller(session, &request.params, clock);
        let (login, account) = checked(login, venue.engine());
        let class = RequestClass::of(&request.method);
        if let Err(LimitExceeded { error, closes }) =
            self.state.rates.charge(&*venue, session, account, class, clock.steady_ns)
        {
            return DispatchOutcome { effects: closing(closes), ..Self::refuse(&request.id, &error, clock, out) };
        }
        let mut result = std::mem::take(&mut self.result);
        result.clear();
        let mut call = Call {
            state: &mut self.state,
            venue,
            session,
            params: &request.params,
            login,
            transport,
            wall_ms,
            clock,
            effects: Vec::new(),
            out: result,
            ignored: IgnoredChannels::default(),
            rest: None,
            log_failed: false,
        };
        let outcome = methods::run(&request.method, &mut call);
        let Call { mut effects, out: result, ignored, rest, log_failed, .. } = call;
        if let (Some(work), Some(account), Ok(())) = (rest, account, &outcome) {
            let rest = Some(LongAnswer::new(account, request.id.clone(), clock.received_us, work, &result));
            self.result = result;
            self.result.shrink_to(RESULT_BUFFER_BYTES);
            return DispatchOutcome { effects, account: Some(account), rest, ..DispatchOutcome::default() };
        }
        if outcome.is_err() {
            // A request that is answered with an error has no effect.
            effects.clear();
        }
        let us_out = (clock.now_us)();
        match &outcome {
            Ok(()) => write_result_with(out, &request.id, &result, ignored.as_slice(), clock.received_us, us_out),
            Err(error) => write_error(out, &request.id, error, clock.received_us, us_out),
        }
        self.result = result;
        self.result.shrink_to(RESULT_BUFFER_BYTES);
        DispatchOutcome { effects, is_error: outcome.is_err(), log_failed, account, rest: None }
    }

    /// Logs a session in with a client id and its secret, without tokens. The session and its later
    /// [`Self::execute`] must be of one connection.
    ///
    /// # Errors
    ///
    /// The refusals of `public/auth`.
    pub fn log_in(
        &mut self,
        context: RequestContext<'_>,
        client_id: &str,
        secret: &str,
    ) -> Result<AccountId, RpcError> {
        let RequestContext { venue, session, clock, .. } = context;
        let login = self.state.keys.log_in(client_id, secret, session.address, clock)?;
        check_account(venue.engine(), login.account)?;
        session.log_in(login);
        methods::typed::begin_session(&self.state, session, login.account);
        Ok(login.account)
    }

    /// Executes one typed request of a session that is logged in.
    pub fn execute(&mut self, context: RequestContext<'_>, request: &TypedRequest<'_>) -> TypedOutcome {
        let RequestContext { venue, session, transport, clock } = context;
        let (login, account) = checked(session.caller(), venue.engine());
        let class = RequestClass::of(request.method());
        if let Err(LimitExceeded { error, closes }) =
            self.state.rates.charge(&*venue, session, account, class, clock.steady_ns)
        {
            return TypedOutcome { answer: Err(error), closes, log_failed: false };
        }
        let params = Params::default();
        let mut call = Call {
            state: &mut self.state,
            venue,
            session,
            params: &params,
            login,
            transport,
            wall_ms: clock.wall_ms(),
            clock,
            effects: Vec::new(),
            out: Vec::new(),
            ignored: IgnoredChannels::default(),
            rest: None,
            log_failed: false,
        };
        let answer = methods::typed::run(&mut call, request);
        let Call { rest, log_failed, .. } = call;
        let answer = match (answer, rest, account) {
            (Ok(_), Some(work), Some(account)) => {
                let (id, received_us) = (RequestId(None), clock.received_us);
                Ok(TypedAnswer::Later(Box::new(LongAnswer::new(account, id, received_us, work, &[]))))
            }
            (answer, ..) => answer,
        };
        TypedOutcome { answer, closes: false, log_failed }
    }

    /// Returns the caller's login. An `access_token` among the parameters decides for its one call,
    /// whether it is valid or not: a connection may carry the orders of several accounts, each with
    /// its own token.
    fn caller(&self, session: &Session, params: &Params<'_>, clock: RequestClock) -> Result<Option<Login>, RpcError> {
        match params.text("access_token")? {
            Some(token) => self.state.keys.by_token(&token, session.address, clock.steady_ms()).map(Some),
            None => session.caller(),
        }
    }
}

/// Logins that ended or failed.
impl Dispatcher {
    /// Returns the logins that ended since the last call. The server closes the connections whose
    /// [`Session::has_ended_login`] is true.
    pub fn take_ended_logins(&mut self) -> EndedLogins {
        self.state.keys.take_ended()
    }

    /// Removes credentials without an open account from the credential store, if a request has left
    /// any. Call it after each commit.
    ///
    /// # Errors
    ///
    /// Returns the error of the store. The next change of a credential removes them.
    pub fn remove_surplus_credentials(&mut self) -> std::io::Result<()> {
        self.state.remove_surplus_credentials()
    }

    /// Returns a failed login since the last call, for the log.
    pub fn take_failed_login(&mut self) -> Option<FailedLogin> {
        self.state.keys.take_failed()
    }

    pub fn login_failures(&self) -> FailureCounts {
        self.state.keys.failures.counts
    }
}

/// Private channels that can be resumed.
impl Dispatcher {
    /// Sets the epoch of the tokens, and whether the venue's history reaches back into earlier
    /// epochs.
    pub fn begin_epoch(&mut self, epoch: u64, has_history: bool) {
        self.state.replay.epoch = epoch;
        self.state.replay.has_history = has_history;
    }

    /// Records events in the replay buffers. Must be called before [`Self::send_resumable`].
    pub fn record(&mut self, engine: &Engine, events: &[AccountEvent]) {
        self.state.replay.record(engine, events);
    }

    /// Says whether messages of an account are recorded.
    pub fn records(&self, account: AccountId) -> bool {
        self.state.replay.of(account).is_some()
    }

    /// Forgets the recorded messages of an account, because some were not recorded.
    pub fn forget_recorded(&mut self, account: AccountId) {
        self.state.replay.forget(account);
    }

    /// Sends the recorded messages to a session's resumable channels. `send` gets each message.
    pub fn send_resumable(&self, session: &mut Session, engine: &Engine, views: &Views, send: &mut dyn FnMut(&[u8])) {
        resume::send_resumable(session, &self.state.replay, VenueView { engine, views }, send);
    }

    /// Drops the replay buffers of accounts without a subscriber for [`crate::RESUMABLE_NS`].
    /// `sessions` are all open sessions. To be called from time to time.
    pub fn expire_replay_buffers<'a>(&mut self, sessions: impl Iterator<Item = &'a Session>, now: VenueNanos) {
        self.state.replay.expire(sessions.flat_map(Session::resumable_accounts), now);
    }
}

/// Refuses a login whose account may not log in: a killed or closed account has no logins, also
/// after a restart. Also returns the account of the login.
fn checked(
    login: Result<Option<Login>, RpcError>,
    engine: &Engine,
) -> (Result<Option<Login>, RpcError>, Option<AccountId>) {
    let login = login.and_then(|login| match login {
        Some(login) => check_account(engine, login.account).map(|()| Some(login)),
        None => Ok(None),
    });
    let account = login.as_ref().ok().copied().flatten().map(|login| login.account);
    (login, account)
}

/// The effect on a connection whose requests have been refused too often.
fn closing(closes: bool) -> Vec<Effect> {
    if closes { vec![Effect::Expel("too many requests, refused too often".into())] } else { Vec::new() }
}
