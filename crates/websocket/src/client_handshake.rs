//! The client's side of the opening handshake (RFC 6455 section 4.1).
//!
//! Does        Writes the request and checks every header of the response.
//! Start at    [`ClientHandshake::new`], [`ClientHandshake::judge`].

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::address::Address;
use crate::extension::{DeflateAgreement, Offer};
use crate::handshake::accept_key;
use crate::head::HEADERS_MAX;

const MOST_BYTES: usize = 16 * 1024;

/// A client's request, and the response that it expects.
#[derive(Clone, Debug)]
pub struct ClientHandshake {
    request: Vec<u8>,
    accept: String,
    subprotocol: Option<String>,
    deflate: Option<Offer>,
}

/// The connection is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeOutcome {
    /// Length of the response's head in bytes. Frames follow it.
    pub head_bytes: usize,
    /// Compression that the server accepted.
    pub deflate: Option<DeflateAgreement>,
}

/// Why the response does not open the connection. Quotes from it are short and without control
/// characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HandshakeRefusal {
    Status {
        status: u16,
        reason: String,
    },
    /// The caller decides whether to follow it.
    Redirect {
        status: u16,
        location: String,
    },
    NotWebSocket(&'static str),
}

impl fmt::Display for HandshakeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeRefusal::Status { status, reason } => write!(f, "the server answers {status} {reason}"),
            HandshakeRefusal::Redirect { status, location } => {
                write!(f, "the server answers {status} and sends us to {location}")
            }
            HandshakeRefusal::NotWebSocket(why) => write!(f, "the answer opens no WebSocket: {why}"),
        }
    }
}

impl std::error::Error for HandshakeRefusal {}

impl ClientHandshake {
    /// Builds a request. `nonce` must be new for each connection: it keeps caches from answering in
    /// the server's place.
    pub fn new(address: &Address, nonce: [u8; 16], subprotocol: Option<&str>, deflate: Option<Offer>) -> Self {
        let key = STANDARD.encode(nonce);
        let Address { resource, authority, .. } = address;
        let offer = deflate.map_or_else(String::new, |offer| format!("Sec-WebSocket-Extensions: {offer}\r\n"));
        let protocol = subprotocol.map_or_else(String::new, |name| format!("Sec-WebSocket-Protocol: {name}\r\n"));
        let request = format!(
            "GET {resource} HTTP/1.1\r\nHost: {authority}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{protocol}{offer}User-Agent: pitwire/{}\r\n\r\n",
            env!("CARGO_PKG_VERSION"),
        );
        ClientHandshake {
            request: request.into_bytes(),
            accept: accept_key(&key).unwrap_or_default(),
            subprotocol: subprotocol.map(str::to_owned),
            deflate,
        }
    }

    pub fn request(&self) -> &[u8] {
        &self.request
    }

