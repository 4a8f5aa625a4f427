//! The values of options that describe a listening socket. A value that can never match is refused
//! at once.

use std::net::{SocketAddr, TcpListener};

use pitwire_failure::{Failure, more_files};

/// Parses a name for `Host` headers, without scheme and port.
///
/// # Errors
///
/// Fails if the text is not a bare name.
pub fn host_name(text: &str) -> Result<String, String> {
    let is_label = |label: &str| {
        let has_letters = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        (1..=63).contains(&label.len()) && has_letters
    };
    match text.split('.').all(is_label) && text.len() <= 253 {
        true => Ok(text.to_owned()),
        false => Err("give a bare name like md.example.com, without https:// and without a port".into()),
    }
}

/// Parses a numeric address with a port. A name is refused, because it may stand for several
/// addresses.
///
/// # Errors
///
/// Fails with an example if the text is not an address and a port.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).unwrap_or(8080);
        format!("give an address and a port as numbers: 127.0.0.1:{port}, [::1]:{port}, 0.0.0.0:{port} for all of this machine's")
    })
}

/// Parses an origin in the form that browsers send, or `*` for all origins.
///
/// # Errors
///
/// Fails if browsers do not send this form.
pub fn origin(text: &str) -> Result<String, String> {
    if text == "*" || text == "null" {
        return Ok(text.to_owned());
    }
    let (scheme, authority) = text.split_once("://").unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/?#@\\\"".contains(&byte);
    // A browser omits the default port.
    let has_own_port =
        matches!((scheme, authority.rsplit_once(':')), ("https", Some((_, "443"))) | ("http", Some((_, "80"))));
    let is_origin = !scheme.is_empty() && !authority.is_empty() && authority.bytes().all(is_plain) && !has_own_port;
    if is_origin {
        return Ok(text.to_owned());
    }
    Err("give it as browsers spell it, without a path: https://app.example, http://app.example:8080; or * for all"
        .into())
}

/// Opens a listening socket. `flag` is the option that chooses its address.
///
/// # Errors
///
/// Returns a failure that names the address and the remedy.
pub fn listen(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).map_err(|error| {
        let other = || format!("stop what uses the port, or give another with {flag}");
        Failure::new(format!("cannot listen on {address}: {error}"))
            .remedy(more_files(&error).map_or_else(other, Into::into))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_bare_name() {
        for name in ["md.example.com", "venue", "10-0-0-1.internal", "a_b.c"] {
            assert_eq!(host_name(name).as_deref(), Ok(name));
        }
        for wrong in ["", "http://a.b", "a.b:80", "a..b", "a b", ".a", "*.a", &"a".repeat(64)] {
            assert!(host_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_address_is_numeric_and_the_error_suggests_one() {
        assert_eq!(address("[::1]:80").map(|address| address.port()), Ok(80));
        for (text, hint) in [("localhost:9000", "127.0.0.1:9000"), ("9000", ":9000"), ("", ":8080"), ("a:b", ":8080")] {
            assert!(address(text).unwrap_err().contains(hint), "{text}");
        }
    }

    #[test]
    fn an_origin_has_the_form_that_browsers_send() {
        for text in ["*", "null", "https://app.example", "http://localhost:5173", "app://x", "https://app.example:80"] {
            assert!(origin(text).is_ok(), "{text}");
        }
        for text in
            ["", "foo", "https://", "://a", "https://app.example/", "https://a:443", "http://a:80", "https://a b"]
        {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
