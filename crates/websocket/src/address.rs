//! Parses the URL of a WebSocket server.
//!
//! Holds       A URL cannot insert a line into the request that is built from it.
//! Start at    [`Address::parse`].

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub is_secure: bool,
    /// Host name or IP address. An IPv6 address has no brackets.
    pub host: String,
    pub port: u16,
    /// Path and query, as they are requested.
    pub resource: String,
    /// Value of the `Host` header, as the URL has it.
    pub authority: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadUrl(pub &'static str);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for BadUrl {}

impl Address {
    /// Reads a `ws://` or `wss://` URL.
    ///
    /// # Errors
    /// [`BadUrl`] with the part that is wrong: scheme, host, port, a login, a fragment, or a
    /// character that must be written as `%XX`.
    pub fn parse(url: &str) -> Result<Self, BadUrl> {
        if url.bytes().any(|byte| !byte.is_ascii_graphic()) {
            return Err(BadUrl("it holds a space, a control character or a letter outside ASCII; write them as %XX"));
        }
        let (scheme, rest) = url.split_once("://").ok_or(BadUrl("it begins with neither ws:// nor wss://"))?;
        let is_secure = match scheme.to_ascii_lowercase().as_str() {
            "ws" => false,
            "wss" => true,
            _ => return Err(BadUrl("it begins with neither ws:// nor wss://")),
        };
        if rest.contains('#') {
            return Err(BadUrl("it has a #fragment, which no server ever sees; leave it out"));
        }
        let (authority, resource) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err(BadUrl(
                "it carries a user and a password, which are not sent; leave them out, or use --auth where there is one",
            ));
        }
        let (host, port) = host_and_port(authority)?;
        let port = match port {
            None => {
                if is_secure {
                    443
                } else {
                    80
                }
            }
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or(BadUrl("its port is not a number from 1 to 65535"))?,
        };
        if host.is_empty() {
            return Err(BadUrl("it names no host"));
        }
        let resource = if resource.starts_with('/') { resource.to_owned() } else { format!("/{resource}") };
        Ok(Address { is_secure, host: host.to_owned(), port, resource, authority: authority.to_owned() })
    }
}

fn host_and_port(authority: &str) -> Result<(&str, Option<&str>), BadUrl> {
    let Some(inside) = authority.strip_prefix('[') else {
        return Ok(match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        });
    };
    let (host, behind) = inside.split_once(']').ok_or(BadUrl("its [ has no ]"))?;
    if behind.is_empty() {
        return Ok((host, None));
    }
    behind.strip_prefix(':').map(|port| (host, Some(port))).ok_or(BadUrl("something else than a port follows its ]"))
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn url_parts_are_found() {
        for (url, expected) in [
            ("ws://127.0.0.1:8080/feed", "plain 127.0.0.1 8080 /feed 127.0.0.1:8080"),
            ("WSS://example.org", "tls example.org 443 / example.org"),
            ("ws://example.org?key=1", "plain example.org 80 /?key=1 example.org"),
            ("ws://example.org/a:b/c?d=[e]&f=g:h", "plain example.org 80 /a:b/c?d=[e]&f=g:h example.org"),
            ("wss://[::1]:9/x", "tls ::1 9 /x [::1]:9"),
            ("ws://[fe80::1]", "plain fe80::1 80 / [fe80::1]"),
        ] {
            let a = Address::parse(url).unwrap();
            let scheme = if a.is_secure { "tls" } else { "plain" };
            assert_eq!(format!("{scheme} {} {} {} {}", a.host, a.port, a.resource, a.authority), expected, "{url}");
        }
    }

    #[test]
    fn invalid_urls_are_refused() {
        for url in [
            "",
            "127.0.0.1:80",
            "http://a/",
            "ws:/a",
            "ws://",
            "ws:///x",
            "ws://:80/",
            "ws://a:/",
            "ws://a:0/",
            "ws://a:65536/",
            "ws://a:b/",
            "ws://a:80:80/",
            "ws://[::1/",
            "ws://[::1]80/",
            "ws://u:p@a/",
            "ws://a/#b",
            "ws://a/ b",
            "ws://a/\r\nX: y",
            "ws://ä/",
        ] {
            assert!(Address::parse(url).is_err(), "{url:?}");
        }
    }
}