    /// Checks the response. Returns `None` if it is not complete yet.
    ///
    /// # Errors
    ///
    /// The response does not open the connection.
    pub fn judge(&self, received: &[u8]) -> Result<Option<HandshakeOutcome>, HandshakeRefusal> {
        let not = |why| Err(HandshakeRefusal::NotWebSocket(why));
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        let head_bytes = match response.parse(received) {
            Ok(httparse::Status::Complete(bytes)) if bytes <= MOST_BYTES => bytes,
            Ok(httparse::Status::Partial) if received.len() <= MOST_BYTES => return Ok(None),
            Ok(_) => return not("its headers are above 16 KiB"),
            Err(httparse::Error::TooManyHeaders) => return not("it has more than 64 headers"),
            Err(_) => return not("it is not HTTP"),
        };
        let texts = |name: &str| {
            let of_name = response.headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
            of_name.map(|header| std::str::from_utf8(header.value).unwrap_or("").trim()).collect::<Vec<_>>()
        };
        let lists = |name: &str, token: &str| {
            texts(name).iter().any(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
        };
        let status = response.code.unwrap_or(0);
        if (300..400).contains(&status) {
            let location = texts("location").first().map_or_else(|| "nowhere".into(), |text| printable(text));
            return Err(HandshakeRefusal::Redirect { status, location });
        }
        if status != 101 {
            return Err(HandshakeRefusal::Status { status, reason: printable(response.reason.unwrap_or("")) });
        }
        if !lists("upgrade", "websocket") {
            return not("it lacks Upgrade: websocket");
        }
        if !lists("connection", "upgrade") {
            return not("it lacks Connection: Upgrade");
        }
        if texts("sec-websocket-accept") != [self.accept.as_str()] {
            return not("its Sec-WebSocket-Accept does not answer our key");
        }
        match (texts("sec-websocket-protocol").as_slice(), &self.subprotocol) {
            ([], None) => {}
            ([], Some(_)) => return not("it does not take up the subprotocol"),
            ([chosen], Some(offered)) if chosen == offered => {}
            _ => return not("it takes up a subprotocol that was not offered"),
        }
        let extensions = texts("sec-websocket-extensions");
        let agreed = match self.deflate {
            Some(offer) => offer.judge(extensions),
            None if extensions.is_empty() => Ok(None),
            None => Err("it takes up an extension that was not offered"),
        };
        match agreed {
            Ok(deflate) => Ok(Some(HandshakeOutcome { head_bytes, deflate })),
            Err(why) => not(why),
        }
    }
}

/// Returns text from a peer in a form that is safe on a terminal: short, and without control
/// characters.
pub fn printable(text: &str) -> String {
    text.chars().take(200).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n";
    // RFC 6455 section 1.3: the nonce of its sample key.
    const NONCE: [u8; 16] = *b"the sample nonce";
    const ACCEPT: &str = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";

    fn opening(subprotocol: Option<&str>, deflate: bool) -> ClientHandshake {
        let deflate = deflate.then_some(Offer { keeps_context: false });
        ClientHandshake::new(&Address::parse("ws://a.example:81/p?q=1").unwrap(), NONCE, subprotocol, deflate)
    }

    fn verdict(opening: &ClientHandshake, answer: &str) -> String {
        match opening.judge(answer.as_bytes()) {
            Ok(None) => "more".into(),
            Ok(Some(opened)) => format!(
                "open{}, {} left",
                if opened.deflate.is_some() { " compressed" } else { "" },
                answer.len() - opened.head_bytes
            ),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn request_matches_the_url() {
        let text = String::from_utf8(opening(Some("v1.x"), true).request().to_vec()).unwrap();
        assert!(text.starts_with("GET /p?q=1 HTTP/1.1\r\nHost: a.example:81\r\n"), "{text}");
        assert!(text.contains("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{text}");
        assert!(text.contains("Sec-WebSocket-Protocol: v1.x\r\n") && text.contains("permessage-deflate"), "{text}");
        assert!(text.ends_with("\r\n\r\n"));
    }

    #[test]
    fn only_the_answer_to_our_key_opens_the_connection() {
        let plain = opening(None, false);
        assert_eq!(verdict(&plain, &format!("{GOOD}{ACCEPT}\r\nabc")), "open, 3 left");
        let lower = format!("{GOOD}{ACCEPT}\r\n").replace("Upgrade: websocket", "upgrade: WebSocket");
        assert_eq!(verdict(&plain, &lower), "open, 0 left");
        let whole = format!("{GOOD}{ACCEPT}\r\n");
        for bytes in 0..whole.len() {
            assert_eq!(verdict(&plain, &whole[..bytes]), "more", "{bytes}");
        }
        for (answer, part) in [
            (format!("{GOOD}\r\n"), "Accept"),
            (format!("{GOOD}{}\r\n", ACCEPT.replace("s3p", "t3p")), "Accept"),
            (format!("{GOOD}Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n"), "Accept"),
            (format!("{GOOD}{ACCEPT}{ACCEPT}\r\n"), "Accept"),
            (format!("{GOOD}{ACCEPT}Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"), "extension"),
            (format!("{GOOD}{ACCEPT}Sec-WebSocket-Protocol: x\r\n\r\n"), "subprotocol"),
            (format!("HTTP/1.1 101 x\r\nConnection: Upgrade\r\n{ACCEPT}\r\n"), "Upgrade: websocket"),
            (format!("HTTP/1.1 101 x\r\nUpgrade: websocket\r\n{ACCEPT}\r\n"), "Connection: Upgrade"),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n".into(), "503 Service Unavailable"),
            ("HTTP/1.1 401 Unauthorized\r\n\r\n".into(), "401 Unauthorized"),
            ("HTTP/1.1 200 OK\r\n\r\n".into(), "200 OK"),
            ("HTTP/1.1 301 x\r\nLocation: wss://b/\r\n\r\n".into(), "301 and sends us to wss://b/"),
            ("HTTP/1.1 302 Found\r\nLocation: wss://b/\u{1b}[2J\r\n\r\n".into(), "not HTTP"),
            ("HTTP/1.1 308 x\r\n\r\n".into(), "nowhere"),
            ("SSH-2.0-OpenSSH_9.2\r\n".into(), "not HTTP"),
            (format!("{GOOD}A: {}\r\n", "b".repeat(20_000)), "16 KiB"),
            (format!("{GOOD}{ACCEPT}A: {}\r\n\r\n", "b".repeat(20_000)), "16 KiB"),
            (format!("{GOOD}{}", "A: b\r\n".repeat(70)), "64 headers"),
        ] {
            assert!(verdict(&plain, &answer).contains(part), "{answer:?}: {}", verdict(&plain, &answer));
        }
    }

    #[test]
    fn server_may_accept_the_offer() {
        let named = opening(Some("x"), false);
        assert!(verdict(&named, &format!("{GOOD}{ACCEPT}\r\n")).contains("does not take up"));
        assert!(verdict(&named, &format!("{GOOD}{ACCEPT}Sec-WebSocket-Protocol: y\r\n\r\n")).contains("not offered"));
        assert_eq!(verdict(&named, &format!("{GOOD}{ACCEPT}Sec-WebSocket-Protocol: x\r\n\r\n")), "open, 0 left");
        let deflate = opening(None, true);
        let answer = |text: &str| format!("{GOOD}{ACCEPT}Sec-WebSocket-Extensions: {text}\r\n\r\n");
        for (text, expected) in [
            ("permessage-deflate; server_no_context_takeover", "open compressed, 0 left"),
            (
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12",
                "open compressed, 0 left",
            ),
            ("permessage-deflate", "context"),
            ("permessage-deflate; server_no_context_takeover; client_max_window_bits=9", "open compressed, 0 left"),
            ("permessage-deflate; server_no_context_takeover; server_max_window_bits=16", "no sense"),
            ("permessage-deflate; server_no_context_takeover, permessage-deflate", "twice"),
            ("x-webkit-deflate-frame", "not offered"),
        ] {
            assert!(
                verdict(&deflate, &answer(text)).contains(expected),
                "{text}: {}",
                verdict(&deflate, &answer(text))
            );
        }
        assert_eq!(verdict(&deflate, &format!("{GOOD}{ACCEPT}\r\n")), "open, 0 left", "it may decline");
    }
}
