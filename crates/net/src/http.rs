//! HTTP/1.1 requests out of a connection's bytes, one at a time, and responses back.
//!
//! Holds       sizes are checked before anything is kept: see [`HeadLimits`].
//! Start at    [`parse`].

use std::net::IpAddr;

pub use pitwire_websocket::head::Headers;
use pitwire_websocket::head::{self, Head, HeadLimits};

use crate::connection_id::ConnectionId;

/// A request whose bytes are still in the connection's buffer.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    pub method: &'a str,
    /// Path and query exactly as sent, because clients sign them.
    pub target: &'a str,
    pub headers: Headers<'a>,
    pub body: &'a [u8],
    pub keep_alive: bool,
    minor_version: u8,
    /// A browser has sent it on behalf of a page of another origin.
    pub is_foreign: bool,
    /// The address of the peer, if the connection counts against the limit of its address.
    pub from: Option<IpAddr>,
    /// The connection that waits for the response.
    pub connection: ConnectionId,
}

impl<'a> HttpRequest<'a> {
    /// Returns the path of the target.
    pub fn path(&self) -> &'a str {
        head::split_target(self.target).0
    }

    /// Returns the query of the target without the question mark, empty if there is none.
    pub fn query(&self) -> &'a str {
        head::split_target(self.target).1
    }

    /// Says whether the request is a WebSocket handshake.
    pub fn is_upgrade(&self) -> bool {
        self.headers.ask_for_websocket()
    }

    /// Returns the response to a WebSocket handshake.
    ///
    /// Compression is not offered here: private answers and public messages leave together, and the
    /// compressed size would reveal something of the former.
    ///
    /// # Errors
    /// Returns the response that refuses an invalid handshake.
    pub fn upgrade_response(&self) -> Result<Vec<u8>, HttpResponse> {
        let answer = self.head().upgrade(None).map_err(HttpResponse::refusing)?;
        let mut out = Vec::new();
        answer.write(&mut out);
        Ok(out)
    }

    fn head(&self) -> Head<'a> {
        Head {
            method: self.method,
            target: self.target,
            minor_version: self.minor_version,
            headers: self.headers.clone(),
            head_bytes: 0,
            body_bytes: self.body.len(),
        }
    }
}

/// Result of [`parse`].
#[derive(Debug)]
pub enum HttpParseResult<'a> {
    /// The request is not complete.
    NeedMore,
    /// A request, and how many bytes it takes.
    Request { request: HttpRequest<'a>, bytes: usize },
    /// A response to send before closing: what follows in the stream cannot be trusted.
    Refuse(HttpResponse),
}

/// Finds the first request in `input`.
pub fn parse(input: &[u8]) -> HttpParseResult<'_> {
    let head = match head::parse(input, &HeadLimits::default()) {
        head::HeadParseResult::NeedMore => return HttpParseResult::NeedMore,
        head::HeadParseResult::Refuse(refusal) => return HttpParseResult::Refuse(HttpResponse::refusing(refusal)),
        head::HeadParseResult::Head(head) => head,
    };
    let bytes = head.head_bytes + head.body_bytes;
    let Some(body) = input.get(head.head_bytes..bytes) else { return HttpParseResult::NeedMore };
    let keep_alive = head.keeps_alive();
    let Head { method, target, minor_version, headers, .. } = head;
    let request = HttpRequest {
        method,
        target,
        headers,
        body,
        keep_alive,
        minor_version,
        is_foreign: false,
        from: None,
        connection: ConnectionId(0),
    };
    HttpParseResult::Request { request, bytes }
}

/// A response with its whole body.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Makes a response.
    pub fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        HttpResponse { status, content_type, headers: Vec::new(), body }
    }

    /// Makes a response of plain text.
    pub fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n").into_bytes())
    }

    /// Puts off a response, which [`crate::Notices::respond`] gives later. Until then nothing more
    /// of the connection is read.
    pub fn later() -> Self {
        Self::new(0, "", Vec::new())
    }

    pub(crate) fn is_later(&self) -> bool {
        self.status == 0
    }

    /// Makes a response of JSON that must not be cached.
    pub fn json(status: u16, body: Vec<u8>) -> Self {
        // Orders come as GET requests: no proxy may keep or repeat them.
        Self::new(status, "application/json", body).with_header("Cache-Control", "no-store")
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Asks the client to wait this many seconds before it tries again.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        self.with_header("Retry-After", seconds.to_string())
    }

    /// Makes the response to a request whose head is refused.
    pub fn refusing(refusal: head::HeadRefusal) -> Self {
        let response = Self::text(refusal.status, refusal.reason);
        match refusal.status {
            426 => response.with_header("Upgrade", "websocket").with_header("Sec-WebSocket-Version", "13"),
            _ => response,
        }
    }

    /// Writes the response to `out`; with `head_only` without the body.
    pub fn write(&self, out: &mut Vec<u8>, keep_alive: bool, head_only: bool) {
        let reason = head::status_words(self.status);
        let connection = if keep_alive { "keep-alive" } else { "close" };
        out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\nConnection: {connection}\r\n", self.status).as_bytes());
        out.extend_from_slice(format!("Content-Type: {}\r\n", self.content_type).as_bytes());
        out.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        out.extend_from_slice(b"X-Content-Type-Options: nosniff\r\n");
        for (name, value) in &self.headers {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        if !head_only {
            out.extend_from_slice(&self.body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> String {
        match parse(text.as_bytes()) {
            HttpParseResult::NeedMore => "more".into(),
            HttpParseResult::Request { request, bytes } => {
                let rest = text.len() - bytes;
                let body = String::from_utf8_lossy(request.body).into_owned();
                format!("{} {} [{body}] keep={} rest={rest}", request.method, request.target, request.keep_alive)
            }
            HttpParseResult::Refuse(response) => format!("!{}", response.status),
        }
    }

    #[test]
    fn requests_are_found_one_at_a_time() {
        for (text, expected) in [
            ("GET /a?b=%20c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a?b=%20c [] keep=true rest=0"),
            ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET", "POST /a [abc] keep=true rest=3"),
            ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "GET / [] keep=false rest=0"),
            ("GET / HTTP/1.0\r\n\r\n", "GET / [] keep=false rest=0"),
            ("GET / HTTP/1.1\r\nHost", "more"),
            ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", "more"),
            ("nonsense\r\n\r\n", "!400"),
            ("\u{1}\u{2}\u{3}", "!400"),
            ("POST /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "!400"),
            ("POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n", "!400"),
            ("POST /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "!413"),
            ("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "!501"),
        ] {
            assert_eq!(outcome(text), expected, "{text:?}");
        }
        assert_eq!(outcome(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65))), "!431");
        assert_eq!(outcome(&format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(20_000))), "!431");
        assert_eq!(outcome(&format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000))), "!414");
        assert_eq!(outcome(&format!("GET /{}", "a".repeat(90_000))), "!431");
    }
}
