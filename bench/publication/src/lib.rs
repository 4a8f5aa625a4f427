//! The command line, the messages and the ready file of the Rust peers.
//!
//! Every peer takes these options. `--synthetic RATE` sends every subscriber RATE evenly spaced
//! messages per second, numbered from 1, with the time at which each was due. `--respond KxBYTES`
//! answers each message with K messages of BYTES bytes. `--ready-file` is written once the port is
//! open.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that may wait to be accepted; all peers ask for the same.
const BACKLOG: i32 = 4096;

#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub messages: usize,
    pub bytes: usize,
}

#[derive(Debug, Parser)]
pub struct Options {
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    #[arg(long)]
    pub ready_file: Option<PathBuf>,
    /// Messages a second.
    #[arg(long, value_name = "RATE", conflicts_with = "respond", required_unless_present = "respond")]
    pub synthetic: Option<f64>,
    /// Approximate size of one message, in bytes.
    #[arg(long, default_value_t = 190)]
    pub bytes: usize,
    /// Answer every message with K of BYTES.
    #[arg(long, value_name = "KxBYTES", value_parser = answer)]
    pub respond: Option<Answer>,
}

fn answer(text: &str) -> Result<Answer, String> {
    let (messages, bytes) = text.split_once('x').ok_or("not KxBYTES")?;
    let number = |text: &str| text.parse::<usize>().map_err(|error| error.to_string());
    Ok(Answer { messages: number(messages)?, bytes: number(bytes)? })
}

/// The due times and contents of the messages.
#[derive(Debug)]
pub struct Pace {
    start: Instant,
    start_realtime: Duration,
    rate: f64,
    bytes: usize,
    sent: u64,
}

impl Pace {
    pub fn new(rate: f64, bytes: usize) -> Self {
        let start_realtime = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Pace { start: Instant::now(), start_realtime, rate, bytes, sent: 0 }
    }

    fn after(&self) -> Duration {
        #[allow(clippy::cast_precision_loss)]
        Duration::from_secs_f64((self.sent + 1) as f64 / self.rate)
    }

    /// Returns the time at which the next message is due.
    pub fn due(&self) -> Instant {
        self.start + self.after()
    }

    /// Returns the next message and advances.
    pub fn next_message(&mut self) -> String {
        let due_ns = (self.start_realtime + self.after()).as_nanos();
        self.sent += 1;
        message(self.sent, due_ns, self.bytes)
    }
}

fn message(sequence: u64, due_ns: u128, bytes: usize) -> String {
    let head = format!(r#"{{"seq":{sequence},"ts_ns":{due_ns},"pad":""#);
    let pad = bytes.saturating_sub(head.len() + 2);
    format!("{head}{:x<pad$}\"}}", "")
}

/// Opens the listener. Accepted sockets inherit its options.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    // All servers of the comparison use the same congestion control.
    let _ = socket.set_tcp_congestion(b"cubic");
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Writes the ready file under another name and renames it, so that it is never read half.
pub fn say_ready(path: Option<&Path>, address: SocketAddr) -> std::io::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let unfinished = path.with_extension("unfinished");
    std::fs::write(&unfinished, format!(r#"{{"http":"{address}","pid":{}}}"#, std::process::id()))?;
    std::fs::rename(unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_its_number_its_time_and_the_bytes_asked_for() {
        let text = message(7, 1_234, 60);
        assert_eq!(text, format!(r#"{{"seq":7,"ts_ns":1234,"pad":"{}"}}"#, "x".repeat(29)));
        assert_eq!(text.len(), 60);
    }
}
