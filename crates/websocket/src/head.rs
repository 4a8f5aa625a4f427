//! Parses the head of an HTTP/1.1 request strictly: two parsers of the same bytes must never see
//! different requests.
//!
//! Does        Reads the request line and headers from the front of the received bytes, and returns
//!             the number of body bytes that follow.
//! Holds       1. Sizes are bounded before anything is stored.
//!             2. Constructs that programs are known to read differently (RFC 9112 sections 2.2,
//!                5.1, 5.2 and 6.3) are refused: lines that end in LF alone, folded headers, a
//!                space before the colon, any transfer encoding, a repeated or malformed
//!                `Content-Length`, two `Host` headers.
//! Leaves out  Bodies, and `Host` and `Origin` checks.
//! Start at    [`parse`].

/// Size limits of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    pub request_line_bytes: usize,
    /// All headers together, in bytes.
    pub header_bytes: usize,
    pub body_bytes: usize,
}

impl Default for HeadLimits {
    /// The request line has space for 628 stream names.
    fn default() -> Self {
        HeadLimits { request_line_bytes: 64 * 1024, header_bytes: 16 * 1024, body_bytes: 64 * 1024 }
    }
}

/// Most headers of one request.
pub const HEADERS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub struct Headers<'a>(Vec<(&'a str, &'a [u8])>);

impl<'a> Headers<'a> {
    /// Returns the first header of this name, or `None` if it is absent or not text.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.values(name).next().and_then(|value| std::str::from_utf8(value).ok()).map(str::trim)
    }

    /// Returns all values of a name, unparsed.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// Whether the list formed by all headers of this name contains a token.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        let mut texts = self.values(name).filter_map(|value| std::str::from_utf8(value).ok());
        texts.any(|text| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    }
}

/// A request that borrows the received bytes.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    pub method: &'a str,
    /// Path and query exactly as sent.
    pub target: &'a str,
    /// The last digit of the version: 1 for HTTP/1.1.
    pub minor_version: u8,
    pub headers: Headers<'a>,
    /// Length of the head in bytes.
    pub head_bytes: usize,
    /// Number of bytes after the head that belong to the request.
    pub body_bytes: usize,
}

/// Why a request is answered with an error and the connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadRefusal {
    pub status: u16,
    pub reason: &'static str,
}

/// Returns the reason phrase of a status (RFC 9110 section 15, RFC 6585).
pub fn status_words(status: u16) -> &'static str {
    match status {
        101 => "Switching Protocols",
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        421 => "Misdirected Request",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Error",
    }
}

/// Result of parsing the received bytes.
#[derive(Debug)]
pub enum HeadParseResult<'a> {
    NeedMore,
    Head(Head<'a>),
    /// Send the error and close the connection: the rest of the stream cannot be trusted.
    Refuse(HeadRefusal),
}

pub fn parse<'a>(input: &'a [u8], limits: &HeadLimits) -> HeadParseResult<'a> {
    match read(input, limits) {
        Ok(Some(head)) => HeadParseResult::Head(head),
        Ok(None) => HeadParseResult::NeedMore,
        Err(refusal) => HeadParseResult::Refuse(refusal),
    }
}

const fn refuse<T>(status: u16, reason: &'static str) -> Result<T, HeadRefusal> {
    Err(HeadRefusal { status, reason })
}

fn read<'a>(input: &'a [u8], limits: &HeadLimits) -> Result<Option<Head<'a>>, HeadRefusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() > limits.request_line_bytes + limits.header_bytes => {
            return refuse(431, "request line and headers are too large");
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(malformed(error)),
    };
    let (Some(method), Some(target), Some(minor_version)) = (head.method, head.path, head.version) else {
        return refuse(400, "malformed request line");
    };
    if target.len() > limits.request_line_bytes {
        return refuse(414, "the request line is too long");
    }
    if head_bytes - method.len() - target.len() > limits.header_bytes {
        return refuse(431, "the headers are too large");
    }
    let lines = &input[..head_bytes];
    if lines.iter().enumerate().any(|(at, byte)| *byte == b'\n' && (at == 0 || lines[at - 1] != b'\r')) {
        return refuse(400, "lines of a request end with CR and LF");
    }
    let headers = Headers(head.headers.iter().map(|header| (header.name, header.value)).collect());
    let body_bytes = body_bytes(&headers, limits)?;
    if headers.values("host").count() > 1 {
        return refuse(400, "more than one Host");
    }
    Ok(Some(Head { method, target, minor_version, headers, head_bytes, body_bytes }))
}

