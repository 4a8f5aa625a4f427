//! Negotiates compression (RFC 6455 section 9.1, RFC 7692 section 7.1).
//!
//! Does        Reads `Sec-WebSocket-Extensions`. Answers an offer as a server. Makes an offer and
//!             judges its answer as a client.
//! Holds       A malformed header is refused. An offer with an unknown, repeated or invalid
//!             parameter is ignored.
//! Start at    [`Policy::answer`], [`Offer::judge`].

use std::fmt;

use crate::frames::Peer;

const NAME: &str = "permessage-deflate";
const WINDOW_BITS_MAX: u8 = 15;

/// How a server compresses if a client offers to inflate. It refers to no earlier messages and asks
/// its clients not to either. So no connection has compression state, and all clients of a window
/// get the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Exponents of the windows that the server compresses with, 9 to 15, the largest first.
    /// Messages are compressed once for each window in use.
    pub windows: &'static [u8],
}

impl Policy {
    fn largest(self) -> u8 {
        self.windows.first().copied().unwrap_or(WINDOW_BITS_MAX).clamp(9, WINDOW_BITS_MAX)
    }

    /// Returns the agreement with a client that names no particular window.
    pub fn agreed(self) -> DeflateAgreement {
        DeflateAgreement {
            server_keeps_context: false,
            client_keeps_context: false,
            server_window_bits: self.largest(),
            client_window_bits: WINDOW_BITS_MAX,
            says_window: false,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy { windows: &[15, 14, 13, 12, 11, 10, 9] }
    }
}

/// Parameters of compression that both sides agreed on. `Display` writes the header value of the
/// server's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeflateAgreement {
    pub server_keeps_context: bool,
    pub client_keeps_context: bool,
    /// 15 if the header does not say.
    pub server_window_bits: u8,
    pub client_window_bits: u8,
    /// The offer named the server's window, so the answer must name it too.
    says_window: bool,
}

impl DeflateAgreement {
    /// Returns the window of a side, and whether its messages refer to earlier ones.
    pub fn of(&self, peer: Peer) -> (u8, bool) {
        match peer {
            Peer::Client => (self.client_window_bits, self.client_keeps_context),
            Peer::Server => (self.server_window_bits, self.server_keeps_context),
        }
    }

    /// Returns the class of a connection. All connections of a class get the same compressed bytes;
    /// [`crate::Deflater::new`] takes the class as its window.
    pub fn server_class(&self) -> u8 {
        self.server_window_bits
    }
}

impl fmt::Display for DeflateAgreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)?;
        if !self.server_keeps_context {
            f.write_str("; server_no_context_takeover")?;
        }
        if !self.client_keeps_context {
            f.write_str("; client_no_context_takeover")?;
        }
        if self.says_window {
            write!(f, "; server_max_window_bits={}", self.server_window_bits)?;
        }
        Ok(())
    }
}

/// The header violates RFC 6455 section 9.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedExtensions;

impl Policy {
    /// Returns the answer to the first acceptable offer in all values of the header.
    ///
    /// # Errors
    ///
    /// A value is malformed.
    pub fn answer<'a>(
        self,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<DeflateAgreement>, MalformedExtensions> {
        let mut taken = None;
        // The rest of the header must be well-formed too.
        for value in values {
            for extension in extensions(value)? {
                if taken.is_none() && extension.name == NAME {
                    taken = self.take_up(&extension);
                }
            }
        }
        Ok(taken)
    }

    fn take_up(self, offer: &Extension<'_>) -> Option<DeflateAgreement> {
        let asked = Parameters::of(offer, ParameterSource::Client)?;
        let plain = self.agreed();
        let most = asked.server_window_bits.unwrap_or(WINDOW_BITS_MAX);
        // No compressor here supports a window of 2^8 bytes. Declining such an offer is always
        // allowed.
        let server_window_bits = self.windows.iter().copied().find(|bits| *bits <= most && *bits >= 9)?;
        Some(DeflateAgreement {
            server_window_bits,
            client_window_bits: asked.client_window_bits.flatten().unwrap_or(WINDOW_BITS_MAX),
            says_window: asked.server_window_bits.is_some(),
            ..plain
        })
    }
}

