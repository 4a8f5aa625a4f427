//! Which names a server answers to, and which web pages may use it.
//!
//! Does        protects a server on loopback from web pages elsewhere, which reach it through the
//!             browser of their visitor: a `Host` that is not ours (a rebound name) is refused
//!             for every request, and a request on behalf of a foreign page is marked.
//! Leaves out  the rights of a foreign page, which the caller decides.
//! Start at    [`OriginPolicy::judge`].

use std::net::IpAddr;

use pitwire_websocket::head::Headers;

/// The one policy for all listeners. Exceptions are explicit: `hosts` and `origins`.
#[derive(Clone, Debug)]
pub struct OriginPolicy {
    bound: IpAddr,
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Every request comes over TLS.
    is_secure: bool,
}

/// On whose behalf a browser sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOrigin {
    /// No page, a page of this server, or a page that was allowed.
    Own,
    /// A page of another origin.
    Foreign,
}

/// The `Host` of a request is not a name of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownHost;

impl OriginPolicy {
    /// Makes the policy of a listener that is bound to `bound` and reached by its address, as
    /// `localhost`, or under one of the names or addresses in `hosts`.
    pub fn new(bound: IpAddr, hosts: &[String]) -> Self {
        OriginPolicy { bound, hosts: hosts.to_vec(), origins: Vec::new(), is_secure: false }
    }

    /// Allows pages of these origins, as a browser spells them; `*` allows all pages.
    pub fn with_origins(mut self, origins: &[String]) -> Self {
        self.origins = origins.to_vec();
        self
    }

    /// Sets whether every request comes over TLS.
    pub fn over_tls(mut self, is_secure: bool) -> Self {
        self.is_secure = is_secure;
        self
    }

    /// Judges a request by its headers.
    ///
    /// # Errors
    /// Fails if there is a `Host` and it is not a name of this server.
    pub fn judge(&self, headers: &Headers<'_>) -> Result<PageOrigin, UnknownHost> {
        self.judge_over(headers, self.is_secure)
    }

    /// As [`Self::judge`]. `is_secure` says whether this request came over TLS.
    ///
    /// # Errors
    /// Fails if there is a `Host` and it is not a name of this server.
    pub fn judge_over(&self, headers: &Headers<'_>, is_secure: bool) -> Result<PageOrigin, UnknownHost> {
        let texts = |name| headers.values(name).map(readable);
        self.judge_values(texts("host").next(), texts("origin"), texts("sec-fetch-site"), is_secure)
    }

    /// Judges a request by the values of its headers `Host`, `Origin` and `Sec-Fetch-Site`.
    ///
    /// Over TLS, a page of the same host that was loaded without TLS is foreign: an attacker on the
    /// network could have replaced it. Without TLS both schemes are own: a proxy may add TLS.
    ///
    /// # Errors
    /// Fails if there is a `Host` and it is not a name of this server.
    pub fn judge_values<'a>(
        &self,
        host: Option<&'a str>,
        origins: impl Iterator<Item = &'a str>,
        mut fetch_sites: impl Iterator<Item = &'a str>,
        is_secure: bool,
    ) -> Result<PageOrigin, UnknownHost> {
        // HTTP/1.0 and hand-written clients send no Host; a browser always does.
        let host = host.unwrap_or_default();
        if !host.is_empty() && !self.is_ours(host) {
            return Err(UnknownHost);
        }
        let (mut is_foreign, mut is_allowed) = (false, false);
        for origin in origins {
            let (scheme, authority) = origin.split_once("://").unwrap_or_default();
            let is_own_scheme =
                scheme.eq_ignore_ascii_case("https") || (!is_secure && scheme.eq_ignore_ascii_case("http"));
            let is_listed = self.origins.iter().any(|other| other == "*" || origin.eq_ignore_ascii_case(other));
            is_allowed |= is_listed;
            let is_own = is_own_scheme && authority.eq_ignore_ascii_case(host);
            is_foreign |= !(is_listed || is_own);
        }
        // A listed page may be of another site. A page of another port of this host is `same-site`,
        // and any program on the host can serve one.
        let is_elsewhere = |site: &str| !site.eq_ignore_ascii_case("same-origin") && !site.eq_ignore_ascii_case("none");
        is_foreign |= !is_allowed && fetch_sites.any(is_elsewhere);
        Ok(if is_foreign { PageOrigin::Foreign } else { PageOrigin::Own })
    }

    fn is_ours(&self, host: &str) -> bool {
        let port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = port.map_or(host, |(name, _)| name).trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = name.parse::<IpAddr>() {
            // A listener on all addresses does not know them; an address cannot be rebound.
            let is_listed = self.hosts.iter().any(|ours| ours.parse() == Ok(address));
            return address.is_loopback() || address == self.bound || self.bound.is_unspecified() || is_listed;
        }
        name.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(|ours| name.eq_ignore_ascii_case(ours))
    }
}

