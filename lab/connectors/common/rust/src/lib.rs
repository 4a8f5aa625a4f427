//! The shared part of the connectors in Rust, by contracts/lab-connector.md.
//!
//! A connector implements [`Library`] and calls [`run`].

mod capture;
mod event;
mod receive;
mod trust;

use std::error::Error;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capture::Capture;
use receive::Receiver;

pub use receive::{End, Take};
pub use rustls;
pub use trust::{VenueSocket, connect, tls_config};

const DONE: u8 = 0;
const USAGE: u8 = 2;
const REMOTE_CLOSE: u8 = 3;
const CONNECT_FAILURE: u8 = 4;
const PROTOCOL_ERROR: u8 = 5;
const CAPTURE_ERROR: u8 = 6;

/// Longest message that a connector has to take.
pub const MESSAGE_MOST: usize = 16 << 20;

/// A WebSocket library. The connector calls it from one thread.
pub trait Library {
    const NAME: &'static str;
    const VERSION: &'static str;
    type Connection;

    /// Opens a connection and sends the subscription, if the settings have one.
    ///
    /// # Errors
    /// If the connection cannot be opened within a few seconds.
    fn open(&mut self, settings: &Settings) -> Result<Self::Connection, Box<dyn Error>>;

    /// Passes every message to `take` until the connection ends, or until `take` says to stop. It
    /// looks at `take.is_stopped()` at least every 50 ms.
    fn receive(&mut self, connection: Self::Connection, take: &mut Take<'_>) -> End;
}

/// The settings of the environment.
pub struct Settings {
    pub url: String,
    pub subscribe: String,
    /// File of certificates to trust, or "" for those of the system.
    pub ca: String,
    /// Whether to offer permessage-deflate.
    pub compresses: bool,
    capture: PathBuf,
    schema: PathBuf,
    exit_file: PathBuf,
    /// Names of the run, the connector and the exchange.
    names: [String; 3],
    has_envelope: bool,
    keeps_payload: bool,
    reconnects: bool,
    busy_wait_ns: i64,
}

impl Settings {
    fn read() -> Result<Self, String> {
        let get = |name: &str| std::env::var(name).map_err(|_| format!("the environment has no {name}"));
        let busy_wait = std::env::var("LAB_BUSY_WAIT_NS").unwrap_or_default();
        let busy_wait = if busy_wait.is_empty() { "0" } else { &busy_wait };
        Ok(Settings {
            url: get("LAB_URL")?,
            subscribe: std::env::var("LAB_SUBSCRIBE").unwrap_or_default(),
            ca: std::env::var("LAB_CA").unwrap_or_default(),
            compresses: std::env::var("LAB_COMPRESS").is_ok_and(|text| text == "1"),
            capture: get("LAB_CAPTURE")?.into(),
            schema: get("LAB_SCHEMA")?.into(),
            exit_file: get("LAB_EXIT_FILE")?.into(),
            names: [get("LAB_RUN")?, get("LAB_CONNECTOR")?, get("LAB_EXCHANGE")?],
            has_envelope: get("LAB_ENVELOPE")? == "text",
            keeps_payload: get("LAB_PAYLOAD")? == "all",
            reconnects: get("LAB_RECONNECT")? == "1",
            busy_wait_ns: busy_wait.parse().map_err(|_| format!("LAB_BUSY_WAIT_NS is {busy_wait:?}, not a number"))?,
        })
    }
}

#[must_use]
pub fn monotonic_ns() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Answers the clock handshake. Returns false if the input ends before `go`.
fn shake_hands() -> bool {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.trim() {
            "clock" => println!("clock {}", monotonic_ns()),
            "go" => return true,
            _ => {}
        }
    }
    false
}

/// The main function of a connector.
pub fn run<L: Library>(library: L) -> ExitCode {
    let settings = match Settings::read() {
        Ok(settings) => Arc::new(settings),
        Err(reason) => {
            eprintln!("{reason}");
            return USAGE.into();
        }
    };
    if !shake_hands() {
        return USAGE.into();
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).expect("these signals can be caught");
    }
    let (code, received) = match Capture::start::<L>(&settings, &stop) {
        Ok((capture, ring)) => {
            let mut receiver = Receiver::new(library, &settings, Take::new(&settings, &stop, ring));
            let code = receiver.run();
            let counts = receiver.finish();
            (capture.finish(code, counts), counts.received)
        }
        Err(error) => {
            eprintln!("cannot write {}: {error}", settings.capture.display());
            (CAPTURE_ERROR, 0)
        }
    };
    println!("done {code} {received}");
    code.into()
}