/// A client's offer: to inflate independent messages, or also messages that refer to earlier ones.
/// `Display` writes the header value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub keeps_context: bool,
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)?;
        if !self.keeps_context {
            f.write_str("; server_no_context_takeover; client_no_context_takeover")?;
        }
        f.write_str("; client_max_window_bits")
    }
}

impl Offer {
    /// Returns the accepted parameters, or `None` if the server declined.
    ///
    /// # Errors
    ///
    /// The answer is invalid: the connection must fail.
    pub fn judge<'a>(
        self,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<DeflateAgreement>, &'static str> {
        let mut agreed = None;
        for value in values {
            for extension in
                extensions(value).map_err(|MalformedExtensions| "its Sec-WebSocket-Extensions is malformed")?
            {
                if extension.name != NAME {
                    return Err("it takes up an extension that was not offered");
                }
                if agreed.is_some() {
                    return Err("it takes up permessage-deflate twice");
                }
                agreed = Some(self.agreement(&extension)?);
            }
        }
        Ok(agreed)
    }

    fn agreement(self, answer: &Extension<'_>) -> Result<DeflateAgreement, &'static str> {
        let parameters = Parameters::of(answer, ParameterSource::Server)
            .ok_or("its permessage-deflate has parameters that make no sense")?;
        let client_window_bits = parameters.client_window_bits.flatten().unwrap_or(WINDOW_BITS_MAX);
        if client_window_bits < 9 {
            return Err("it limits our window to 256 bytes, which zlib cannot keep");
        }
        if !self.keeps_context && !parameters.server_no_context_takeover {
            return Err("it would take context over, which was not offered");
        }
        Ok(DeflateAgreement {
            server_keeps_context: !parameters.server_no_context_takeover,
            client_keeps_context: !parameters.client_no_context_takeover && self.keeps_context,
            server_window_bits: parameters.server_window_bits.unwrap_or(WINDOW_BITS_MAX),
            client_window_bits,
            says_window: parameters.server_window_bits.is_some(),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ParameterSource {
    Client,
    Server,
}

#[derive(Default)]
struct Parameters {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_window_bits: Option<u8>,
    /// A client may offer to heed a limit without naming one.
    client_window_bits: Option<Option<u8>>,
}

impl Parameters {
    /// Returns `None` if a parameter is unknown or repeated, has a value where none is allowed, or
    /// an invalid window.
    fn of(extension: &Extension<'_>, who: ParameterSource) -> Option<Parameters> {
        let mut found = Parameters::default();
        for (name, value) in &extension.parameters {
            match (name.as_str(), value) {
                ("server_no_context_takeover", None) if !found.server_no_context_takeover => {
                    found.server_no_context_takeover = true;
                }
                ("client_no_context_takeover", None) if !found.client_no_context_takeover => {
                    found.client_no_context_takeover = true;
                }
                ("server_max_window_bits", Some(bits)) if found.server_window_bits.is_none() => {
                    found.server_window_bits = Some(window_bits(bits)?);
                }
                ("client_max_window_bits", Some(bits)) if found.client_window_bits.is_none() => {
                    found.client_window_bits = Some(Some(window_bits(bits)?));
                }
                ("client_max_window_bits", None)
                    if found.client_window_bits.is_none() && who == ParameterSource::Client =>
                {
                    found.client_window_bits = Some(None);
                }
                _ => return None,
            }
        }
        Some(found)
    }
}

/// Parses 8 to 15 in decimal without a leading zero.
fn window_bits(text: &str) -> Option<u8> {
    let is_plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|bits| is_plain && (8..=WINDOW_BITS_MAX).contains(bits))
}

#[derive(Debug, PartialEq, Eq)]
struct Extension<'a> {
    name: &'a str,
    /// Values have no quotes.
    parameters: Vec<(String, Option<String>)>,
}

/// Parses the list in one header, in linear time.
fn extensions(value: &str) -> Result<Vec<Extension<'_>>, MalformedExtensions> {
    let mut list = Vec::new();
    let mut text = HeaderText { rest: value };
    loop {
        text.skip_spaces();
        // A list may have empty elements (RFC 9110 section 5.6.1.2).
        if !text.rest.is_empty() && !text.rest.starts_with(',') {
            list.push(text.extension()?);
        }
        text.skip_spaces();
        if text.rest.is_empty() {
            return if list.is_empty() { Err(MalformedExtensions) } else { Ok(list) };
        }
        if !text.take(',') {
            return Err(MalformedExtensions);
        }
    }
}

struct HeaderText<'a> {
    rest: &'a str,
}

