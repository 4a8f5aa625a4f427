//! The opening handshake: one request's head in, an upgrade or a refusal out.
//!
//! Holds       1. sizes are bounded before anything is kept: see the constants;
//!             2. a page elsewhere must not reach a publisher on loopback through its visitor's browser: an unknown `Host`
//!                and a foreign `Origin` are refused, as by the venue;
//!             3. what could be read as another request by somebody in between is refused: a body, a transfer encoding.
//! Start at    [`parse`].

use std::net::IpAddr;

use pitwire_websocket::accept_key;

/// Room for 628 stream names in one request line.
const MAX_REQUEST_LINE: usize = 64 * 1024;
const MAX_HEADER_BYTES: usize = 16 * 1024;
pub(crate) const MAX_HEAD: usize = MAX_REQUEST_LINE + MAX_HEADER_BYTES;
const MAX_HEADERS: usize = 64;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed<'a> {
    NeedMore,
    /// A plain request, to be answered and ended.
    Plain(Head<'a>),
    /// A handshake, and the `Sec-WebSocket-Accept` that answers it. Frames may follow behind `bytes`.
    Upgrade {
        head: Head<'a>,
        accept: String,
        bytes: usize,
    },
    Refuse(u16, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub method: &'a str,
    pub target: &'a str,
    pub authorization: Option<&'a str>,
    pub extensions: Option<&'a str>,
}

/// Which names this server answers to.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    pub bound: IpAddr,
    pub hosts: Vec<String>,
    /// Origins, as a browser spells them, of pages that may come besides our own; `*` for all.
    pub origins: Vec<String>,
}

pub(crate) fn parse<'a>(received: &'a [u8], doors: &Doors) -> Parsed<'a> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let bytes = match request.parse(received) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if received.len() <= MAX_HEAD => return Parsed::NeedMore,
        Ok(httparse::Status::Partial) => return Parsed::Refuse(431, "request line and headers are too large"),
        Err(httparse::Error::TooManyHeaders) => return Parsed::Refuse(431, "more than 64 headers"),
        Err(_) => return Parsed::Refuse(400, "malformed request"),
    };
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Parsed::Refuse(400, "malformed request line");
    };
    if target.len() > MAX_REQUEST_LINE {
        return Parsed::Refuse(414, "the request line is above 64 KiB");
    }
    if bytes - method.len() - target.len() > MAX_HEADER_BYTES {
        return Parsed::Refuse(431, "headers are above 16 KiB");
    }
    let headers = Headers(request.headers);
    if headers.first("transfer-encoding").is_some() || headers.first("content-length").is_some_and(|it| it != "0") {
        return Parsed::Refuse(501, "a request here has no body");
    }
    if headers.count("host") > 1 {
        return Parsed::Refuse(400, "more than one Host");
    }
    let host = headers.first("host").unwrap_or_default();
    if !host.is_empty() && !doors.is_ours(host) {
        return Parsed::Refuse(421, "this is not that host; use the address that it listens on");
    }
    if doors.is_foreign(&headers, host) {
        return Parsed::Refuse(403, "pages of other origins are not served");
    }
    let head = Head {
        method,
        target,
        authorization: headers.first("authorization"),
        extensions: headers.first("sec-websocket-extensions"),
    };
    if !(headers.lists("upgrade", "websocket") && headers.lists("connection", "upgrade")) {
        return Parsed::Plain(head);
    }
    if method != "GET" || request.version != Some(1) {
        return Parsed::Refuse(400, "a WebSocket handshake is a GET request of HTTP/1.1");
    }
    if host.is_empty() {
        return Parsed::Refuse(400, "a WebSocket handshake names its Host");
    }
    if headers.first("sec-websocket-version") != Some("13") {
        return Parsed::Refuse(426, "WebSocket version 13 is spoken here");
    }
    let key = headers.first("sec-websocket-key").filter(|_| headers.count("sec-websocket-key") == 1);
    match key.and_then(accept_key) {
        Some(accept) => Parsed::Upgrade { head, accept, bytes },
        None => Parsed::Refuse(400, "Sec-WebSocket-Key must be 16 bytes in base64"),
    }
}

struct Headers<'h, 'a>(&'h [httparse::Header<'a>]);

impl<'a> Headers<'_, 'a> {
    fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }

    fn first(&self, name: &str) -> Option<&'a str> {
        self.all(name).next().and_then(|value| std::str::from_utf8(value).ok()).map(str::trim)
    }

    fn count(&self, name: &str) -> usize {
        self.all(name).count()
    }

    fn lists(&self, name: &str, token: &str) -> bool {
        let values = self.all(name).filter_map(|value| std::str::from_utf8(value).ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(token))
    }
}

impl Doors {
    fn is_ours(&self, host: &str) -> bool {
        let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = port.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = name.parse::<IpAddr>() {
            // Bound to every address of the machine, we do not know them all; an address cannot be rebound.
            return address.is_loopback() || address == self.bound || self.bound.is_unspecified();
        }
        name.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|ours| name.eq_ignore_ascii_case(ours))
    }

    /// What no browser sends is nobody's page.
    fn is_foreign(&self, headers: &Headers<'_, '_>, host: &str) -> bool {
        let Some(origin) = headers.first("origin") else {
            return headers.first("sec-fetch-site").is_some_and(|site| site.eq_ignore_ascii_case("cross-site"));
        };
        let authority = origin.split_once("://").map_or("", |(_, rest)| rest);
        let is_invited = self.origins.iter().any(|other| other == "*" || origin.eq_ignore_ascii_case(other));
        !(is_invited || authority.eq_ignore_ascii_case(host))
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
            hosts: vec!["feed.example".into()],
            origins: vec!["https://app.example".into()],
        };
        match parse(text.as_bytes(), &doors) {
            Parsed::NeedMore => "more".into(),
            Parsed::Plain(head) => format!("{} {}", head.method, head.target),
            Parsed::Upgrade { head, accept, bytes } => {
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
            (ask("localhost", "Content-Length: 5\r\n"), "!501".into()),
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
