//! The connection of client commands to a venue: its options, login, and the output of channels.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pitwire_client::{Credentials, Error, Reconnect, Settings, SubscriptionEvent, VenueConnection};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use pitwire_failure::Failure;
use pitwire_terminal::output::{has_write_failed, printable_json, say};

/// Events of all channels that wait to be printed.
const WAITING_EVENTS: usize = 64;

/// Options that name a venue.
#[derive(Args)]
pub struct VenueOptions {
    /// WebSocket URL of the venue.
    #[arg(long, global = true, value_name = "WS_URL", default_value = "ws://127.0.0.1:8080/ws/api/v2")]
    url: String,
    /// For wss://, trust only the certificate authorities in this PEM file.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Timeout of a request in seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl VenueOptions {
    /// Returns the settings of a connection that survives a cut.
    pub fn settings(&self, credentials: Option<Credentials>) -> Settings {
        Settings {
            authority: self.ca.clone(),
            credentials,
            timeout: Duration::from_secs(self.timeout),
            ..Settings::new(&self.url)
        }
    }
}

/// Options of a command that sends a request to a venue and prints the result.
#[derive(Args)]
pub struct Reach {
    #[command(flatten)]
    venue: VenueOptions,
    /// Print the result as one line of JSON, with every number as the venue wrote it.
    #[arg(long, global = true)]
    pub json: bool,
}

/// A connection and the runtime of its task. Calls block the thread.
pub struct VenueSession {
    runtime: Runtime,
    connection: VenueConnection,
}

impl Reach {
    /// Connects, and logs in if `with_login`.
    ///
    /// # Errors
    ///
    /// Fails if there are no credentials, if the venue cannot be reached, or if it refuses the
    /// login.
    pub fn open(&self, with_login: bool) -> Result<VenueSession, Failure> {
        self.open_with(with_login, false)
    }

    /// As [`Reach::open`]. With `reconnects` the connection survives a cut.
    ///
    /// # Errors
    ///
    /// As [`Reach::open`].
    pub fn open_with(&self, with_login: bool, reconnects: bool) -> Result<VenueSession, Failure> {
        // A missing credential is reported before a connection is opened.
        let credentials = if with_login { Some(Credentials::find().map_err(Error::from)?) } else { None };
        let mut settings = self.venue.settings(credentials);
        if !reconnects {
            settings = Settings { reconnect: Reconnect::Never, heartbeat: None, ..settings };
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(format!("cannot start the event loop: {error}")))?;
        let connection = runtime.block_on(VenueConnection::open(settings))?;
        Ok(VenueSession { runtime, connection })
    }
}

impl VenueSession {
    /// Sends a call and waits for its result.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`].
    pub fn call<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> Result<Box<RawValue>, Error> {
        self.runtime.block_on(self.connection.call(method, params))
    }

    /// Closes the connection and waits until its last bytes are sent.
    pub fn close(self) {
        let VenueSession { runtime, connection } = self;
        let mut state = connection.state();
        drop(connection);
        // The task drops the state when it ends.
        runtime.block_on(async { while state.changed().await.is_ok() {} });
    }

    /// Prints the messages of channels, one line of JSON each. Stops after `count` messages, and
    /// when the output is closed.
    ///
    /// # Errors
    ///
    /// Fails if the venue refuses a channel, or when the connection ends.
    pub fn watch(self, channels: &[String], count: Option<u64>) -> Result<(), Failure> {
        let VenueSession { runtime, connection } = self;
        runtime.block_on(async move {
            let (sender, mut events) = mpsc::channel(WAITING_EVENTS);
            for channel in channels {
                let mut subscription = connection.subscribe(channel).await?;
                let sender = sender.clone();
                tokio::spawn(async move {
                    loop {
                        let event = subscription.next().await;
                        let is_end = matches!(event, SubscriptionEvent::Ended { .. });
                        if sender.send((subscription.channel().to_owned(), event)).await.is_err() || is_end {
                            return;
                        }
                    }
                });
            }
            let mut left = count.unwrap_or(u64::MAX);
            while left > 0 && !has_write_failed() {
                let Some((channel, event)) = events.recv().await else { return Ok(()) };
                match event {
                    SubscriptionEvent::Notice(notice) => {
                        let channel = serde_json::Value::from(channel);
                        say(&printable_json(&format!("{{\"channel\":{channel},\"data\":{}}}", notice.data.get())));
                        left -= 1;
                    }
                    SubscriptionEvent::Lost { messages } => {
                        eprintln!("pitwire: {channel}: the output was slow and lost {messages} messages");
                    }
                    SubscriptionEvent::Restarted => eprintln!("pitwire: {channel}: subscribed again"),
                    SubscriptionEvent::Ended { reason } => {
                        return Err(Failure::new(format!("{channel} ended: {reason}")));
                    }
                }
            }
            Ok(())
        })
    }
}