impl<'a> HeaderText<'a> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, sign: char) -> bool {
        self.rest.strip_prefix(sign).map(|rest| self.rest = rest).is_some()
    }

    fn token(&mut self) -> Result<&'a str, MalformedExtensions> {
        let end = self.rest.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        if token.is_empty() { Err(MalformedExtensions) } else { Ok(token) }
    }

    fn extension(&mut self) -> Result<Extension<'a>, MalformedExtensions> {
        let name = self.token()?;
        let mut parameters = Vec::new();
        loop {
            self.skip_spaces();
            if !self.take(';') {
                return Ok(Extension { name, parameters });
            }
            self.skip_spaces();
            let name = self.token()?.to_owned();
            self.skip_spaces();
            let value = if self.take('=') { Some(self.value()?) } else { None };
            parameters.push((name, value));
        }
    }

    /// Reads a token or a quoted string.
    fn value(&mut self) -> Result<String, MalformedExtensions> {
        self.skip_spaces();
        if !self.take('"') {
            return self.token().map(str::to_owned);
        }
        let mut value = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    let is_token = !value.is_empty() && value.bytes().all(is_token_byte);
                    return if is_token { Ok(value) } else { Err(MalformedExtensions) };
                }
                '\\' => value.push(letters.next().ok_or(MalformedExtensions)?.1),
                letter => value.push(letter),
            }
        }
        Err(MalformedExtensions)
    }
}

