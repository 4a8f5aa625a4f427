//! The connection to a NATS server: options, errors, and whether it is up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use pitwire_failure::{Failure, without_password};
use tokio::runtime::{Builder, Runtime};

use crate::address::{NatsLogin, split_login};
use crate::reconnect_delay::ReconnectDelay;

/// Timeout of one connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that the client library may queue. The bounded and counted queues are ours,
/// counted, so this stays small.
const CLIENT_CAPACITY: usize = 16;

/// Behaviour when the server is not there at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstConnection {
    /// Return an error.
    Required,
    /// Keep trying in the background.
    Background,
}

/// Options of a connection.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// Client name, shown by the server.
    pub name: &'static str,
    pub first_connection: FirstConnection,
    /// Messages that a subscription may hold before the client library drops new ones.
    pub subscription_capacity: usize,
}

/// Whether the connection is up. Clones share one state.
#[derive(Clone, Debug)]
pub struct LinkState {
    is_down: Arc<AtomicBool>,
}

impl LinkState {
    pub fn is_up(&self) -> bool {
        !self.is_down.load(Ordering::Acquire)
    }

    /// Returns the flag that is set while the connection is down.
    pub fn down_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_down)
    }

    pub(crate) fn set_up(&self, is_up: bool) {
        self.is_down.store(!is_up, Ordering::Release);
    }
}

impl Default for LinkState {
    fn default() -> Self {
        LinkState { is_down: Arc::new(AtomicBool::new(true)) }
    }
}

/// A client with the runtime that drives it.
pub(crate) struct NatsConnection {
    pub runtime: Runtime,
    pub client: Client,
    pub link: LinkState,
}

/// Connects as `options` say, and reports the state of the connection in `link`.
///
/// # Errors
///
/// The address is invalid, the process may open no more files, or the server does not answer and
/// is required to.
pub(crate) fn connect(url: &str, options: &NatsOptions, link: LinkState) -> Result<NatsConnection, Failure> {
    log_panics_of_library();
    let (address, login) = split_login(url)?;
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(format!("cannot start a NATS client: {error}")).remedy("allow more open files")
    })?;
    let client_options = client_options(options, login, link.clone());
    let connected = runtime.block_on(async {
        // The second limit covers a server that accepts and never sends its greeting.
        tokio::time::timeout(2 * CONNECT_TIMEOUT, client_options.connect(address)).await
    });
    let remedy = "start a NATS server there (nats-server), or correct the address";
    let shown = without_password(url);
    match connected {
        Ok(Ok(client)) => {
            // The event that says so may still be queued.
            if options.first_connection == FirstConnection::Required {
                link.set_up(true);
            }
            Ok(NatsConnection { runtime, client, link })
        }
        Ok(Err(error)) => Err(Failure::new(format!("cannot connect to {shown}: {error}")).remedy(remedy)),
        Err(_) => Err(Failure::new(format!("{shown} does not answer as a NATS server")).remedy(remedy)),
    }
}

/// Logs a panic of the client library as one line. Version 0.51 panics at a bare `-ERR`; the panic
/// ends its task, and the subscription connects again.
fn log_panics_of_library() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| match panic.location() {
            Some(place) if place.file().contains("async-nats") => {
                let cause = panic.payload_as_str().unwrap_or_default();
                tracing::warn!("the NATS server sent what the client library cannot read: {cause}");
            }
            _ => report(panic),
        }));
    });
}

fn client_options(options: &NatsOptions, login: NatsLogin, link: LinkState) -> ConnectOptions {
    let delay = ReconnectDelay::default();
    let client_options = match login {
        NatsLogin::None => ConnectOptions::new(),
        NatsLogin::Token(token) => ConnectOptions::new().token(token),
        NatsLogin::Password { user, password } => ConnectOptions::new().user_and_password(user, password),
    };
    let client_options = client_options
        .name(options.name)
        .connection_timeout(CONNECT_TIMEOUT)
        .reconnect_delay_callback(move |_| delay.next())
        .client_capacity(CLIENT_CAPACITY)
        .subscription_capacity(options.subscription_capacity)
        .event_callback(move |event| {
            let link = link.clone();
            async move { record_event(&link, &event) }
        });
    match options.first_connection {
        FirstConnection::Required => client_options,
        FirstConnection::Background => client_options.retry_on_initial_connect(),
    }
}

fn record_event(link: &LinkState, event: &Event) {
    match event {
        Event::Connected => {
            link.set_up(true);
            tracing::info!("connected to NATS");
        }
        Event::Disconnected => {
            link.set_up(false);
            tracing::warn!("connection to NATS lost; reconnecting");
        }
        // Subscribers detect dropped messages by their sequence numbers.
        Event::SlowConsumer(_) => tracing::debug!("NATS: {event}"),
        other => tracing::warn!("NATS: {other}"),
    }
}