/// Returns the text of a header. A value that is not text matches nothing.
fn readable(value: &[u8]) -> &str {
    std::str::from_utf8(value).unwrap_or("?").trim()
}

#[cfg(test)]
mod tests {
    use pitwire_websocket::head::{HeadLimits, HeadParseResult, parse};

    use super::*;

    fn verdict(bound: &str, headers: &[u8]) -> &'static str {
        verdict_over(bound, headers, false)
    }

    fn verdict_over(bound: &str, headers: &[u8], is_secure: bool) -> &'static str {
        let hosts = ["test.deribit.com".to_owned(), "10.7.7.7".to_owned()];
        let policy = OriginPolicy::new(bound.parse().unwrap(), &hosts).with_origins(&["https://app.example".into()]);
        let text = [b"GET / HTTP/1.1\r\n", headers, b"\r\n"].concat();
        let HeadParseResult::Head(head) = parse(&text, &HeadLimits::default()) else { panic!("{headers:?}") };
        match policy.over_tls(is_secure).judge(&head.headers) {
            Err(UnknownHost) => "refused",
            Ok(PageOrigin::Foreign) => "foreign",
            Ok(PageOrigin::Own) => "own",
        }
    }

    #[test]
    fn only_our_names_are_answered_and_pages_of_other_origins_are_foreign() {
        for (headers, expected) in [
            ("", "own"),
            ("Host: 127.0.0.1:8080\r\n", "own"),
            ("Host: [::1]:8080\r\n", "own"),
            ("Host: localhost\r\n", "own"),
            ("Host: 10.1.2.3:8080\r\n", "own"),
            ("Host: 10.7.7.7:8080\r\n", "own"),
            ("Host: 10.1.2.4:8080\r\n", "refused"),
            ("Host: TEST.deribit.com\r\n", "own"),
            ("Host: evil.example\r\n", "refused"),
            ("Host: localhost.evil.example\r\n", "refused"),
            ("Host: localhost:8080\r\nOrigin: http://localhost:8080\r\n", "own"),
            ("Host: 127.0.0.1:8080\r\nOrigin: http://evil.example\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nOrigin: null\r\n", "foreign"),
            ("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n", "foreign"),
            ("Host: localhost\r\nOrigin: https://app.example\r\nOrigin: http://evil.example\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nOrigin: http://127.0.0.1:9090\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nSec-Fetch-Site: cross-site\r\n", "foreign"),
            ("Host: localhost\r\nOrigin: http://localhost\r\nSec-Fetch-Site: cross-site\r\n", "foreign"),
            ("Host: localhost\r\nSec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nSec-Fetch-Site: same-site\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nSec-Fetch-Site: unheard-of\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nOrigin: app://127.0.0.1:8080\r\n", "foreign"),
            ("Host: 127.0.0.1:8080\r\nSec-Fetch-Site: same-origin\r\n", "own"),
            ("Host: 127.0.0.1:8080\r\nSec-Fetch-Site: none\r\n", "own"),
            ("Host: localhost\r\nOrigin: https://APP.example\r\nSec-Fetch-Site: cross-site\r\n", "own"),
        ] {
            assert_eq!(verdict("10.1.2.3", headers.as_bytes()), expected, "{headers:?}");
        }
        assert_eq!(verdict("10.1.2.3", b"Host: \xFF\r\n"), "refused", "a host that is no text is not no host");
        assert_eq!(verdict("0.0.0.0", b"Host: 10.1.2.4:8080\r\n"), "own");
        assert_eq!(verdict("0.0.0.0", b"Host: evil.example\r\n"), "refused");
    }

    #[test]
    fn a_page_without_tls_is_foreign_to_a_listener_with_tls() {
        let headers = |scheme: &str| format!("Host: localhost\r\nOrigin: {scheme}://localhost\r\n").into_bytes();
        assert_eq!(verdict_over("10.1.2.3", &headers("http"), true), "foreign");
        assert_eq!(verdict_over("10.1.2.3", &headers("https"), true), "own");
        assert_eq!(verdict_over("10.1.2.3", &headers("http"), false), "own");
        assert_eq!(verdict_over("10.1.2.3", &headers("https"), false), "own", "a proxy may add TLS");
    }
}