/// RFC 9110 section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(value: &str) -> String {
        match Policy::default().answer([value]) {
            Err(MalformedExtensions) => "malformed".into(),
            Ok(None) => "declined".into(),
            Ok(Some(agreed)) => agreed.to_string().replace("permessage-deflate; ", ""),
        }
    }

    const BOTH: &str = "server_no_context_takeover; client_no_context_takeover";

    #[test]
    fn offer_is_accepted_declined_or_refused() {
        let with = |bits: u8| format!("{BOTH}; server_max_window_bits={bits}");
        for (value, expected) in [
            ("permessage-deflate", BOTH.to_owned()),
            ("permessage-deflate; client_max_window_bits", BOTH.into()),
            ("permessage-deflate; client_max_window_bits=8", BOTH.into()),
            ("permessage-deflate; server_no_context_takeover; client_no_context_takeover", BOTH.into()),
            ("permessage-deflate; server_max_window_bits=10", with(10)),
            ("permessage-deflate; server_max_window_bits=\"10\"", with(10)),
            ("permessage-deflate ;server_max_window_bits = 15", with(15)),
            (" permessage-deflate\t,,x-other; a=\"b\\-c\" ,", BOTH.into()),
            // A window that is not supported, and the fallback after it.
            ("permessage-deflate; server_max_window_bits=8", "declined".into()),
            ("permessage-deflate; server_max_window_bits=8, permessage-deflate", BOTH.into()),
            ("x-webkit-deflate-frame", "declined".into()),
            ("PERMESSAGE-DEFLATE", "declined".into()),
            ("permessage-deflate; unknown", "declined".into()),
            ("permessage-deflate; server_max_window_bits", "declined".into()),
            ("permessage-deflate; server_max_window_bits=7", "declined".into()),
            ("permessage-deflate; server_max_window_bits=16", "declined".into()),
            ("permessage-deflate; server_max_window_bits=010", "declined".into()),
            ("permessage-deflate; server_max_window_bits=+9", "declined".into()),
            ("permessage-deflate; server_max_window_bits=999999999999", "declined".into()),
            ("permessage-deflate; server_max_window_bits=9; server_max_window_bits=9", "declined".into()),
            ("permessage-deflate; client_max_window_bits=16", "declined".into()),
            ("permessage-deflate; server_no_context_takeover=1", "declined".into()),
            ("permessage-deflate; client_no_context_takeover; client_no_context_takeover", "declined".into()),
            ("", "malformed".into()),
            (",", "malformed".into()),
            ("permessage-deflate;", "malformed".into()),
            ("permessage-deflate x", "malformed".into()),
            ("permessage-deflate; =1", "malformed".into()),
            ("permessage-deflate; a=", "malformed".into()),
            ("permessage-deflate; a=\"\"", "malformed".into()),
            ("permessage-deflate; a=\"b", "malformed".into()),
            ("permessage-deflate; a=\"b c\"", "malformed".into()),
            ("permessage-deflate, \u{e9}", "malformed".into()),
        ] {
            assert_eq!(answer(value), expected, "{value:?}");
        }
    }

    #[test]
    fn policy_agrees_on_the_largest_window() {
        let single = |value| Policy { windows: &[12] }.answer([value]).unwrap().map(|agreed| agreed.server_class());
        assert_eq!(single("permessage-deflate; server_max_window_bits=13"), Some(12));
        assert_eq!(single("permessage-deflate; server_max_window_bits=12"), Some(12));
        assert_eq!(single("permessage-deflate; server_max_window_bits=11"), None);
        let policy = Policy { windows: &[11, 9] };
        let bits = |value| policy.answer([value]).unwrap().unwrap().server_class();
        assert_eq!(bits("permessage-deflate"), 11);
        assert_eq!(bits("permessage-deflate; server_max_window_bits=15"), 11);
        assert_eq!(bits("permessage-deflate; server_max_window_bits=9"), 9);
        let several = policy.answer(["x-other", "permessage-deflate; server_max_window_bits=10"]);
        assert_eq!(several.unwrap().unwrap().server_class(), 9);
        assert_eq!(policy.answer(["permessage-deflate", ";"]), Err(MalformedExtensions));
    }

    #[test]
    fn server_may_accept_only_offered_parameters() {
        let judge = |keeps_context, value| match (Offer { keeps_context }).judge([value]) {
            Err(why) => why.to_owned(),
            Ok(None) => "none".into(),
            Ok(Some(agreed)) => {
                let (server, client) = (agreed.of(Peer::Server), agreed.of(Peer::Client));
                format!(
                    "{}{} {}{}",
                    server.0,
                    if server.1 { "+" } else { "" },
                    client.0,
                    if client.1 { "+" } else { "" }
                )
            }
        };
        for (keeps, value, expected) in [
            (true, "permessage-deflate", "15+ 15+"),
            (true, "permessage-deflate; server_no_context_takeover", "15 15+"),
            (true, "permessage-deflate; client_no_context_takeover; server_max_window_bits=9", "9+ 15"),
            (false, "permessage-deflate; server_no_context_takeover", "15 15"),
            (false, "permessage-deflate", "it would take context over, which was not offered"),
            (true, "permessage-deflate; client_max_window_bits=9", "15+ 9+"),
            (
                true,
                "permessage-deflate; client_max_window_bits",
                "its permessage-deflate has parameters that make no sense",
            ),
            (
                true,
                "permessage-deflate; client_max_window_bits=8",
                "it limits our window to 256 bytes, which zlib cannot keep",
            ),
            (true, "permessage-deflate; a", "its permessage-deflate has parameters that make no sense"),
            (
                true,
                "permessage-deflate; server_max_window_bits=20",
                "its permessage-deflate has parameters that make no sense",
            ),
            (true, "permessage-deflate, permessage-deflate", "it takes up permessage-deflate twice"),
            (true, "x-other", "it takes up an extension that was not offered"),
            (true, ";", "its Sec-WebSocket-Extensions is malformed"),
        ] {
            assert_eq!(judge(keeps, value), expected, "{value}");
        }
        assert_eq!((Offer { keeps_context: true }).judge([]), Ok(None));
        assert_eq!(Offer { keeps_context: true }.to_string(), "permessage-deflate; client_max_window_bits");
    }
}
