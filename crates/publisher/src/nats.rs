//! Messages from NATS: what is published on a subject goes to a channel.
//!
//! Holds       the connection comes back by itself; while it is away, that can be seen.
//! Leaves out  what was published while it was away: core NATS keeps nothing.
//! Start at    [`Bus::run`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, Subscriber};
use tokio_stream::StreamExt as _;

use crate::press::Press;

const CONNECT: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(100);

/// What went wrong, and what to do.
#[derive(Debug)]
pub struct Failure {
    pub what: String,
    pub remedy: &'static str,
    /// It could not have worked, whatever runs: an address or a subject that is none.
    pub is_usage: bool,
}

/// A connection to a NATS server, and what is read from it.
pub struct Bus {
    runtime: tokio::runtime::Runtime,
    /// Kept: without it the subscription ends.
    _client: Client,
    messages: Subscriber,
}

impl Bus {
    /// `is_away` is kept up to date from now on.
    pub fn connect(url: &str, subject: &str, is_away: Arc<AtomicBool>) -> Result<Self, Failure> {
        let remedy = "give nats://HOST:PORT of a NATS server that runs";
        let failed = |what: String| Failure { what, remedy, is_usage: false };
        let no_runtime = |error: std::io::Error| Failure {
            what: format!("no runtime for --nats: {error}"),
            remedy: "allow more open files",
            is_usage: false,
        };
        let shown = without_password(url);
        if !["nats://", "tls://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(Failure { what: format!("--nats {shown} is no NATS address"), remedy, is_usage: true });
        }
        let is_subject = !subject.is_empty() && subject.split('.').all(|token| !token.is_empty());
        if !is_subject || subject.contains(char::is_whitespace) {
            let what = format!("{subject:?} is no NATS subject");
            let remedy = "write tokens joined by dots, for example trades.> or trades.*";
            return Err(Failure { what, remedy, is_usage: true });
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build().map_err(no_runtime)?;
        let options =
            ConnectOptions::new().name("pitwire publish").connection_timeout(CONNECT).event_callback(move |event| {
                let is_away = Arc::clone(&is_away);
                async move {
                    match event {
                        Event::Connected => {
                            is_away.store(false, Ordering::Relaxed);
                            tracing::info!("connected to NATS");
                        }
                        Event::Disconnected => {
                            is_away.store(true, Ordering::Relaxed);
                            tracing::warn!("NATS is away; trying again");
                        }
                        other => tracing::warn!("NATS says: {other}"),
                    }
                }
            });
        let connected = runtime.block_on(async { tokio::time::timeout(CONNECT, options.connect(url)).await });
        let client = match connected {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(failed(format!("cannot read from {shown}: {error}"))),
            Err(_) => return Err(failed(format!("{shown} does not answer as a NATS server"))),
        };
        let subscribed = runtime.block_on(async {
            let messages = client.subscribe(subject.to_owned()).await.map_err(|error| error.to_string())?;
            // Whoever waits until we are ready publishes at once: the server must know of us by then.
            client.flush().await.map_err(|error| error.to_string())?;
            Ok::<Subscriber, String>(messages)
        });
        match subscribed {
            Ok(messages) => Ok(Bus { runtime, _client: client, messages }),
            Err(error) => Err(failed(format!("cannot subscribe to {subject} at {shown}: {error}"))),
        }
    }

    /// Hands over what comes until told to stop. What comes together goes together.
    pub fn run(self, press: &mut Press, stop: &AtomicBool) {
        let Bus { runtime, mut messages, .. } = self;
        runtime.block_on(async {
            while !stop.load(Ordering::Relaxed) {
                match tokio::time::timeout(GLANCE, messages.next()).await {
                    Err(_) => {}
                    Ok(None) => break,
                    Ok(Some(first)) => {
                        take(press, &first);
                        while let Ok(Some(next)) = tokio::time::timeout(Duration::ZERO, messages.next()).await {
                            take(press, &next);
                        }
                        press.flush();
                    }
                }
            }
        });
    }
}

/// What is no UTF-8 cannot be a text message: every reader would have to end its connection over it.
fn take(press: &mut Press, message: &async_nats::Message) {
    let is_binary = std::str::from_utf8(&message.payload).is_err();
    press.take(Some(message.subject.as_str()), &message.payload, is_binary);
}

/// A message must not show a password.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    rest.rsplit_once('@').map_or_else(|| url.to_string(), |(_, host)| format!("{scheme}://…@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_or_subject_is_said_and_passwords_are_not() {
        let tell = |url: &str, subject: &str| Bus::connect(url, subject, Arc::default()).err().unwrap().what;
        assert_eq!(tell("http://me:secret@host", "a"), "--nats http://…@host is no NATS address");
        assert_eq!(tell("nats://127.0.0.1:1", "a..b"), "\"a..b\" is no NATS subject");
        assert!(tell("nats://me:secret@127.0.0.1:1", "a").starts_with("cannot read from nats://…@127.0.0.1:1: "));
    }
}
