//! The opening handshake as a server answers it.

use pitwire_websocket::accept_key;

/// A study put 628 streams into one URL: nine kilobytes. This is plenty.
pub const MOST_BYTES: usize = 64 * 1024;

pub enum Request {
    /// More bytes are needed.
    Partial,
    /// A WebSocket is asked for: the target, the answer's key, and how many bytes the head took.
    Upgrade { target: String, accept: String, bytes: usize },
    /// Something else; this is the answer.
    Refused(&'static str, &'static str),
}

pub fn parse(input: &[u8]) -> Request {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut headers);
    let bytes = match head.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() < MOST_BYTES => return Request::Partial,
        Ok(httparse::Status::Partial) => {
            return Request::Refused("431 Request Header Fields Too Large", "head above 64 KiB");
        }
        Err(_) => return Request::Refused("400 Bad Request", "this is no HTTP request; connect with ws://"),
    };
    let header = |name: &str| {
        let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    };
    let has = |name: &str, token: &str| {
        header(name).is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    };
    if head.method != Some("GET") {
        return Request::Refused("405 Method Not Allowed", "a feed is read with GET and Upgrade: websocket");
    }
    if !has("upgrade", "websocket") || !has("connection", "upgrade") || header("sec-websocket-version") != Some("13") {
        return Request::Refused("426 Upgrade Required", "this is a WebSocket feed: connect with ws://, version 13");
    }
    match header("sec-websocket-key").and_then(accept_key) {
        Some(accept) => Request::Upgrade { target: head.path.unwrap_or("/").to_owned(), accept, bytes },
        None => Request::Refused("400 Bad Request", "Sec-WebSocket-Key must be 16 bytes in base64"),
    }
}

pub fn accepted(accept: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

pub fn refused(status: &str, reason: &str) -> String {
    let extra = if status.starts_with("426") { "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" } else { "" };
    format!(
        "HTTP/1.1 {status}\r\n{extra}Connection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{reason}\n",
        reason.len() + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str) -> &'static str {
        match parse(request.as_bytes()) {
            Request::Partial => "partial",
            Request::Upgrade { .. } => "101",
            Request::Refused(status, _) => &status[..3],
        }
    }

    #[test]
    fn takes_what_the_rfc_asks_for_and_nothing_less() {
        let good = "GET /x HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        assert_eq!(status(good), "101");
        assert_eq!(status(&good[..good.len() - 1]), "partial");
        assert_eq!(status(&good.replace("GET", "POST")), "405");
        assert_eq!(status(&good.replace("13", "8")), "426");
        assert_eq!(status(&good.replace("WebSocket\r", "h2c\r")), "426");
        assert_eq!(status(&good.replace("dGhl", "")), "400");
        assert_eq!(status("\u{1}\u{2} nonsense\r\n\r\n"), "400");
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(MOST_BYTES))), "431");
    }

    #[test]
    fn a_long_url_is_no_problem() {
        let streams = "abcdef@trade/".repeat(628);
        let request = format!(
            "GET /stream?streams={streams} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        assert_eq!(status(&request), "101");
    }
}
