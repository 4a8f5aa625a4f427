//! One call of a method: its parameters, its caller, and where the result goes.
//!
//! Does        read the parameters that many methods share; check the caller's login.
//! Start at    [`Call`].

use std::borrow::Cow;

use pitwire_engine::Market;
use pitwire_model::{AccountId, InstrumentId, InstrumentSpec, Label, Phase};

use crate::Venue;
use crate::access::{AccessLevel, Area};
use crate::codec::{Channel, IgnoredChannels, Json, Params, RpcError, Token};
use crate::login::Login;
use crate::long_answer::LongWork;
use crate::request_clock::RequestClock;
use crate::session::Session;
use crate::state::SharedState;

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    WebSocket,
    Http,
}

/// An action that the server takes on the connection after it has queued the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Subscribe to a public channel. The text is the name that the client used.
    Subscribe(String, Channel),
    /// Subscribe with resume tokens, and continue after the token if there is one.
    Resume(String, Channel, Option<Token>),
    Unsubscribe(String),
    UnsubscribeAll,
    /// Send a message to a resuming subscriber: a missed message, or the notice with the number
    /// from which its subscription continues.
    Send(Vec<u8>),
    /// Close the connection after a logout.
    Close,
    /// Close the connection for misbehaviour, with the reason.
    Expel(String),
}

/// The result of a method; its JSON has been written to [`Call::out`].
pub(crate) type MethodResult = Result<(), RpcError>;

pub(crate) type Method = fn(&mut Call<'_>) -> MethodResult;

/// Everything that a method works with.
pub(crate) struct Call<'a> {
    pub state: &'a mut SharedState,
    pub venue: &'a mut dyn Venue,
    pub session: &'a mut Session,
    pub params: &'a Params<'a>,
    /// The caller's login, or why its credentials were refused. Methods that need no login ignore
    /// both.
    pub login: Result<Option<Login>, RpcError>,
    pub transport: Transport,
    /// Wall time at which the request was received, in milliseconds since 1970.
    pub wall_ms: u64,
    pub clock: RequestClock,
    pub effects: Vec<Effect>,
    /// The JSON of the result.
    pub out: Vec<u8>,
    /// Channels that a subscription left out, and why. They are named beside the result.
    pub ignored: IgnoredChannels,
    /// The rest of the work, if it is too much for one turn. [`Call::out`] then has the first part
    /// of the result.
    pub rest: Option<LongWork>,
    /// Whether writing the journal failed. The venue then stops and this answer is not sent.
    pub log_failed: bool,
}

impl Call<'_> {
    /// The caller's account.
    ///
    /// # Errors
    ///
    /// `authorization_required` without a login, or the refusal of the credentials.
    pub fn account(&self) -> Result<AccountId, RpcError> {
        let login = self.login.as_ref().map_err(Clone::clone)?;
        login.map(|login| login.account).ok_or_else(|| RpcError::new("authorization_required", "log in first"))
    }

    /// The caller's account, if its login has the operator scope.
    ///
    /// # Errors
    ///
    /// As [`Self::account`], and `operator_only` for every other login.
    pub fn operator(&self) -> Result<AccountId, RpcError> {
        let account = self.account()?;
        let is_operator = matches!(&self.login, Ok(Some(login)) if login.access.is_operator());
        if is_operator { Ok(account) } else { Err(RpcError::new("operator_only", "this login is no operator's")) }
    }

    /// Checks that the caller's login has at least this level of access to an area.
    ///
    /// # Errors
    ///
    /// `authorization_required` without a login. A login without the scope gets `forbidden` over
    /// HTTP and `scope_exceeded` over WebSocket: the dialect has two codes for it.
    pub fn require_scope(&self, area: Area, level: AccessLevel) -> Result<(), RpcError> {
        let login = self.login.as_ref().map_err(Clone::clone)?;
        let login = login.ok_or_else(|| RpcError::new("authorization_required", "log in first"))?;
        let has = login.access.level(area);
        if has >= level {
            return Ok(());
        }
        let name = if self.transport == Transport::Http { "forbidden" } else { "scope_exceeded" };
        let (area, level, has) = (area.name(), level.name(), has.name());
        Err(RpcError::new(name, format!("the call needs {area}:{level}; this login has {area}:{has}")))
    }

    /// Writes as much of a list as one request may cost. Later turns write the rest.
    pub fn answer_with(&mut self, mut work: LongWork) -> MethodResult {
        let account = self.account()?;
        if !work.write_at_once(&*self.venue, account, &mut self.out) {
            self.rest = Some(work);
        }
        Ok(())
    }

    /// Wall time now, in milliseconds since 1970; later than [`Call::wall_ms`].
    pub fn wall_ms_now(&self) -> u64 {
        (self.clock.now_us)() / 1000
    }

    /// Returns the writer of this method's `result`.
    pub fn json(&mut self) -> Json<'_> {
        Json::new(&mut self.out)
    }
}

