//! The server side of the opening handshake.

use pitwire_websocket::head::{self, HeadLimits, Parsed};
use pitwire_websocket::{Answer, Policy};

/// Bounds of a request. A URL with 628 streams has nine KB, so this is plenty.
const LIMITS: HeadLimits = HeadLimits { request_line_bytes: 48 * 1024, header_bytes: 16 * 1024, body_bytes: 0 };

pub enum Request {
    /// More bytes are needed.
    Partial,
    /// A WebSocket handshake: the target, the answer, and the length of the head.
    Upgrade { target: String, answer: Answer, bytes: usize },
    /// Status and reason of the refusal.
    Refused(&'static str, &'static str),
}

pub fn parse(input: &[u8]) -> Request {
    let head = match head::parse(input, &LIMITS) {
        Parsed::NeedMore => return Request::Partial,
        Parsed::Refuse(refusal) => return Request::Refused(status(refusal.status), refusal.reason),
        Parsed::Head(head) => head,
    };
    if head.method != "GET" {
        return Request::Refused("405 Method Not Allowed", "a feed is read with GET and Upgrade: websocket");
    }
    if !head.is_upgrade() {
        return Request::Refused("426 Upgrade Required", "this is a WebSocket feed: connect with ws://, version 13");
    }
    match head.upgrade(None::<Policy>) {
        Ok(answer) => Request::Upgrade { target: head.target.to_owned(), answer, bytes: head.head_bytes },
        Err(refusal) => Request::Refused(status(refusal.status), refusal.reason),
    }
}

fn status(code: u16) -> &'static str {
    match code {
        413 => "413 Content Too Large",
        414 => "414 URI Too Long",
        426 => "426 Upgrade Required",
        431 => "431 Request Header Fields Too Large",
        501 => "501 Not Implemented",
        _ => "400 Bad Request",
    }
}

pub fn refused(status: &str, reason: &str) -> String {
    let extra = if status.starts_with("426") { "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\n{extra}ReaderConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{reason}\n",
        reason.len() + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(request: &str) -> &'static str {
        match parse(request.as_bytes()) {
            Request::Partial => "partial",
            Request::Upgrade { .. } => "101",
            Request::Refused(status, _) => &status[..3],
        }
    }

    #[test]
    fn valid_handshakes_are_accepted_and_others_refused() {
        let good = "GET /x HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(verdict(good), "101");
        assert_eq!(verdict(&good[..good.len() - 1]), "partial");
        assert_eq!(verdict(&good.replace("GET", "POST")), "405");
        assert_eq!(verdict(&good.replace("13", "8")), "426");
        assert_eq!(verdict(&good.replace("WebSocket\r", "h2c\r")), "426");
        assert_eq!(verdict(&good.replace("dGhl", "")), "400");
        assert_eq!(verdict("\u{1}\u{2} nonsense\r\n\r\n"), "400");
        assert_eq!(verdict(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(64 * 1024))), "431");
    }

    #[test]
    fn a_long_url_is_accepted() {
        let streams = "abcdef@trade/".repeat(628);
        let request = format!(
            "GET /stream?streams={streams} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        assert_eq!(verdict(&request), "101");
    }
}
