//! The handler of `pitwire publish`: named channels, access, `/metrics` and `/healthz`.
//!
//! Does        Maps paths to channels, and query parameters to symbols, frame format and resume
//!             position. For tests, it echoes messages or answers on request.
//! Start at    [`Channels`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode_str;
use pitwire_net::HttpResponse;
use pitwire_websocket::head::HeadRefusal;
use subtle::ConstantTimeEq as _;

use crate::counters;
use crate::handler::{ClientMessage, DeliveryHandler, Reply, Request, SubscriberId, SubscriberSetup};
use crate::statistics::SharedStatistics;
use pitwire_delivery::StreamId;

/// Most symbols that a subscriber may select.
const SYMBOLS_MOST: usize = 1024;

/// Accepted query parameters.
const PARAMETERS: [&str; 4] = ["symbols", "from", "envelope", "token"];

/// The reaction to messages of subscribers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncomingMessages {
    /// Drops them.
    #[default]
    Ignore,
    Echo,
    /// Answers each text message with the prepared answer of [`Options`](crate::Options).
    Respond,
}

#[derive(Debug, Default)]
pub struct Channels {
    /// Channels by name. If it is empty, every path selects the only channel.
    names: OnceLock<BTreeMap<String, StreamId>>,
    only: OnceLock<StreamId>,
    pub incoming: IncomingMessages,
    /// Whether all subscribers get the envelope, and not only those that request it.
    pub enveloped: bool,
    /// Token that a client must present, if there is one.
    pub token: Option<String>,
    statistics: OnceLock<Arc<SharedStatistics>>,
    /// Whether the source of the messages is unreachable.
    pub is_upstream_down: Arc<AtomicBool>,
}

impl Channels {
    pub fn new(
        incoming: IncomingMessages,
        enveloped: bool,
        token: Option<String>,
        is_upstream_down: Arc<AtomicBool>,
    ) -> Self {
        Channels { incoming, enveloped, token, is_upstream_down, ..Channels::default() }
    }

    /// Sets the channels, once the publisher has been started. Without names every path selects
    /// `only`.
    pub fn set_channels(
        &self,
        statistics: Arc<SharedStatistics>,
        names: BTreeMap<String, StreamId>,
        only: Option<StreamId>,
    ) {
        // The caller starts the publisher once, so each cell is set once.
        let _ = self.statistics.set(statistics);
        if let Some(only) = only {
            let _ = self.only.set(only);
        }
        let _ = self.names.set(names);
    }

    fn stream(&self, path: &str) -> Result<Option<StreamId>, HttpResponse> {
        if self.incoming != IncomingMessages::Ignore {
            return Ok(None);
        }
        if let Some(only) = self.only.get() {
            return Ok(Some(*only));
        }
        let name = path.trim_start_matches('/');
        let names = self.names.get().ok_or_else(|| HttpResponse::text(503, "not yet").retry_after(1))?;
        let found = names.get(name).copied();
        let all = || names.keys().map(String::as_str).collect::<Vec<_>>().join(", /");
        found.map(Some).ok_or_else(|| HttpResponse::text(404, &format!("no such channel; there is /{}", all())))
    }

    fn check_token(&self, request: &Request<'_>) -> Result<(), HttpResponse> {
        let Some(token) = &self.token else { return Ok(()) };
        let given = request.token().map(decoded).unwrap_or_default();
        if bool::from(given.as_slice().ct_eq(token.as_bytes())) {
            return Ok(());
        }
        let refusal = HttpResponse::text(401, "a token is wanted: Authorization: Bearer …, or ?token=…");
        Err(refusal.with_header("WWW-Authenticate", "Bearer"))
    }

    fn health(&self) -> HttpResponse {
        let is_down = self.is_upstream_down.load(Ordering::Relaxed);
        let (status, word) = if is_down { (503, "upstream is away") } else { (200, "ok") };
        HttpResponse::new(status, "application/json", format!("{{\"status\":\"{word}\"}}\n").into_bytes())
    }
}

impl DeliveryHandler for Channels {
    fn open(&self, request: &Request<'_>) -> Result<SubscriberSetup, HttpResponse> {
        self.check_token(request)?;
        let streams: Vec<StreamId> = self.stream(request.path())?.into_iter().collect();
        if !streams.is_empty() {
            check_parameters(request)?;
        }
        let keys = request.parameter("symbols");
        if keys.is_some_and(|text| text.split(',').count() > SYMBOLS_MOST) {
            return Err(HttpResponse::text(400, "at most 1024 symbols; without ?symbols= all of them come"));
        }
        let from = match request.parameter("from").map(resume_token) {
            None => None,
            Some(Some(from)) => Some(from),
            Some(None) => return Err(HttpResponse::text(400, "from is EPOCH:SEQ, two whole numbers")),
        };
        Ok(SubscriberSetup {
            streams,
            keys: keys.map(|text| text.split(',').map(decoded).collect()),
            from,
            enveloped: self.enveloped || request.parameter("envelope").is_some_and(|value| value != "0"),
            ..SubscriberSetup::default()
        })
    }

