//! `pitwire tape record`: records a WebSocket feed into a file.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pitwire_net::stop_signals;
use pitwire_recorder::recorder::{RecordOptions, record};

use pitwire_failure::Failure;
use pitwire_terminal::output::say;

const EXAMPLES: &str = "Examples:
  pitwire tape record wss://feed.example/ day.tape --subscribe '{\"action\":\"subscribe\"}'
      until Ctrl-C or the end of the feed
  pitwire tape record ws://127.0.0.1:9000/ minute.tape --seconds 60
      one minute";

/// Save the messages of a feed with their arrival times.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Record {
    /// Address of the feed: ws:// or wss://.
    url: String,
    /// File to create; it must not exist.
    file: PathBuf,
    /// First message to send.
    #[arg(long, value_name = "TEXT")]
    auth: Option<String>,
    /// Message to send after --auth; may be repeated.
    #[arg(long, value_name = "TEXT")]
    subscribe: Option<String>,
    /// Also trust the certificates in this PEM file.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// End after this many messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// End after this many seconds.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

impl Record {
    /// Records a feed into a new file.
    ///
    /// # Errors
    /// If the file exists or cannot be written, or the feed cannot be reached or breaks the
    /// protocol.
    pub fn run(self) -> Result<(), Failure> {
        let file = OpenOptions::new().write(true).create_new(true).open(&self.file).map_err(|error| {
            Failure::new(format!("cannot make {}: {error}", self.file.display()))
                .remedy("name a file that does not exist yet")
        })?;
        let signals = stop_signals()?;
        let wanted = RecordOptions {
            url: self.url,
            ca: self.ca,
            greetings: self.auth.into_iter().chain(self.subscribe).collect(),
            messages: self.messages,
            time: self.seconds.map(Duration::from_secs),
        };
        let recorded = record(&wanted, file, &signals).map_err(|what| {
            // Remove the empty file, so that a second attempt with the same name works.
            let _ = std::fs::remove_file(&self.file);
            Failure::new(what).remedy("check the URL, --ca and that the feed is up")
        })?;
        let (messages, bytes, seconds) = (recorded.messages, recorded.bytes, recorded.seconds);
        if self.json {
            say(&format!("{{\"messages\":{messages},\"bytes\":{bytes},\"seconds\":{seconds:.6}}}"));
        } else {
            say(&format!("{messages} messages in {bytes} bytes, {seconds:.1} s: {}", self.file.display()));
        }
        match recorded.failure {
            Some(what) => Err(Failure::new(what).remedy("the recording up to there is whole")),
            None => Ok(()),
        }
    }
}
