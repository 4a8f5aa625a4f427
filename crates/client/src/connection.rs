//! One WebSocket connection that runs one call at a time.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tungstenite::http::Uri;
use tungstenite::{HandshakeError, Message, WebSocket};

use crate::stream::VenueStream;
use crate::{Credentials, Error, VenueError};

/// Address of the venue and the time limit for its answers.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub url: &'a str,
    /// PEM file of certificates to trust for `wss://` instead of the system's.
    pub authority: Option<&'a Path>,
    pub patience: Duration,
}

/// A subscription notification with the venue's JSON unchanged.
#[derive(Debug)]
pub struct Notice {
    pub channel: String,
    pub data: Box<RawValue>,
}

pub struct VenueConnection {
    socket: WebSocket<VenueStream>,
    patience: Duration,
    next_id: u64,
    notices: VecDeque<Notice>,
}

#[derive(Serialize)]
struct RpcCall<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

#[derive(Deserialize)]
struct Incoming {
    id: Option<u64>,
    result: Option<Box<RawValue>>,
    error: Option<VenueError>,
    method: Option<String>,
    params: Option<Params>,
}

/// Parameters of a notification: a subscription update or a heartbeat.
#[derive(Deserialize)]
struct Params {
    channel: Option<String>,
    data: Option<Box<RawValue>>,
    r#type: Option<String>,
}

impl VenueConnection {
    pub fn open(target: &Target<'_>) -> Result<Self, Error> {
        let (host, port, is_secure) = parse_url(target.url)?;
        let stream = VenueStream::open(&host, port, is_secure, target.authority, target.patience)?;
        let refused = |cause: String| Error::Handshake { url: target.url.into(), cause };
        let opened = tungstenite::client(target.url, stream);
        let (socket, _) = opened.map_err(|error| match error {
            HandshakeError::Failure(tungstenite::Error::Http(response)) => {
                refused(format!("it answers {}", response.status()))
            }
            HandshakeError::Failure(error) => refused(error.to_string()),
            HandshakeError::Interrupted(_) => refused(format!("no answer in {:?}", target.patience)),
        })?;
        Ok(VenueConnection { socket, patience: target.patience, next_id: 1, notices: VecDeque::new() })
    }

    /// Logs in with a signature.
    ///
    /// # Errors
    ///
    /// Fails if the login cannot be signed, if the venue refuses it, or if no answer arrives.
    pub fn login(&mut self, credentials: &Credentials) -> Result<(), Error> {
        let signed = credentials.signed().map_err(Error::Login)?;
        self.call("public/auth", &signed).map(drop)
    }

    /// Sends a call and waits for its answer. Returns the `result` as the venue sent it, so that no
    /// digit is lost.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Venue`] for a refusal and [`Error::Unanswered`] if no answer arrives within
    /// the time limit.
    pub fn call<P: Serialize>(&mut self, method: &str, params: &P) -> Result<Box<RawValue>, Error> {
        let id = self.send(method, params)?;
        let deadline = Instant::now() + self.patience;
        loop {
            if Instant::now() >= deadline {
                return Err(self.silent(method));
            }
            let incoming = self.receive(method)?;
            if incoming.id != Some(id) {
                self.handle(incoming)?;
                continue;
            }
            return match (incoming.result, incoming.error) {
                (_, Some(refusal)) => Err(Error::Venue(refusal)),
                (Some(result), None) => Ok(result),
                (None, None) => Err(Error::Garbled { what: format!("{method} has neither result nor error") }),
            };
        }
    }

