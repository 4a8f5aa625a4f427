//! The opening handshake: parses a request head into an upgrade, a plain request or a refusal.
//!
//! Holds       1. Sizes are checked before anything is stored: see the constants.
//!             2. A web page cannot reach a publisher on loopback through its visitor's browser: an
//!                unknown `Host` and a foreign `Origin` are refused, as by the venue.
//!             3. A body or a transfer encoding is refused, because a proxy could read it as
//!                another request.
//! Start at    [`parse`].

use pitwire_net::{OriginPolicy, PageOrigin, UnknownHost};
use pitwire_websocket::head::{self, HeadLimits, HeadRefusal};
use pitwire_websocket::{HandshakeAnswer, Policy};

use crate::handler::Request;

const LIMITS: HeadLimits = HeadLimits {
    // Room for 628 stream names.
    request_line_bytes: 64 * 1024,
    header_bytes: 16 * 1024,
    body_bytes: 0,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestParseResult<'a> {
    NeedMore,
    /// A plain HTTP request. The connection closes after its response.
    Plain(Request<'a>),
    /// A handshake and its response. Frames may follow after the first `bytes` bytes.
    Upgrade {
        request: Request<'a>,
        answer: HandshakeAnswer,
        bytes: usize,
    },
    Refuse(HeadRefusal),
}

/// Reads one request. `deflate` says how messages may be compressed; `None` disables compression.
pub(crate) fn parse<'a>(received: &'a [u8], origins: &OriginPolicy, deflate: Option<Policy>) -> RequestParseResult<'a> {
    let refuse = |status, reason| RequestParseResult::Refuse(HeadRefusal { status, reason });
    let head = match head::parse(received, &LIMITS) {
        head::HeadParseResult::NeedMore => return RequestParseResult::NeedMore,
        head::HeadParseResult::Refuse(refusal) => return RequestParseResult::Refuse(refusal),
        head::HeadParseResult::Head(head) => head,
    };
    match origins.judge(&head.headers) {
        Ok(PageOrigin::Own) => {}
        Ok(PageOrigin::Foreign) => return refuse(403, "pages of other origins are not served"),
        Err(UnknownHost) => {
            return refuse(421, "this is not that host; use the address that it listens on");
        }
    }
    let request =
        Request { method: head.method, target: head.target, authorization: head.headers.get("authorization") };
    if !head.is_upgrade() {
        return RequestParseResult::Plain(request);
    }
    match head.upgrade(deflate) {
        Ok(answer) => RequestParseResult::Upgrade { request, answer, bytes: head.head_bytes },
        Err(refusal) => RequestParseResult::Refuse(refusal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    fn verdict(text: &str) -> String {
        let hosts = ["feed.example".to_owned(), "10.7.7.7".to_owned()];
        let origins = OriginPolicy::new("10.1.2.3".parse().unwrap(), &hosts);
        let origins = origins.with_origins(&["https://app.example".into()]);
        match parse(text.as_bytes(), &origins, None) {
            RequestParseResult::NeedMore => "more".into(),
            RequestParseResult::Plain(request) => format!("{} {}", request.method, request.target),
            RequestParseResult::Upgrade { request, answer: HandshakeAnswer { accept, .. }, bytes } => {
                format!("ws {} {accept} rest={}", request.target, text.len() - bytes)
            }
            RequestParseResult::Refuse(refusal) => format!("!{}", refusal.status),
        }
    }

    #[test]
    fn each_request_is_accepted_or_refused_by_rule() {
        // The accept value is the example of RFC 6455.
        let accepted = |rest: usize| format!("ws /a?b=c s3pPLMBiTxaQ9kYGzzhZRbK+xOo= rest={rest}");
        let ask = |host: &str, more: &str| format!("GET /a?b=c HTTP/1.1\r\nHost: {host}\r\n{more}{UPGRADE}\r\n");
        for (text, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:9\r\n\r\n".to_owned(), "GET /metrics".into()),
            (ask("127.0.0.1", ""), accepted(0)),
            (ask("127.0.0.1", "") + "ab", accepted(2)),
            (ask("feed.EXAMPLE:443", ""), accepted(0)),
            (ask("10.7.7.7:80", ""), accepted(0)),
            (ask("[::1]:5", "Origin: http://[::1]:5\r\n"), accepted(0)),
            (ask("localhost", "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n"), accepted(0)),
            (ask("localhost", "Content-Length: 0\r\n"), accepted(0)),
            ("GET / HTTP/1.1\r\nHost".into(), "more".into()),
            ("rubbish\r\n\r\n".into(), "!400".into()),
            (ask("evil.example", ""), "!421".into()),
            (ask("localhost.evil.example", ""), "!421".into()),
            (ask("10.9.9.9", ""), "!421".into()),
            (ask("localhost", "Host: localhost\r\n"), "!400".into()),
            (ask("localhost", "Sec-Fetch-Site: cross-site\r\n"), "!403".into()),
            (ask("localhost", "Origin: http://evil.example\r\n"), "!403".into()),
            (ask("localhost", "Origin: null\r\n"), "!403".into()),
            (ask("localhost", "Content-Length: 5\r\n"), "!413".into()),
            (ask("localhost", "Content-Length: +0\r\n"), "!400".into()),
            (ask("localhost", "Origin: http://localhost\r\nOrigin: http://evil.example\r\n"), "!403".into()),
            (ask("localhost", "X: y\nZ: y\r\n"), "!400".into()),
            (ask("localhost", "Sec-WebSocket-Extensions: ;\r\n"), "!400".into()),
            (ask("localhost", "Transfer-Encoding: chunked\r\n"), "!501".into()),
            (ask("localhost", "").replace("Host: localhost\r\n", ""), "!400".into()),
            (ask("localhost", "").replace("GET", "POST"), "!400".into()),
            (ask("localhost", "").replace("HTTP/1.1", "HTTP/1.0"), "!400".into()),
            (ask("localhost", "").replace("13", "8"), "!426".into()),
            (ask("localhost", "").replace("==", ""), "!400".into()),
            (ask("localhost", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"), "!400".into()),
            (format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(20_000)), "!431".into()),
            (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65)), "!431".into()),
            (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000)), "!414".into()),
            (format!("GET /{}", "a".repeat(90_000)), "!431".into()),
        ] {
            assert_eq!(verdict(&text), expected, "{text:?}");
        }
    }
}
