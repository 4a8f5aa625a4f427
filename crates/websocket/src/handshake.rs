//! The server's side of the opening handshake (RFC 6455 section 4.2).
//!
//! Does        Checks a client's request and writes the response.
//! Leaves out  `Host` and `Origin` checks. Subprotocols: none are supported.
//! Start at    [`Head::upgrade`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::extension::{DeflateAgreement, MalformedExtensions, Policy};
use crate::head::{Head, HeadRefusal, Headers};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns `Sec-WebSocket-Accept` for a client's `Sec-WebSocket-Key`, or `None` if the key is not
/// 16 bytes in base64.
pub fn accept_key(key: &str) -> Option<String> {
    let nonce = STANDARD.decode(key.trim()).ok().filter(|nonce| nonce.len() == 16)?;
    debug_assert_eq!(nonce.len(), 16);
    let digest = Sha1::new().chain_update(key.trim().as_bytes()).chain_update(GUID).finalize();
    Some(STANDARD.encode(digest))
}

/// How a handshake is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeAnswer {
    pub accept: String,
    pub deflate: Option<DeflateAgreement>,
}

impl HandshakeAnswer {
    /// Writes the complete response. Frames follow it.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_with(&[], out);
    }

    /// Writes the complete response with additional headers.
    pub fn write_with(&self, headers: &[(&str, &str)], out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n");
        out.extend_from_slice(format!("Sec-WebSocket-Accept: {}\r\n", self.accept).as_bytes());
        if let Some(agreed) = &self.deflate {
            out.extend_from_slice(format!("Sec-WebSocket-Extensions: {agreed}\r\n").as_bytes());
        }
        for (name, value) in headers {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl Headers<'_> {
    pub fn ask_for_websocket(&self) -> bool {
        self.lists("upgrade", "websocket") && self.lists("connection", "upgrade")
    }
}

impl Head<'_> {
    /// Whether the request asks for a WebSocket.
    pub fn is_upgrade(&self) -> bool {
        self.headers.ask_for_websocket()
    }

    /// Returns the answer to a valid handshake. `deflate` says how messages are compressed for
    /// clients that offer it.
    ///
    /// # Errors
    ///
    /// The refusal. One with status 426 is to be sent with `Sec-WebSocket-Version: 13` (RFC 6455
    /// section 4.4).
    pub fn upgrade(&self, deflate: Option<Policy>) -> Result<HandshakeAnswer, HeadRefusal> {
        let refuse = |reason| Err(HeadRefusal { status: 400, reason });
        if self.method != "GET" {
            return refuse("a WebSocket handshake is a GET request");
        }
        if self.minor_version != 1 {
            return refuse("a WebSocket handshake needs HTTP/1.1");
        }
        if self.headers.values("host").next().is_none() {
            return refuse("a WebSocket handshake needs a Host");
        }
        if self.body_bytes > 0 {
            return refuse("a WebSocket handshake has no body");
        }
        if self.only("sec-websocket-version")? != Some("13") {
            return Err(HeadRefusal { status: 426, reason: "WebSocket version 13 is spoken here" });
        }
        let Some(accept) = self.only("sec-websocket-key")?.and_then(accept_key) else {
            return refuse("Sec-WebSocket-Key must be 16 bytes in base64");
        };
        Ok(HandshakeAnswer { accept, deflate: self.extensions(deflate)? })
    }

    fn extensions(&self, deflate: Option<Policy>) -> Result<Option<DeflateAgreement>, HeadRefusal> {
        let malformed = HeadRefusal { status: 400, reason: "Sec-WebSocket-Extensions is malformed" };
        let mut values = Vec::new();
        for value in self.headers.values("sec-websocket-extensions") {
            values.push(std::str::from_utf8(value).map_err(|_| malformed)?);
        }
        let answered = deflate.unwrap_or_default().answer(values);
        answered.map(|agreed| agreed.filter(|_| deflate.is_some())).map_err(|MalformedExtensions| malformed)
    }

    /// Returns the only header of this name.
    ///
    /// # Errors
    ///
    /// There is more than one.
    fn only(&self, name: &str) -> Result<Option<&str>, HeadRefusal> {
        if self.headers.values(name).nth(1).is_some() {
            return Err(HeadRefusal { status: 400, reason: "a Sec-WebSocket header came twice" });
        }
        Ok(self.headers.get(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{HeadLimits, HeadParseResult, parse};

    const GOOD: [&str; 6] = [
        "GET /a HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ];

    /// Returns `plain`, `101` with the agreement, or the status of the refusal.
    fn verdict(lines: &[&str]) -> String {
        let text = format!("{}\r\n\r\n", lines.join("\r\n"));
        let head = match parse(text.as_bytes(), &HeadLimits::default()) {
            HeadParseResult::Head(head) => head,
            HeadParseResult::Refuse(refusal) => return refusal.status.to_string(),
            HeadParseResult::NeedMore => return "more".into(),
        };
        if !head.is_upgrade() {
            return "plain".into();
        }
        match head.upgrade(Some(Policy::default())) {
            Ok(HandshakeAnswer { accept, deflate }) => {
                assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
                format!("101{}", deflate.map_or(String::new(), |agreed| format!(" {agreed}")))
            }
            Err(refusal) => refusal.status.to_string(),
        }
    }

    #[test]
    fn each_handshake_header_is_checked() {
        assert_eq!(verdict(&GOOD), "101");
        // Each case: the line, the index of the line that it replaces (or none to add it), and the
        // expected result.
        let deflate = "101 permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        for (at, line, expected) in [
            (Some(0), "POST /a HTTP/1.1", "400"),
            (Some(0), "get /a HTTP/1.1", "400"),
            (Some(0), "GET /a HTTP/1.0", "400"),
            (Some(0), "GET /a HTTP/2.0", "400"),
            (Some(1), "X: no host", "400"),
            (None, "Host: localhost", "400"),
            (Some(2), "Upgrade: WebSocket", "101"),
            (Some(2), "upgrade: WEBSOCKET", "101"),
            (Some(2), "Upgrade: h2c, websocket", "101"),
            (Some(2), "Upgrade: h2c\r\nUpgrade: websocket", "101"),
            (Some(2), "Upgrade: websocket/13", "plain"),
            (Some(2), "Upgrade: web socket", "plain"),
            (Some(2), "X: no upgrade", "plain"),
            (Some(3), "Connection: keep-alive, Upgrade", "101"),
            (Some(3), "connection:upgrade", "101"),
            (Some(3), "Connection: keep-alive\r\nConnection: ,, UPGRADE ,", "101"),
            (Some(3), "Connection: keep-alive", "plain"),
            (Some(3), "Connection: Upgraded", "plain"),
            (Some(3), "X: no connection", "plain"),
            (Some(4), "X: no key", "400"),
            (Some(4), "Sec-WebSocket-Key:", "400"),
            (Some(4), "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ", "400"),
            (Some(4), "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZTEyMzQ=", "400"),
            (Some(4), "Sec-WebSocket-Key: dGhl!HNhbXBsZSBub25jZQ==", "400"),
            (Some(4), "sec-websocket-key:   dGhlIHNhbXBsZSBub25jZQ==  ", "101"),
            (None, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "400"),
            (Some(5), "X: no version", "426"),
            (Some(5), "Sec-WebSocket-Version: 8", "426"),
            (Some(5), "Sec-WebSocket-Version: 13, 8", "426"),
            (Some(5), "Sec-WebSocket-Version: 013", "426"),
            (Some(5), "Sec-WebSocket-Version: +13", "426"),
            (None, "Sec-WebSocket-Version: 13", "400"),
            (None, "Sec-WebSocket-Protocol: chat, superchat", "101"),
            (None, "Sec-WebSocket-Extensions: x-other", "101"),
            (None, "Sec-WebSocket-Extensions: x-other, permessage-deflate", deflate),
            (None, "Sec-WebSocket-Extensions: x-other\r\nSec-WebSocket-Extensions: permessage-deflate", deflate),
            (None, "Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=99", "101"),
            (None, "Sec-WebSocket-Extensions: ;", "400"),
            (None, "Sec-WebSocket-Extensions: permessage-deflate; a=\"", "400"),
            (None, "Content-Length: 0", "101"),
            (None, "Content-Length: 5", "400"),
            (None, "Transfer-Encoding: chunked", "501"),
            (None, " folded", "400"),
            (None, "Origin: http://evil.example", "101"),
        ] {
            let mut lines = GOOD.to_vec();
            match at {
                Some(at) => lines[at] = line,
                None => lines.push(line),
            }
            assert_eq!(verdict(&lines), expected, "{line:?}");
        }
    }

    #[test]
    fn response_names_the_agreed_extension() {
        let written = |deflate| {
            let mut out = Vec::new();
            HandshakeAnswer { accept: "abc=".into(), deflate }.write(&mut out);
            String::from_utf8(out).unwrap()
        };
        let start = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                     Sec-WebSocket-Accept: abc=\r\n";
        assert_eq!(written(None), format!("{start}\r\n"));
        let agreed = Policy::default().answer(["permessage-deflate; server_max_window_bits=12"]).unwrap();
        let header =
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=12";
        assert_eq!(written(agreed), format!("{start}Sec-WebSocket-Extensions: {header}\r\n\r\n"));
    }

    #[test]
    fn accept_key_matches_the_rfc() {
        // RFC 6455 section 1.3.
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ==").as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn keys_of_another_size_are_refused() {
        for key in
            ["", "abc", "dGhlIHNhbXBsZSBub25jZQ", "AAAA", "dGhlIHNhbXBsZSBub25jZTEyMzQ=", "dGhlIHNhbXBsZSBub25jZR=="]
        {
            assert_eq!(accept_key(key), None, "{key:?}");
        }
    }
}
