//! The connection of client commands to a venue: its options, login, and the output of channels.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pitwire_client::{Credentials, Error, Target, VenueConnection};

use pitwire_failure::Failure;
use pitwire_terminal::output::say;

/// Options of every command that is a client of a venue.
#[derive(Args)]
pub struct Reach {
    /// WebSocket URL of the venue.
    #[arg(long, global = true, value_name = "WS_URL", default_value = "ws://127.0.0.1:8080/ws/api/v2")]
    url: String,
    /// For wss://, trust only the certificate authorities in this PEM file.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Timeout of a request in seconds.
    #[arg(long, global = true, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Print the result as one line of JSON, with every number as the venue wrote it.
    #[arg(long, global = true)]
    pub json: bool,
}

impl Reach {
    pub fn open(&self, with_login: bool) -> Result<VenueConnection, Failure> {
        // Look for credentials first: without them there is no need to connect.
        let credentials = if with_login { Some(Credentials::find().map_err(Error::from)?) } else { None };
        let target =
            Target { url: &self.url, authority: self.ca.as_deref(), patience: Duration::from_secs(self.timeout) };
        let mut connection = VenueConnection::open(&target)?;
        if let Some(credentials) = &credentials {
            connection.login(credentials)?;
        }
        Ok(connection)
    }
}

/// Prints the messages of channels, one line of JSON each.
pub fn watch(connection: &mut VenueConnection, channels: &[String], count: Option<u64>) -> Result<(), Failure> {
    let granted = connection.subscribe(channels)?;
    let granted: Vec<String> = serde_json::from_str(granted.get()).unwrap_or_default();
    if let Some(refused) = channels.iter().find(|channel| !granted.contains(channel)) {
        return Err(Failure::new(format!("the venue has no channel {refused}")).remedy("check its name"));
    }
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let notice = connection.next_notice()?;
        let channel = serde_json::Value::from(notice.channel);
        say(&format!("{{\"channel\":{channel},\"data\":{}}}", notice.data.get()));
        left -= 1;
    }
    Ok(())
}