    /// Waits without a time limit for the next notification of a subscription.
    ///
    /// # Errors
    ///
    /// Fails if the connection ends or the venue sends a malformed message.
    pub fn next_notice(&mut self) -> Result<Notice, Error> {
        let unset =
            |error: io::Error| Error::Unanswered { method: "public/subscribe".into(), cause: error.to_string() };
        self.socket.get_ref().set_patience(None).map_err(unset)?;
        while self.notices.is_empty() {
            let incoming = self.receive("public/subscribe")?;
            self.handle(incoming)?;
        }
        self.socket.get_ref().set_patience(Some(self.patience)).map_err(unset)?;
        self.notices.pop_front().ok_or(Error::Garbled { what: "no notice".into() })
    }

    /// Closes the connection. Errors are ignored because the last answer has arrived already.
    pub fn close(mut self) {
        if self.socket.close(None).is_ok() {
            drop(self.socket.flush());
        }
    }

    fn send<P: Serialize>(&mut self, method: &str, params: &P) -> Result<u64, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let call = RpcCall { jsonrpc: "2.0", id, method, params };
        let text = serde_json::to_string(&call).map_err(|error| Error::Garbled { what: error.to_string() })?;
        self.socket.send(Message::text(text)).map_err(|error| self.lost(method, &error))?;
        Ok(id)
    }

    fn receive(&mut self, method: &str) -> Result<Incoming, Error> {
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    return serde_json::from_str(&text).map_err(|error| Error::Garbled { what: error.to_string() });
                }
                // tungstenite answers a ping on the next read. The dialect has no binary frames.
                Ok(_) => {}
                Err(error) => return Err(self.lost(method, &error)),
            }
        }
    }

    /// Handles a message that is not the awaited answer. Queues notifications and answers heartbeat
    /// test requests.
    fn handle(&mut self, incoming: Incoming) -> Result<(), Error> {
        let Some(params) = incoming.params else { return Ok(()) };
        match (incoming.method.as_deref(), params.channel, params.data) {
            (Some("subscription"), Some(channel), Some(data)) => self.notices.push_back(Notice { channel, data }),
            (Some("heartbeat"), ..) if params.r#type.as_deref() == Some("test_request") => {
                #[derive(Serialize)]
                struct Nothing {}
                self.send("public/test", &Nothing {})?;
            }
            _ => {}
        }
        Ok(())
    }

    fn silent(&self, method: &str) -> Error {
        Error::Unanswered { method: method.into(), cause: format!("nothing in {:?}", self.patience) }
    }

    fn lost(&self, method: &str, error: &tungstenite::Error) -> Error {
        match error {
            tungstenite::Error::Io(io) if matches!(io.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                self.silent(method)
            }
            tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
                Error::Unanswered { method: method.into(), cause: "the venue closed the connection".into() }
            }
            error => Error::Unanswered { method: method.into(), cause: error.to_string() },
        }
    }
}

/// Splits a URL into host, port and whether it uses TLS.
fn parse_url(url: &str) -> Result<(String, u16, bool), Error> {
    let wrong = |what| Error::Url { url: url.into(), what };
    let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
    let is_secure = match uri.scheme_str() {
        Some("ws") => false,
        Some("wss") => true,
        _ => return Err(wrong("it begins with neither ws:// nor wss://")),
    };
    // The parser drops a port that does not fit in 16 bits. Refuse it instead of using the scheme's
    // default.
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let behind_host = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    if uri.port_u16().is_none() && behind_host.contains(':') {
        return Err(wrong("its port is no number below 65536"));
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((host, uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 }), is_secure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_gives_host_port_and_tls() {
        let parsed = |url| parse_url(url).ok();
        assert_eq!(parsed("ws://127.0.0.1:8080/ws/api/v2"), Some(("127.0.0.1".into(), 8080, false)));
        assert_eq!(parsed("wss://example.org/ws/api/v2"), Some(("example.org".into(), 443, true)));
        assert_eq!(parsed("ws://[::1]:9/x"), Some(("::1".into(), 9, false)));
        for url in ["", "http://a/", "127.0.0.1:80", "ws://", "ws://a:99999/", "ws:///x"] {
            assert!(parse_url(url).is_err(), "{url}");
        }
    }
}
