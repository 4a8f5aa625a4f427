//! Who may come in, by what a browser says of where a request comes from.
//!
//! Does        a page elsewhere must not reach a venue on loopback through its visitor's browser: a `Host` that is not
//!             ours (a rebound name) is refused whatever is asked; a page of another origin is marked as foreign.
//! Leaves out  what a foreign page may still do: that is the application's, but never a WebSocket.
//! Start at    [`Doors::judge`].

use std::net::{IpAddr, SocketAddr};

use crate::application::Refusal;
use crate::http::{Headers, HttpRequest};

#[derive(Debug)]
pub(crate) struct Doors {
    bound: IpAddr,
    hosts: Vec<String>,
}

impl Doors {
    pub fn new(bound: SocketAddr, hosts: &[String]) -> Self {
        Doors { bound: bound.ip(), hosts: hosts.to_vec() }
    }

    pub fn judge(&self, request: &mut HttpRequest<'_>) -> Result<(), Refusal> {
        // One that is there and cannot be read is nobody's name.
        let is_readable = request.headers.values("host").all(|host| std::str::from_utf8(host).is_ok());
        let host = request.headers.get("host").unwrap_or_default();
        // HTTP/1.0 and hand-written clients send no Host; a browser always does.
        if !is_readable || (!host.is_empty() && !self.is_ours(host)) {
            return Err(Refusal::UnknownHost);
        }
        request.is_foreign = is_foreign(&request.headers, host);
        Ok(())
    }

    fn is_ours(&self, host: &str) -> bool {
        let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        let name = port.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = name.parse::<IpAddr>() {
            // Bound to every address of the machine, we do not know them all; an address cannot be rebound.
            return address.is_loopback() || address == self.bound || self.bound.is_unspecified();
        }
        name.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|ours| name.eq_ignore_ascii_case(ours))
    }
}

/// What no browser sends is nobody's page.
fn is_foreign(headers: &Headers<'_>, host: &str) -> bool {
    let elsewhere = headers.values("origin").any(|origin| {
        let origin = std::str::from_utf8(origin).unwrap_or_default().trim();
        let authority = origin.split_once("://").map_or("", |(_, rest)| rest);
        !authority.eq_ignore_ascii_case(host)
    });
    elsewhere || headers.get("sec-fetch-site").is_some_and(|site| site.eq_ignore_ascii_case("cross-site"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Parsed, parse};

    /// `refused`, `foreign` or `own`.
    fn verdict(bound: &str, headers: &str) -> &'static str {
        let doors = Doors::new(bound.parse().unwrap(), &["test.deribit.com".into()]);
        let text = format!("GET / HTTP/1.1\r\n{headers}\r\n");
        let Parsed::Request { mut request, .. } = parse(text.as_bytes()) else { panic!("{headers}") };
        match doors.judge(&mut request) {
            Err(refusal) => {
                assert_eq!(refusal, Refusal::UnknownHost);
                "refused"
            }
            Ok(()) if request.is_foreign => "foreign",
            Ok(()) => "own",
        }
    }

    #[test]
    fn only_our_names_are_answered_to_and_pages_from_elsewhere_are_marked() {
        for (headers, expected) in [
            ("", "own"),
            ("Host: 127.0.0.1:8080\r\n", "own"),
            ("Host: [::1]:8080\r\n", "own"),
            ("Host: localhost\r\n", "own"),
            ("Host: 10.1.2.3:8080\r\n", "own"),
            ("Host: 10.1.2.4:8080\r\n", "refused"),
            ("Host: TEST.deribit.com\r\n", "own"),
            ("Host: evil.example\r\n", "refused"),
            ("Host: localhost.evil.example\r\n", "refused"),
            ("Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n", "own"),
            ("Host: 127.0.0.1:8080\r\nOrigin: http://evil.example\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nOrigin: null\r\n", "foreign"),
            ("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:9090\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nSec-Fetch-Site: cross-site\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nSec-Fetch-Site: same-origin\r\n", "own"),
        ] {
            assert_eq!(verdict("10.1.2.3:8080", headers), expected, "{headers:?}");
        }
        let Parsed::Request { mut request, .. } = parse(b"GET / HTTP/1.1\r\nHost: \xFF\r\n\r\n") else { panic!() };
        let doors = Doors::new("10.1.2.3:8080".parse().unwrap(), &[]);
        assert_eq!(doors.judge(&mut request), Err(Refusal::UnknownHost), "what cannot be read is not no Host");
        assert_eq!(verdict("0.0.0.0:8080", "Host: 10.1.2.4:8080\r\n"), "own");
        assert_eq!(verdict("0.0.0.0:8080", "Host: evil.example\r\n"), "refused");
    }
}
