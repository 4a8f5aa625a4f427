//! The server side of the opening handshake.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use pitwire_net::HttpResponse;
use pitwire_websocket::head::{self, HeadLimits, HeadParseResult, HeadRefusal};
use pitwire_websocket::{HandshakeAnswer, Policy};

use crate::server_socket::ServerSocket;

/// Bounds of a request. A URL with 628 streams has nine KB, so this is plenty.
const LIMITS: HeadLimits = HeadLimits { request_line_bytes: 48 * 1024, header_bytes: 16 * 1024, body_bytes: 0 };

pub enum Handshake {
    /// More bytes are needed.
    Partial,
    /// A WebSocket handshake: the target, the answer, and the length of the head.
    Upgrade {
        target: String,
        answer: HandshakeAnswer,
        bytes: usize,
    },
    Refused(HttpResponse),
}

/// Time limit for the head of the request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait before the stop flag is checked.
const GLANCE: Duration = Duration::from_millis(100);

/// Receives a handshake and removes it from `incoming`. Returns the target of the request and the
/// answer to it. `deflate` says how messages are compressed for readers that offer it.
///
/// # Errors
/// Returns the response that refuses the request, or `None` if the connection has broken or `stop`
/// is set.
pub fn receive(
    socket: &mut ServerSocket,
    incoming: &mut Vec<u8>,
    stop: &AtomicBool,
    deflate: Option<Policy>,
) -> Result<(String, HandshakeAnswer), Option<HttpResponse>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match parse(incoming, deflate) {
            Handshake::Partial => {}
            Handshake::Refused(response) => return Err(Some(response)),
            Handshake::Upgrade { target, answer, bytes } => {
                incoming.drain(..bytes);
                return Ok((target, answer));
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Some(HttpResponse::text(408, "no whole request within ten seconds")));
        }
        if stop.load(Relaxed) {
            return Err(None);
        }
        let is_open = socket.wait_for_input(left.min(GLANCE)).and_then(|()| socket.read(incoming));
        if !is_open.unwrap_or(false) {
            return Err(None);
        }
    }
}

pub fn parse(input: &[u8], deflate: Option<Policy>) -> Handshake {
    let head = match head::parse(input, &LIMITS) {
        HeadParseResult::NeedMore => return Handshake::Partial,
        HeadParseResult::Refuse(refusal) => return Handshake::Refused(HttpResponse::refusing(refusal)),
        HeadParseResult::Head(head) => head,
    };
    if head.method != "GET" {
        return Handshake::Refused(HttpResponse::text(405, "a feed is read with GET and Upgrade: websocket"));
    }
    if !head.is_upgrade() {
        let reason = "this is a WebSocket feed: connect with ws://, version 13";
        return Handshake::Refused(HttpResponse::refusing(HeadRefusal { status: 426, reason }));
    }
    match head.upgrade(deflate) {
        Ok(answer) => Handshake::Upgrade { target: head.target.to_owned(), answer, bytes: head.head_bytes },
        Err(refusal) => Handshake::Refused(HttpResponse::refusing(refusal)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(request: &str) -> String {
        match parse(request.as_bytes(), None) {
            Handshake::Partial => "partial".into(),
            Handshake::Upgrade { .. } => "101".into(),
            Handshake::Refused(response) => response.status.to_string(),
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