fn malformed(error: httparse::Error) -> HeadRefusal {
    let reason = match error {
        httparse::Error::TooManyHeaders => return HeadRefusal { status: 431, reason: "more than 64 headers" },
        httparse::Error::HeaderName => "malformed request: a header's name has a letter that may not be there",
        httparse::Error::HeaderValue => "malformed request: a header's value has a letter that may not be there",
        httparse::Error::NewLine => "malformed request: lines end with CR and LF",
        httparse::Error::Version => "malformed request: HTTP/1.1 is spoken here",
        _ => "malformed request: this is no HTTP",
    };
    HeadRefusal { status: 400, reason }
}

fn body_bytes(headers: &Headers<'_>, limits: &HeadLimits) -> Result<usize, HeadRefusal> {
    if headers.values("transfer-encoding").next().is_some() {
        return refuse(501, "send a Content-Length instead of a transfer encoding");
    }
    let mut lengths = headers.values("content-length");
    let Some(length) = lengths.next() else { return Ok(0) };
    if lengths.next().is_some() {
        return refuse(400, "more than one Content-Length");
    }
    // `str::parse` alone would accept a plus sign.
    if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
        return refuse(400, "Content-Length is not a number");
    }
    let length = std::str::from_utf8(length).ok().and_then(|digits| digits.parse::<usize>().ok());
    match length {
        Some(length) if length <= limits.body_bytes => Ok(length),
        _ => refuse(413, "the body is too long"),
    }
}

/// Splits the target of a request into its path and its query. The query is empty if there is none.
pub fn split_target(target: &str) -> (&str, &str) {
    target.split_once('?').unwrap_or((target, ""))
}

impl<'a> Head<'a> {
    pub fn path(&self) -> &'a str {
        split_target(self.target).0
    }

    pub fn query(&self) -> &'a str {
        split_target(self.target).1
    }

    /// Whether more requests may follow on the connection.
    pub fn keeps_alive(&self) -> bool {
        match self.minor_version {
            1 => !self.headers.lists("connection", "close"),
            _ => self.headers.lists("connection", "keep-alive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &[u8]) -> String {
        match parse(text, &HeadLimits::default()) {
            HeadParseResult::NeedMore => "more".into(),
            HeadParseResult::Head(head) => {
                let rest = text.len() - head.head_bytes;
                let keeps = if head.keeps_alive() { "keep" } else { "close" };
                format!("{} {} {keeps} body={} rest={rest}", head.method, head.target, head.body_bytes)
            }
            HeadParseResult::Refuse(refusal) => format!("!{}", refusal.status),
        }
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        for (text, expected) in [
            (&b"GET /a?b=%20c HTTP/1.1\r\nHost: x\r\n\r\n"[..], "GET /a?b=%20c keep body=0 rest=0"),
            (b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET", "POST /a keep body=3 rest=6"),
            (b"GET / HTTP/1.1\r\nConnection: x\r\nConnection: Close\r\n\r\n", "GET / close body=0 rest=0"),
            (b"GET / HTTP/1.0\r\n\r\n", "GET / close body=0 rest=0"),
            (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / keep body=0 rest=0"),
            (b"GET / HTTP/1.1\r\nHost", "more"),
            (b"", "more"),
            (b"nonsense\r\n\r\n", "!400"),
            (b"GET / HTTP/2.0\r\n\r\n", "!400"),
            (b"\x16\x03\x01", "!400"),
            (b"GET / HTTP/1.1\nHost: x\n\n", "!400"),
            (b"GET / HTTP/1.1\r\nHost: x\n\r\n", "!400"),
            (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "!400"),
            (b"GET / HTTP/1.1\r\n A: b\r\n\r\n", "!400"),
            (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", "!400"),
            (b"GET / HTTP/1.1\r\nA: b\0\r\n\r\n", "!400"),
            (b"GET / HTTP/1.1\r\nA: b\rc: d\r\n\r\n", "!400"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\na", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\na", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\na", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 0x1\r\n\r\na", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 1\xA0\r\n\r\na", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length:\r\n\r\na", "!400"),
            (b"POST / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n", "!413"),
            (b"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", "!413"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "!501"),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: \xFFchunked\r\n\r\n", "!501"),
            (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: identity\r\n\r\na", "!501"),
        ] {
            assert_eq!(outcome(text), expected, "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn heads_above_a_limit_are_refused() {
        let of = |text: String| outcome(text.as_bytes());
        assert_eq!(of(format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(64))), "GET / keep body=0 rest=0");
        assert_eq!(of(format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65))), "!431");
        assert_eq!(of(format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(20_000))), "!431");
        assert_eq!(of(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000))), "!414");
        assert_eq!(of(format!("GET /{}", "a".repeat(90_000))), "!431");
    }
}
