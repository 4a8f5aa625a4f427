//! The HTTP that the two listeners need: one request head in, one answer out.
//!
//! Holds       a web page must not reach a splitter on loopback through its visitor's browser, so
//!             an unknown `Host` and a foreign `Origin` are refused, as by the venue.
//! Start at    [`parse`].

use std::net::{IpAddr, SocketAddr};

use pitwire_websocket::Answer;
use pitwire_websocket::head::{self, HeadLimits};

const LIMITS: HeadLimits = HeadLimits { request_line_bytes: 4 * 1024, header_bytes: 4 * 1024, body_bytes: 0 };

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HttpRequest {
    NeedMore,
    /// A plain GET.
    Get {
        path: String,
    },
    /// A WebSocket handshake, and the `Sec-WebSocket-Accept` value that answers it.
    Upgrade {
        path: String,
        accept: String,
    },
    Refuse(u16, &'static str),
}

pub(crate) fn parse(received: &[u8], bound: SocketAddr) -> HttpRequest {
    let head = match head::parse(received, &LIMITS) {
        head::Parsed::NeedMore => return HttpRequest::NeedMore,
        head::Parsed::Refuse(refusal) => return HttpRequest::Refuse(refusal.status, refusal.reason),
        head::Parsed::Head(head) => head,
    };
    // A header that is not text matches no host name and no origin.
    let texts = |name| head.headers.values(name).map(|value| std::str::from_utf8(value).unwrap_or("?").trim());
    let host = texts("host").next().unwrap_or_default();
    if !host.is_empty() && !is_ours(host, bound.ip()) {
        return HttpRequest::Refuse(421, "this is not that host; use the address that it listens on");
    }
    let authority = |origin: &'_ str| origin.split_once("://").map_or(String::new(), |(_, rest)| rest.to_owned());
    let is_cross_site = texts("sec-fetch-site").any(|site| site.eq_ignore_ascii_case("cross-site"));
    if is_cross_site || texts("origin").any(|origin| !authority(origin).eq_ignore_ascii_case(host)) {
        return HttpRequest::Refuse(403, "pages of other origins are not served");
    }
    if head.method != "GET" {
        return HttpRequest::Refuse(405, "GET is all there is");
    }
    let path = head.path().to_owned();
    if !head.is_upgrade() {
        return HttpRequest::Get { path };
    }
    match head.upgrade(None) {
        Ok(Answer { accept, .. }) => HttpRequest::Upgrade { path, accept },
        Err(refusal) => HttpRequest::Refuse(refusal.status, refusal.reason),
    }
}

fn is_ours(host: &str, bound: IpAddr) -> bool {
    let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = port.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
    match name.parse::<IpAddr>() {
        // A listener on all addresses does not know them. A literal address cannot be rebound by
        // DNS.
        Ok(address) => address.is_loopback() || address == bound || bound.is_unspecified(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// Formats a complete answer. The connection is closed after it.
pub(crate) fn answer(status: u16, content_type: &str, body: &str) -> Vec<u8> {
    let reason = head::status_words(status);
    let more = if status == 426 { "Sec-WebSocket-Version: 13\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         X-Content-Type-TransportOptions: nosniff\r\nCache-ControlBody: no-store\r\n{more}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub(crate) fn refusal(status: u16, why: &str) -> Vec<u8> {
    answer(status, "text/plain; charset=utf-8", &format!("{why}\n"))
}

pub(crate) fn switching(accept: &str) -> Vec<u8> {
    let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    format!("{head}Sec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPGRADE: &str = "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

    fn verdict(text: &str) -> String {
        match parse(text.as_bytes(), "10.1.2.3:80".parse().unwrap()) {
            HttpRequest::NeedMore => "more".into(),
            HttpRequest::Get { path } => format!("get {path}"),
            HttpRequest::Upgrade { path, accept } => format!("upgrade {path} {accept}"),
            HttpRequest::Refuse(status, _) => format!("!{status}"),
        }
    }

    #[test]
    fn requests_are_parsed_and_foreign_hosts_and_origins_are_refused() {
        // The accept value is the example in RFC 6455.
        let accepted = "upgrade /shard/0 s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
        for (text, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:9\r\n\r\n".to_owned(), "get /metrics"),
            ("GET /metrics?a=b HTTP/1.0\r\n\r\n".into(), "get /metrics"),
            (format!("GET /shard/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n{UPGRADE}\r\n"), accepted),
            (format!("GET /shard/0 HTTP/1.1\r\nHost: [::1]:5\r\nOrigin: http://[::1]:5\r\n{UPGRADE}\r\n"), accepted),
            ("GET / HTTP/1.1\r\nHost".into(), "more"),
            ("POST / HTTP/1.1\r\n\r\n".into(), "!405"),
            ("rubbish\r\n\r\n".into(), "!400"),
            ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".into(), "!421"),
            ("GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n".into(), "!421"),
            ("GET / HTTP/1.1\r\nHost: 10.9.9.9\r\n\r\n".into(), "!421"),
            ("GET / HTTP/1.1\r\nHost: 10.1.2.3\r\n\r\n".into(), "get /"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n".into(), "!403"),
            (format!("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n{UPGRADE}\r\n"), "!403"),
            (format!("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n{UPGRADE}\r\n"), "!403"),
            (format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", UPGRADE.replace("13", "8")), "!426"),
            (format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", UPGRADE.replace("==", "")), "!400"),
            (format!("GET / HTTP/1.1\r\n{UPGRADE}\r\n"), "!400"),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".into(), "!501"),
            (
                format!(
                    "GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://a\r\n{UPGRADE}\r\n"
                ),
                "!403",
            ),
            (format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(9_000)), "!431"),
            (format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65)), "!431"),
            (format!("GET /{}", "a".repeat(9_000)), "!431"),
        ] {
            assert_eq!(verdict(&text), expected, "{text:?}");
        }
    }
}
