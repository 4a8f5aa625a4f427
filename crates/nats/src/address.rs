//! Checks of addresses and subjects before anything is connected.

use std::fmt;

use async_nats::ServerAddr;
use percent_encoding::percent_decode_str;
use pitwire_failure::{Failure, without_password};

/// Whether a subject may contain the wildcards `*` and `>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wildcards {
    Allowed,
    Refused,
}

/// Checks that `url` is an address of a NATS server: `nats://[USER:PASSWORD@]HOST[:PORT]` or the
/// same with `tls://`.
///
/// # Errors
///
/// A usage error that shows the address without its password.
pub fn check_address(url: &str) -> Result<(), Failure> {
    let host = ["nats://", "tls://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let is_readable = host.is_some_and(|host| !host.is_empty()) && url.parse::<async_nats::ServerAddr>().is_ok();
    if is_readable {
        return Ok(());
    }
    let message =
        format!("invalid NATS address {:?}: expected nats://HOST:PORT or tls://HOST:PORT", without_password(url));
    Err(Failure::usage(message).remedy("give the address of a NATS server, for example nats://127.0.0.1:4222"))
}

/// The means by which the client proves its identity.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum NatsLogin {
    None,
    /// From `nats://TOKEN@HOST`.
    Token(String),
    Password {
        user: String,
        password: String,
    },
}

/// Shows no secret.
impl fmt::Debug for NatsLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NatsLogin::None => "None",
            NatsLogin::Token(_) => "Token(…)",
            NatsLogin::Password { .. } => "Password(…)",
        })
    }
}

/// Splits an address into the server and the login.
///
/// The client library logs the address as it is, and ignores a login in it. It therefore gets an
/// address without a login.
///
/// # Errors
///
/// As [`check_address`].
pub(crate) fn split_login(url: &str) -> Result<(ServerAddr, NatsLogin), Failure> {
    check_address(url)?;
    let invalid = || Failure::usage(format!("invalid NATS address {:?}", without_password(url)));
    let address: ServerAddr = url.parse().map_err(|_| invalid())?;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let login = match (address.username(), address.password()) {
        (None, None) => NatsLogin::None,
        (Some(token), None) => NatsLogin::Token(decoded(token)),
        (user, Some(password)) => {
            NatsLogin::Password { user: decoded(user.unwrap_or_default()), password: decoded(password) }
        }
    };
    let mut bare = address.into_inner();
    bare.set_username("").and_then(|()| bare.set_password(None)).map_err(|()| invalid())?;
    Ok((ServerAddr::from_url(bare).map_err(|_| invalid())?, login))
}

/// Checks a NATS subject: tokens joined by dots.
///
/// A subject to publish on consists of letters, digits, `-` and `_`. With [`Wildcards::Allowed`]
/// any characters but white space are accepted, as NATS does for subscriptions.
///
/// # Errors
///
/// A usage error that shows the subject.
pub fn check_subject(subject: &str, wildcards: Wildcards) -> Result<(), Failure> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_token = |token: &str| match wildcards {
        Wildcards::Allowed => !token.is_empty() && !token.contains(char::is_whitespace),
        Wildcards::Refused => !token.is_empty() && token.bytes().all(is_plain),
    };
    if subject.split('.').all(is_token) {
        return Ok(());
    }
    let remedy = match wildcards {
        Wildcards::Allowed => "write tokens joined by dots, for example trades.> or trades.*",
        Wildcards::Refused => "use letters, digits, - and _, in parts joined by dots, for example pitwire.trades",
    };
    Err(Failure::usage(format!("invalid NATS subject {subject:?}")).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_addresses_are_refused() {
        for url in ["nats://127.0.0.1:4222", "tls://host", "nats://me:secret@host:1"] {
            assert!(check_address(url).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.1:4222", "127.0.0.1:4222", "nats://", "nats://host:port"] {
            assert!(check_address(url).is_err(), "{url}");
        }
    }

    #[test]
    fn invalid_subjects_are_refused() {
        for (subject, wildcards) in [
            ("pitwire.public", Wildcards::Refused),
            ("a-b.c_d.1", Wildcards::Refused),
            ("trades.>", Wildcards::Allowed),
            ("trades.*.x", Wildcards::Allowed),
        ] {
            assert!(check_subject(subject, wildcards).is_ok(), "{subject}");
        }
        for (subject, wildcards) in [
            ("", Wildcards::Refused),
            ("a..b", Wildcards::Refused),
            ("a.", Wildcards::Refused),
            ("a.*", Wildcards::Refused),
            (">", Wildcards::Refused),
            ("a b", Wildcards::Refused),
            ("a..b", Wildcards::Allowed),
            ("a b", Wildcards::Allowed),
            ("", Wildcards::Allowed),
        ] {
            assert!(check_subject(subject, wildcards).is_err(), "{subject:?} {wildcards:?}");
        }
    }

    #[test]
    fn the_login_is_split_from_the_address() {
        let password =
            |user: &str, password: &str| NatsLogin::Password { user: user.into(), password: password.into() };
        for (url, login) in [
            ("nats://host:1", NatsLogin::None),
            ("nats://t%40ken@host:1", NatsLogin::Token("t@ken".into())),
            ("nats://me:s%2Fcret@host:1", password("me", "s/cret")),
            ("nats://:secret@host:1", password("", "secret")),
        ] {
            let (address, found) = split_login(url).unwrap();
            assert_eq!((address.as_url_str(), &found), ("nats://host:1", &login), "{url}");
            assert!(!format!("{address:?} {found:?}").contains("cret"), "{url}");
        }
    }

    #[test]
    fn errors_show_no_password() {
        for url in ["http://me:secret@host", "nats:me:secret@host", "me:secret@host", "nats://me:sec/secret@host"] {
            let error = check_address(url).unwrap_err().to_string();
            assert!(!error.contains("secret") && error.contains("…@host"), "{error}");
        }
    }
}
