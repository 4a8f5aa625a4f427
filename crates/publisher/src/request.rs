//! The opening handshake: one request's head in, an upgrade or a refusal out.
//!
//! Holds       1. sizes are bounded before anything is kept: see the constants;
//!             2. a page elsewhere must not reach a publisher on loopback through its visitor's browser: an unknown `Host`
//!                and a foreign `Origin` are refused, as by the venue;
//!             3. what could be read as another request by somebody in between is refused: a body, a transfer encoding.
//! Start at    [`parse`].

use std::net::IpAddr;

use pitwire_websocket::head::{self, HeadLimits, Headers};
use pitwire_websocket::{Answer, Policy};

const LIMITS: HeadLimits = HeadLimits {
    // Room for 628 stream names.
    request_line_bytes: 64 * 1024,
    header_bytes: 16 * 1024,
    body_bytes: 0,
};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    NeedMore,
    /// A plain request, to be answered and ended.
    Plain(Head<'a>),
    /// A handshake, and what answers it. Frames may follow behind `bytes`.
    Upgrade {
        head: Head<'a>,
        answer: Answer,
        bytes: usize,
    },
    Refuse(u16, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub authorization: Option<&'a str>,
}

/// Which names this server answers to.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    pub bound: IpAddr,
    pub hosts: Vec<String>,
    /// Origins, as a browser spells them, of pages that may come besides our own; `*` for all.
    pub origins: Vec<String>,
}

/// `deflate`: how messages may be compressed, if they may.
pub(crate) fn parse<'a>(received: &'a [u8], doors: &Doors, deflate: Option<Policy>) -> Parsed<'a> {
    let request = match head::parse(received, &LIMITS) {
        head::Parsed::NeedMore => return Parsed::NeedMore,
        head::Parsed::Refuse(refusal) => return Parsed::Refuse(refusal.status, refusal.reason),
        head::Parsed::Head(request) => request,
    };
    // What is there and cannot be read is nobody's name.
    let host = texts(&request.headers, "host").next().unwrap_or_default();
    if !host.is_empty() && !doors.is_ours(host) {
        return Parsed::Refuse(421, "this is not that host; use the address that it listens on");
    }
    if doors.is_foreign(&request.headers, host) {
        return Parsed::Refuse(403, "pages of other origins are not served");
    }
    let head =
        Head { method: request.method, target: request.target, authorization: request.headers.get("authorization") };
    if !request.is_upgrade() {
        return Parsed::Plain(head);
    }
    match request.upgrade(deflate) {
        Ok(answer) => Parsed::Upgrade { head, answer, bytes: request.head_bytes },
        Err(refusal) => Parsed::Refuse(refusal.status, refusal.reason),
    }
}

fn texts<'a>(headers: &Headers<'a>, name: &str) -> impl Iterator<Item = &'a str> {
    headers.values(name).map(|value| std::str::from_utf8(value).unwrap_or("?").trim())
}

impl Doors {
    fn is_ours(&self, host: &str) -> bool {
        let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = port.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = name.parse::<IpAddr>() {
            // Bound to every address of the machine, we do not know them all; an address cannot be rebound.
            let is_given = self.hosts.iter().any(|ours| ours.parse() == Ok(address));
            return address.is_loopback() || address == self.bound || self.bound.is_unspecified() || is_given;
        }
        name.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|ours| name.eq_ignore_ascii_case(ours))
    }

    /// What no browser sends is nobody's page.
    fn is_foreign(&self, headers: &Headers<'_>, host: &str) -> bool {
        let mut origins = texts(headers, "origin").peekable();
        if origins.peek().is_none() {
            return texts(headers, "sec-fetch-site").any(|site| site.eq_ignore_ascii_case("cross-site"));
        }
        origins.any(|origin| {
            let authority = origin.split_once("://").map_or("", |(_, rest)| rest);
            let is_invited = self.origins.iter().any(|other| other == "*" || origin.eq_ignore_ascii_case(other));
            !(is_invited || authority.eq_ignore_ascii_case(host))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    fn verdict(text: &str) -> String {
        let doors = Doors {
            bound: "10.1.2.3".parse().unwrap(),
            hosts: vec!["feed.example".into(), "10.7.7.7".into()],
            origins: vec!["https://app.example".into()],
        };
        match parse(text.as_bytes(), &doors, None) {
            Parsed::NeedMore => "more".into(),
            Parsed::Plain(head) => format!("{} {}", head.method, head.target),
            Parsed::Upgrade { head, answer: Answer { accept, .. }, bytes } => {
                format!("ws {} {accept} rest={}", head.target, text.len() - bytes)
            }
            Parsed::Refuse(status, _) => format!("!{status}"),
        }
    }

    #[test]
    fn one_request_is_enough() {
        // The accept value is RFC 6455's own example.
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
