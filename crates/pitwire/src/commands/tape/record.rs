//! `pitwire tape record`: any WebSocket feed into a file.

use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pitwire_net::stop_signals;
use pitwire_recorder::recorder::{RecordOptions, record};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::output::say;
use pitwire_failure::Failure;

const EXAMPLES: &str = "Examples:
  pitwire tape record wss://feed.example/ day.tape --auth '{\"action\":\"auth\",\"params\":\"KEY\"}' \\
      --subscribe '{\"action\":\"subscribe\",\"params\":\"T.*\"}'     until Ctrl-C or the feed's end
  pitwire tape serve --listen 127.0.0.1:9000 --file day.tape --rate original";

/// Save what a feed sends, with the times of arrival.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Record {
    /// ws:// or wss://
    url: String,
    /// A new file.
    file: PathBuf,
    /// A text to send first.
    #[arg(long, value_name = "TEXT")]
    auth: Option<String>,
    /// A text to send after that.
    #[arg(long, value_name = "TEXT")]
    subscribe: Option<String>,
    /// Trust the certificates in this PEM file too.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// End after so many messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// End after so many seconds.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Print one JSON object at the end.
    #[arg(long)]
    json: bool,
}

impl Record {
    pub fn run(self) -> Result<(), Failure> {
        let file = OpenOptions::new().write(true).create_new(true).open(&self.file).map_err(|error| {
            Failure::new(format!("cannot make {}: {error}", self.file.display()))
                .remedy("name a file that is not there yet")
        })?;
        let signals = stop_signals()?;
        let stop = || {
            let mut polled = [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)];
            poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
        };
        let wanted = RecordOptions {
            url: self.url,
            ca: self.ca,
            greetings: self.auth.into_iter().chain(self.subscribe).collect(),
            messages: self.messages,
            time: self.seconds.map(Duration::from_secs),
        };
        let recorded = record(&wanted, file, &stop).map_err(|what| {
            // Nothing was recorded: an empty file would only be in the way.
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