impl<'a> Call<'a> {
    /// Reads `instrument_name`.
    ///
    /// # Errors
    /// A refusal if it is missing or malformed, `unknown_instrument` if no instrument has this
    /// name.
    pub fn instrument_id(&self) -> Result<InstrumentId, RpcError> {
        let name = self.params.required("instrument_name")?;
        check_instrument_name(&name)?;
        let found = self.venue.engine().instrument_named(&name).map(|market| market.spec.id);
        found.ok_or_else(|| RpcError::param("unknown_instrument", "instrument_name", format!("no instrument {name:?}")))
    }

    /// Returns the market of an instrument.
    ///
    /// # Errors
    /// `unknown_instrument` if there is none.
    pub fn market(&self, id: InstrumentId) -> Result<&Market, RpcError> {
        self.venue.engine().market(id).ok_or_else(|| RpcError::new("unknown_instrument", "no such instrument"))
    }

    /// Returns the definition of an instrument.
    ///
    /// # Errors
    /// `unknown_instrument` if there is none.
    pub fn spec(&self, id: InstrumentId) -> Result<&InstrumentSpec, RpcError> {
        self.market(id).map(|market| &market.spec)
    }

    /// Reads `segment`: the instruments of that segment, in order of their numbers.
    ///
    /// # Errors
    /// A refusal if it is missing, `unknown_segment` if no instrument belongs to it.
    pub fn segment(&self) -> Result<Vec<InstrumentId>, RpcError> {
        let name = self.params.required("segment")?;
        let of = |spec: &InstrumentSpec| spec.rules.as_ref().is_some_and(|rules| rules.segment.as_str() == name);
        let markets = self.venue.engine().markets().iter().filter(|market| market.phase() != Phase::Deleted);
        let found: Vec<InstrumentId> = markets.filter(|market| of(&market.spec)).map(|market| market.spec.id).collect();
        if found.is_empty() {
            let shown: String = name.chars().take(80).collect();
            return Err(RpcError::param(
                "unknown_segment",
                "segment",
                format!("no instrument is of segment {shown:?}"),
            ));
        }
        Ok(found)
    }

    /// Reads `currency`; `any` if it is absent.
    ///
    /// # Errors
    /// A refusal if it is not a single value.
    pub fn currency(&self) -> Result<String, RpcError> {
        Ok(self.params.text("currency")?.filter(|text| !text.is_empty()).map_or("any".into(), Cow::into_owned))
    }

    /// Reads `label`. The dialect counts 64 characters, the engine keeps 64 bytes, so a character
    /// beyond ASCII costs more than one; the refusal says both counts.
    ///
    /// # Errors
    /// A refusal if it is too long.
    pub fn label(&self) -> Result<Label, RpcError> {
        let text = self.params.text("label")?.unwrap_or_default();
        Label::new(&text).ok_or_else(|| {
            let (characters, bytes, most) = (text.chars().count(), text.len(), Label::MAX_BYTES);
            RpcError::invalid(
                "label",
                format!("a label is at most {most} characters and {most} bytes of UTF-8; this one has {characters} and {bytes}"),
            )
        })
    }

    /// Reads `label` where a method needs one.
    ///
    /// # Errors
    /// A refusal if it is missing, empty or too long.
    pub fn required_label(&self) -> Result<Label, RpcError> {
        self.params.required("label")?;
        self.label()
    }

    /// Reads `count`, 1 to 1000.
    ///
    /// # Errors
    /// A refusal if it is not a whole number in that range.
    pub fn count(&self, default: usize) -> Result<usize, RpcError> {
        match self.params.integer("count")? {
            None => Ok(default),
            Some(count) => usize::try_from(count)
                .ok()
                .filter(|count| (1..=1000).contains(count))
                .ok_or_else(|| RpcError::invalid("count", "count is 1 to 1000")),
        }
    }

    /// Reads `start_timestamp` and `end_timestamp` in milliseconds. Both ends are included; an
    /// absent end is open.
    ///
    /// # Errors
    /// A refusal if one of them is not a whole number.
    pub fn time_range(&self) -> Result<(u64, u64), RpcError> {
        let at = |value: Option<i64>, absent: u64| value.map_or(absent, |value| u64::try_from(value).unwrap_or(0));
        let (from, to) = (self.params.integer("start_timestamp")?, self.params.integer("end_timestamp")?);
        Ok((at(from, 0), at(to, u64::MAX)))
    }

    /// Reads `sorting`; descending if it is absent.
    ///
    /// # Errors
    /// A refusal if it is neither `asc`, `desc` nor `default`.
    pub fn is_ascending(&self) -> Result<bool, RpcError> {
        match self.params.text("sorting")?.as_deref() {
            Some("asc") => Ok(true),
            None | Some("desc" | "default" | "") => Ok(false),
            Some(_) => Err(RpcError::invalid("sorting", "sorting is asc, desc or default")),
        }
    }
}

/// An instrument name consists of at most 64 letters, digits, underscores and dashes.
fn check_instrument_name(name: &str) -> MethodResult {
    let fine = name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fine { Ok(()) } else { Err(RpcError::invalid("instrument_name", "a name is letters, digits, _ and -")) }
}
