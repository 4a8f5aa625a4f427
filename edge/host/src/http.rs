//! One HTTP/1.1 request at a time out of a connection's bytes, and responses back.
//!
//! Holds       sizes are bounded before anything is kept: see the constants.

use std::net::IpAddr;

use pitwire_websocket::accept_key;

/// Room for 628 stream names in one request line.
const MAX_REQUEST_LINE: usize = 64 * 1024;
const MAX_HEADER_BYTES: usize = 16 * 1024;
const MAX_HEAD: usize = MAX_REQUEST_LINE + MAX_HEADER_BYTES;
const MAX_HEADERS: usize = 64;
const MAX_BODY: usize = 64 * 1024;

/// A request whose bytes are still in the connection's buffer.
#[derive(Debug)]
pub struct HttpRequest<'a> {
    pub method: &'a str,
    /// Path and query exactly as sent: signatures are taken over it.
    pub target: &'a str,
    pub headers: Headers<'a>,
    pub body: &'a [u8],
    pub keep_alive: bool,
    /// Sent by a browser on behalf of a page that is not ours.
    pub is_foreign: bool,
    /// Where it comes from, if that is known.
    pub from: Option<IpAddr>,
}

#[derive(Clone, Debug)]
pub struct Headers<'a>(Vec<(&'a str, &'a [u8])>);

impl<'a> Headers<'a> {
    /// The first header of a name; `None` when absent or not readable text.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.and_then(|(_, value)| std::str::from_utf8(value).ok()).map(str::trim)
    }

    fn lists(&self, name: &str, token: &str) -> bool {
        self.get(name).is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    }
}

impl<'a> HttpRequest<'a> {
    pub fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    pub fn query(&self) -> &'a str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    pub fn is_upgrade(&self) -> bool {
        self.headers.lists("upgrade", "websocket") && self.headers.lists("connection", "upgrade")
    }

    /// The answer to a valid WebSocket handshake.
    pub fn upgrade_response(&self) -> Result<Vec<u8>, HttpResponse> {
        let refuse = |why: &str| HttpResponse::text(400, why);
        if self.method != "GET" {
            return Err(refuse("a WebSocket handshake is a GET request"));
        }
        if self.headers.get("sec-websocket-version") != Some("13") {
            let mut response = HttpResponse::text(426, "WebSocket version 13 is spoken here");
            response.headers.push(("Sec-WebSocket-Version", "13".into()));
            return Err(response);
        }
        let accept = self.headers.get("sec-websocket-key").and_then(accept_key);
        let accept = accept.ok_or_else(|| refuse("Sec-WebSocket-Key must be 16 bytes in base64"))?;
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
        Ok(format!("{head}Sec-WebSocket-Accept: {accept}\r\n\r\n").into_bytes())
    }
}

/// What the bytes so far amount to.
#[derive(Debug)]
pub enum Parsed<'a> {
    NeedMore,
    Request {
        request: HttpRequest<'a>,
        bytes: usize,
    },
    /// Answer and close: what follows in the stream cannot be trusted.
    Refuse(HttpResponse),
}

