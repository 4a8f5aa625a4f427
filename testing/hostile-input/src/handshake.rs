//! Hostile input for the reader of request heads and handshakes.
//!
//! Does        read an input as the head of a request, whole and as it arrives; judge it as a
//!             WebSocket handshake that offers compression; and panic when something is accepted
//!             that a second reader, by other means, would refuse.
//! Start at    [`run`].

use pitwire_websocket::head::{Head, HeadLimits, HeadParseResult, parse};
use pitwire_websocket::{Offer, Peer, Policy};

const LIMITS: HeadLimits = HeadLimits { request_line_bytes: 300, header_bytes: 700, body_bytes: 100 };

pub fn run(input: &[u8]) {
    let whole = verdict(input);
    // Bytes that follow do not change the result of those before; only a limit may be reached.
    for cut in [input.len() / 3, input.len() / 2, input.len().saturating_sub(1)] {
        let early = verdict(&input[..cut]);
        assert!(early == whole || early == HeadVerdict::More || whole.is_refusal(), "{early:?} became {whole:?}");
    }
    if let Ok(text) = std::str::from_utf8(input) {
        extensions(text);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum HeadVerdict {
    More,
    Head { bytes: usize, body_bytes: usize, is_open: bool },
    Refused(u16),
}

impl HeadVerdict {
    fn is_refusal(&self) -> bool {
        matches!(self, HeadVerdict::Refused(_))
    }
}

fn verdict(input: &[u8]) -> HeadVerdict {
    match parse(input, &LIMITS) {
        HeadParseResult::NeedMore => {
            assert!(input.len() <= LIMITS.request_line_bytes + LIMITS.header_bytes);
            HeadVerdict::More
        }
        HeadParseResult::Refuse(refusal) => {
            assert!((400..=501).contains(&refusal.status) && !refusal.reason.is_empty());
            HeadVerdict::Refused(refusal.status)
        }
        HeadParseResult::Head(head) => {
            look_again(&input[..head.head_bytes], &head);
            let is_open = head.is_upgrade() && opens(&input[..head.head_bytes], &head);
            HeadVerdict::Head { bytes: head.head_bytes, body_bytes: head.body_bytes, is_open }
        }
    }
}

/// The second reader: by lines and letters.
fn look_again(bytes: &[u8], head: &Head<'_>) {
    assert!(bytes.ends_with(b"\r\n\r\n"));
    let text = String::from_utf8_lossy(bytes);
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "a line ends in LF alone");
    // Empty lines before a request are skipped (RFC 9112 section 2.2).
    let lines: Vec<&str> = text.trim_start_matches("\r\n").trim_end_matches("\r\n").split("\r\n").collect();
    let names: Vec<String> =
        lines[1..].iter().map(|line| line.split(':').next().unwrap_or_default().to_lowercase()).collect();
    let count = |name: &str| names.iter().filter(|it| *it == name).count();
    assert!(!names.iter().any(|name| name.contains([' ', '\t']) || name.is_empty()), "{names:?}");
    assert_eq!(count("transfer-encoding"), 0);
    assert!(count("content-length") <= 1 && count("host") <= 1);
    assert_eq!(count("content-length") == 0 || head.body_bytes == 0, head.body_bytes == 0);
    assert!(head.body_bytes <= LIMITS.body_bytes && head.target.len() <= LIMITS.request_line_bytes);
    assert!(
        lines[0].starts_with(&format!("{} ", head.method)) && lines[0].ends_with(&format!("1.{}", head.minor_version))
    );
}

fn opens(bytes: &[u8], head: &Head<'_>) -> bool {
    let Ok(answer) = head.upgrade(Some(Policy { windows: &[12, 10, 9] })) else { return false };
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    for part in
        ["get ", "host:", "upgrade:", "websocket", "connection:", "sec-websocket-key:", "sec-websocket-version:"]
    {
        assert!(text.contains(part), "{part} is missing and it opens");
    }
    assert!(head.body_bytes == 0 && answer.accept.len() == 28 && answer.accept.ends_with('='));
    let mut out = Vec::new();
    answer.write(&mut out);
    assert!(out.starts_with(b"HTTP/1.1 101 ") && out.ends_with(b"\r\n\r\n"));
    if let Some(agreed) = answer.deflate {
        assert!((9..=12).contains(&agreed.server_class()) && !agreed.of(Peer::Client).1 && !agreed.of(Peer::Server).1);
        let received = Offer { keeps_context: false }.judge([agreed.to_string().as_str()]);
        assert!(matches!(received, Ok(Some(received)) if received.server_keeps_context == agreed.server_keeps_context));
    }
    true
}

/// The text as the value of the header, from either side.
fn extensions(text: &str) {
    if let Ok(Some(agreed)) = Policy::default().answer([text]) {
        assert!(text.contains("permessage-deflate"));
        // The answer is an offer with the same meaning.
        assert_eq!(
            Policy::default().answer([agreed.to_string().as_str()]).map(|it| it.map(|it| it.to_string())),
            Ok(Some(agreed.to_string()))
        );
    }
    for keeps_context in [false, true] {
        if let Ok(Some(agreed)) = (Offer { keeps_context }).judge([text]) {
            assert!((8..=15).contains(&agreed.of(Peer::Server).0) && (keeps_context || !agreed.of(Peer::Server).1));
        }
    }
}

/// Good handshakes, bad ones, and headers by themselves.
pub fn seeds() -> Vec<Vec<u8>> {
    let good = "GET /a?b=c HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
    let more = [
        "",
        "Origin: http://localhost\r\n",
        "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n",
        "Sec-WebSocket-Extensions: x; a=\"b\\\"c\", permessage-deflate; server_max_window_bits=\"10\"\r\n",
        "Sec-WebSocket-Protocol: chat\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Host: again\r\n",
        " folded\r\n",
        "Space : before\r\n",
    ];
    let mut seeds: Vec<Vec<u8>> = more.iter().map(|more| format!("{good}{more}\r\n").into_bytes()).collect();
    seeds.push(format!("{good}\r\n").replace("\r\n", "\n").into_bytes());
    seeds.push(b"POST /api/v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc".to_vec());
    seeds.push(b"GET / HTTP/1.0\r\n\r\n".to_vec());
    let values = [
        "permessage-deflate",
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12",
        "permessage-deflate; client_max_window_bits=8, permessage-deflate",
        "permessage-deflate; server_max_window_bits=8",
        "a;b=c;d=\"e\",,f",
    ];
    seeds.extend(values.iter().map(|value| value.as_bytes().to_vec()));
    seeds
}
