//! One connection to NATS, and what is said about it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};

const CONNECT: Duration = Duration::from_secs(5);
const RETRY_MOST: Duration = Duration::from_secs(2);
/// Messages that the client may hold beside the queues here.
const CLIENT_CAPACITY: usize = 16;
/// Messages that may wait for us before the client throws away what comes: each may be a whole batch.
const SUBSCRIPTION_CAPACITY: usize = 1_024;

/// What is wrong and what to do.
#[derive(Clone, Debug)]
pub struct Failure {
    pub what: String,
    pub remedy: &'static str,
}

impl Failure {
    pub(crate) fn new(what: impl Into<String>, remedy: &'static str) -> Self {
        Failure { what: what.into(), remedy }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.remedy)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for pitwire_failure::Failure {
    fn from(failure: Failure) -> Self {
        pitwire_failure::Failure::usage(failure.what).remedy(failure.remedy)
    }
}

/// Whether an address and a subject can be meant.
pub fn check(url: &str, subject: &str) -> Result<(), Failure> {
    let host = ["nats://", "tls://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let is_readable = host.is_some_and(|host| !host.is_empty()) && url.parse::<async_nats::ServerAddr>().is_ok();
    if !is_readable {
        let what = format!("{} is no NATS address", without_password(url));
        return Err(Failure::new(what, "give one like nats://127.0.0.1:4222"));
    }
    let is_token = |token: &str| {
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if !subject.split('.').all(is_token) {
        let what = format!("{subject:?} is no NATS subject");
        return Err(Failure::new(what, "use letters, digits, - and _, in parts joined by dots"));
    }
    Ok(())
}

/// Connects, however long that takes: a server that is away now may come.
pub(crate) async fn connect(url: &str, name: &str, is_connected: Arc<AtomicBool>) -> Result<Client, Failure> {
    let options = ConnectOptions::new()
        .name(name)
        .connection_timeout(CONNECT)
        .retry_on_initial_connect()
        .reconnect_delay_callback(|attempt| {
            let doubled = 50_u64.saturating_mul(1 << attempt.min(6));
            Duration::from_millis(doubled).min(RETRY_MOST)
        })
        .client_capacity(CLIENT_CAPACITY)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .event_callback(move |event| {
            let is_connected = Arc::clone(&is_connected);
            async move {
                match event {
                    Event::Connected => {
                        is_connected.store(true, Ordering::Release);
                        tracing::info!("connected to NATS");
                    }
                    Event::Disconnected => {
                        is_connected.store(false, Ordering::Release);
                        tracing::warn!("NATS is away; trying again until it is back");
                    }
                    // What was thrown away is found missing, and asked for.
                    Event::SlowConsumer(_) => tracing::debug!("NATS: {event}"),
                    other => tracing::warn!("NATS says: {other}"),
                }
            }
        });
    options.connect(url).await.map_err(|error| {
        let what = format!("cannot reach NATS at {}: {error}", without_password(url));
        Failure::new(what, "start nats-server there, or correct the address")
    })
}

/// A message must not show a password.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    rest.rsplit_once('@').map_or_else(|| url.to_string(), |(_, host)| format!("{scheme}://…@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_subjects_are_judged_before_anything_is_tried() {
        for url in ["nats://127.0.0.1:4222", "tls://host", "nats://me:secret@host:1"] {
            assert!(check(url, "pitwire.public").is_ok(), "{url}");
        }
        for (url, subject) in [
            ("http://127.0.0.1:4222", "a"),
            ("127.0.0.1:4222", "a"),
            ("nats://", "a"),
            ("nats://host:port", "a"),
            ("nats://host", ""),
            ("nats://host", "a..b"),
            ("nats://host", "a.*"),
            ("nats://host", "a b"),
        ] {
            assert!(check(url, subject).is_err(), "{url} {subject}");
        }
        let told = check("http://me:secret@host", "a").unwrap_err().to_string();
        assert!(!told.contains("secret") && told.contains("…@host"), "{told}");
    }
}