pub fn parse(input: &[u8]) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() > MAX_HEAD => {
            return Parsed::Refuse(HttpResponse::text(431, "request line and headers are too large"));
        }
        Ok(httparse::Status::Partial) => return Parsed::NeedMore,
        Err(httparse::Error::TooManyHeaders) => {
            return Parsed::Refuse(HttpResponse::text(431, "more than 64 headers"));
        }
        Err(error) => return Parsed::Refuse(HttpResponse::text(400, &format!("malformed request: {error}"))),
    };
    let (Some(method), Some(target)) = (head.method, head.path) else {
        return Parsed::Refuse(HttpResponse::text(400, "malformed request line"));
    };
    if target.len() > MAX_REQUEST_LINE {
        return Parsed::Refuse(HttpResponse::text(414, "the request line is above 64 KiB"));
    }
    if head_bytes - method.len() - target.len() > MAX_HEADER_BYTES {
        return Parsed::Refuse(HttpResponse::text(431, "headers are above 16 KiB"));
    }
    let headers = Headers(head.headers.iter().map(|header| (header.name, header.value)).collect());
    if headers.get("transfer-encoding").is_some() {
        return Parsed::Refuse(HttpResponse::text(501, "send a Content-Length instead of a transfer encoding"));
    }
    if headers.0.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length")).count() > 1 {
        return Parsed::Refuse(HttpResponse::text(400, "more than one Content-Length"));
    }
    let length = match headers.get("content-length").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(length)) if length <= MAX_BODY => length,
        Some(Ok(_)) => return Parsed::Refuse(HttpResponse::text(413, "a body is at most 64 KiB")),
        Some(Err(_)) => return Parsed::Refuse(HttpResponse::text(400, "Content-Length is not a number")),
    };
    let Some(body) = input.get(head_bytes..head_bytes + length) else { return Parsed::NeedMore };
    let keep_alive = match head.version {
        Some(1) => !headers.lists("connection", "close"),
        _ => headers.lists("connection", "keep-alive"),
    };
    let request = HttpRequest { method, target, headers, body, keep_alive, is_foreign: false, from: None };
    Parsed::Request { request, bytes: head_bytes + length }
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
    pub fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        HttpResponse { status, content_type, headers: Vec::new(), body }
    }

    pub fn text(status: u16, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n").into_bytes())
    }

    pub fn json(status: u16, body: Vec<u8>) -> Self {
        let mut response = Self::new(status, "application/json", body);
        // Orders travel in GET requests: nothing between us and the client may keep or repeat them.
        response.headers.push(("Cache-Control", "no-store".into()));
        response
    }

    pub fn write(&self, out: &mut Vec<u8>, keep_alive: bool, head_only: bool) {
        let reason = match self.status {
            101 => "Switching Protocols",
            200 => "OK",
            204 => "No Content",
            304 => "Not Modified",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Content Too Large",
            414 => "URI Too Long",
            421 => "Misdirected Request",
            426 => "Upgrade Required",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let connection = if keep_alive { "keep-alive" } else { "close" };
        out.extend_from_slice(format!("HTTP/1.1 {} {reason}\r\nConnection: {connection}\r\n", self.status).as_bytes());
        out.extend_from_slice(format!("Content-Type: {}\r\n", self.content_type).as_bytes());
        out.extend_from_slice(format!("Content-Length: {}\r\n", self.body.len()).as_bytes());
        out.extend_from_slice(b"X-Content-Type-Options: nosniff\r\n");
        for (name, value) in &self.headers {
            out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        if !head_only {
            out.extend_from_slice(&self.body);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str) -> String {
        match parse(text.as_bytes()) {
            Parsed::NeedMore => "more".into(),
            Parsed::Request { request, bytes } => {
                let rest = text.len() - bytes;
                let body = String::from_utf8_lossy(request.body).into_owned();
                format!("{} {} [{body}] keep={} rest={rest}", request.method, request.target, request.keep_alive)
            }
            Parsed::Refuse(response) => format!("!{}", response.status),
        }
    }

    #[test]
    fn requests_are_cut_out_of_the_stream() {
        for (text, expected) in [
            ("GET /a?b=%20c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a?b=%20c [] keep=true rest=0"),
            ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET", "POST /a [abc] keep=true rest=3"),
            ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "GET / [] keep=false rest=0"),
            ("GET / HTTP/1.0\r\n\r\n", "GET / [] keep=false rest=0"),
            ("GET / HTTP/1.1\r\nHost", "more"),
            ("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", "more"),
            ("nonsense\r\n\r\n", "!400"),
            ("\u{1}\u{2}\u{3}", "!400"),
            ("POST /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "!400"),
            ("POST /a HTTP/1.1\r\nContent-Length: x\r\n\r\n", "!400"),
            ("POST /a HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "!413"),
            ("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "!501"),
        ] {
            assert_eq!(outcome(text), expected, "{text:?}");
        }
        assert_eq!(outcome(&format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65))), "!431");
        assert_eq!(outcome(&format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(20_000))), "!431");
        assert_eq!(outcome(&format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000))), "!414");
        assert_eq!(outcome(&format!("GET /{}", "a".repeat(90_000))), "!431");
    }
}
