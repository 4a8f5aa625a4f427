//! A connector of the latency laboratory with our own receive path, by contracts/lab-connector.md.

mod capture;
mod connect;
mod event;
mod receive;

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capture::Capture;
use receive::Receiver;

pub const DONE: u8 = 0;
pub const USAGE: u8 = 2;
pub const REMOTE_CLOSE: u8 = 3;
pub const CONNECT_FAILURE: u8 = 4;
pub const PROTOCOL_ERROR: u8 = 5;
pub const CAPTURE_ERROR: u8 = 6;

/// The settings of the environment.
pub struct Settings {
    pub url: String,
    pub subscribe: String,
    pub capture: PathBuf,
    pub schema: PathBuf,
    pub exit_file: PathBuf,
    /// Names of the run, the connector and the exchange.
    pub names: [String; 3],
    pub has_envelope: bool,
    pub keeps_payload: bool,
    pub reconnects: bool,
    pub busy_wait_ns: i64,
}

impl Settings {
    fn read() -> Result<Self, String> {
        let get = |name: &str| std::env::var(name).map_err(|_| format!("the environment has no {name}"));
        let busy_wait = std::env::var("LAB_BUSY_WAIT_NS").unwrap_or_default();
        let busy_wait = if busy_wait.is_empty() { "0" } else { &busy_wait };
        Ok(Settings {
            url: get("LAB_URL")?,
            subscribe: std::env::var("LAB_SUBSCRIBE").unwrap_or_default(),
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

fn main() -> ExitCode {
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
    let (code, received) = match Capture::start(&settings, &stop) {
        Ok((capture, ring)) => {
            let mut receiver = Receiver::new(&settings, &stop, ring);
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