    fn received(&self, _: SubscriberId, message: ClientMessage<'_>, reply: &mut Reply) {
        match (self.incoming, message) {
            (IncomingMessages::Ignore, _) | (IncomingMessages::Respond, ClientMessage::Binary(_)) => {}
            (IncomingMessages::Respond, ClientMessage::Text(_)) => reply.respond(),
            (IncomingMessages::Echo, ClientMessage::Text(text)) => reply.text(text.as_bytes()),
            (IncomingMessages::Echo, ClientMessage::Binary(bytes)) => reply.binary(bytes),
        }
    }

    fn http(&self, request: &Request<'_>) -> HttpResponse {
        match request.path() {
            "/healthz" => self.health(),
            "/metrics" => {
                let threads = self.statistics.get().map(|statistics| statistics.all()).unwrap_or_default();
                let text = counters::text("pitwire_publish", threads.iter());
                HttpResponse::new(200, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes())
            }
            _ => {
                let reason = "a WebSocket is served here; /metrics and /healthz are plain";
                HttpResponse::refusing(HeadRefusal { status: 426, reason })
            }
        }
    }
}

/// Checks that a query has no unknown, repeated or empty parameter. Ignoring one would give the
/// client another stream than it requested.
fn check_parameters(request: &Request<'_>) -> Result<(), HttpResponse> {
    let names: Vec<&str> = request.query().split('&').filter(|pair| !pair.is_empty()).map(name_of).collect();
    for (at, name) in names.iter().enumerate() {
        if !PARAMETERS.contains(name) {
            let shown: String = name.chars().take(32).collect();
            return Err(HttpResponse::text(
                400,
                &format!("there is no {shown:?} here; there is {}", PARAMETERS.join(", ")),
            ));
        }
        if names[..at].contains(name) {
            return Err(HttpResponse::text(
                400,
                &format!("{name} is given twice; once is enough, symbols=A,B for several"),
            ));
        }
    }
    if request.parameter("symbols") == Some("") {
        return Err(HttpResponse::text(400, "symbols= names none; without it all of them come"));
    }
    Ok(())
}

fn name_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

fn resume_token(text: &str) -> Option<(u64, u64)> {
    let text = String::from_utf8(decoded(text)).ok()?;
    let (epoch, seq) = text.split_once(':')?;
    Some((epoch.parse().ok()?, seq.parse().ok()?))
}

/// Decodes the percent escapes of a query value. Invalid escapes stay as they are.
fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(target: &'static str) -> Request<'static> {
        Request { method: "GET", target, authorization: None }
    }

    #[test]
    fn path_selects_channel_and_query_selects_form() {
        let channels = Channels { token: Some("s3cret".into()), ..Channels::default() };
        let names = [("btc".to_owned(), StreamId(0)), ("eth".into(), StreamId(1))].into();
        channels.set_channels(Arc::new(SharedStatistics::new(1, None, None)), names, None);
        let verdict = |target| match channels.open(&request(target)) {
            Ok(setup) => format!("{setup:?}"),
            Err(answer) => format!("!{} {}", answer.status, String::from_utf8_lossy(&answer.body).trim()),
        };
        assert_eq!(verdict("/doge?token=s3cret"), "!404 no such channel; there is /btc, /eth");
        assert!(verdict("/btc").starts_with("!401"));
        assert!(verdict("/btc?token=wrong").starts_with("!401"));
        assert!(verdict("/btc?token=s3cret&from=1").starts_with("!400"));
        let why = |query: &str| verdict(format!("/btc?token=s3cret&{query}").leak());
        let unknown = why("simbols=A");
        assert_eq!(unknown, "!400 there is no \"simbols\" here; there is symbols, from, envelope, token");
        assert_eq!(why("symbols="), "!400 symbols= names none; without it all of them come");
        assert!(why("symbols=A&symbols=B").starts_with("!400 symbols is given twice"));
        assert!(why("token=s3cret").starts_with("!400 token is given twice"));
        assert!(why("&").starts_with("SubscriberSetup"), "nothing is nothing");
        assert!(verdict("/btc?simbols=A").starts_with("!401"), "a refused client learns nothing");
        let echo = Channels { incoming: IncomingMessages::Echo, ..Channels::default() };
        assert!(echo.open(&request("/?whatever=1&whatever=2")).is_ok(), "there is no stream to be chosen from");
        let many = vec!["A"; SYMBOLS_MOST + 1].join(",");
        let target: &str = format!("/eth?token=s3cret&symbols={many}").leak();
        assert_eq!(channels.open(&request(target)).err().unwrap().status, 400);
        let opening = channels.open(&request("/eth?symbols=A%2FB,C&from=17%3A4&envelope&token=s3cret")).unwrap();
        assert_eq!(opening.streams, [StreamId(1)]);
        assert_eq!(opening.keys, Some(vec![b"A/B".to_vec(), b"C".to_vec()]));
        assert_eq!((opening.from, opening.enveloped), (Some((17, 4)), true));
        assert!(!channels.open(&request("/eth?envelope=0&token=s3cret")).unwrap().enveloped);
    }

    #[test]
    fn invalid_percent_escape_is_kept() {
        assert_eq!(decoded("a%41%2"), b"aA%2");
        assert_eq!(decoded("%zz%c3%a9é"), "%zzéé".as_bytes());
    }
}
