//! The message sources of `pitwire publish`.

use std::fs::File;
use std::io::{Read, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pitwire_nats::{MESSAGE_BYTES_MAX, NatsSubscription, ReceiveOutcome};
use pitwire_net::monotonic_ns;
use pitwire_publisher::{Ingest, SyntheticSource};
use pitwire_recorder::recording::RecordingReader;

use pitwire_failure::Failure;

/// Largest line of standard input, in bytes. A message from NATS has the same limit.
const LINE_MOST: usize = MESSAGE_BYTES_MAX;
const READ_BYTES: usize = 64 * 1024;
/// Maximum time until a source notices that it has to stop.
const GLANCE: Duration = Duration::from_millis(100);
/// Messages from NATS that may wait for this process before the client library drops new ones.
pub const NATS_CAPACITY: usize = 65_536;
const NO_ROOM: Duration = Duration::from_micros(500);

pub enum Source {
    Lines,
    Tape {
        reader: Box<RecordingReader<File>>,
        speed: f64,
    },
    Nats {
        subscription: Box<NatsSubscription>,
    },
    Synthetic {
        rate: f64,
        bytes: usize,
    },
    /// Readers get answers, not messages.
    Nothing,
}

impl Source {
    /// Returns a flag that is true while the source is unreachable.
    pub fn is_away(&self) -> Arc<AtomicBool> {
        match self {
            Source::Nats { subscription } => subscription.link().down_flag(),
            _ => Arc::default(),
        }
    }

    /// Publishes messages until the source ends or `stop` is set.
    ///
    /// # Errors
    /// If the source cannot be read or has a malformed message.
    pub fn run(self, ingest: &mut Ingest, stop: &AtomicBool) -> Result<(), Failure> {
        match self {
            Source::Lines => lines(ingest, stop),
            Source::Tape { reader, speed } => tape(*reader, speed, ingest, stop),
            Source::Nats { subscription } => {
                nats(*subscription, ingest, stop);
                Ok(())
            }
            Source::Synthetic { rate, bytes } => synthetic(rate, bytes, ingest, stop),
            Source::Nothing => {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(GLANCE);
                }
                Ok(())
            }
        }
    }
}

/// Waits until the delivery threads have room. The publisher itself never waits, but a file can be
/// read later.
fn wait_for_room(ingest: &Ingest, stop: &AtomicBool) {
    while !ingest.has_room() && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(NO_ROOM);
    }
}

/// Publishes what arrives from NATS until `stop` is set. Messages that arrive together are sent
/// together. A payload that is not UTF-8 goes out as a binary message. A payload above 16 MiB is
/// refused and counted.
fn nats(mut subscription: NatsSubscription, ingest: &mut Ingest, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let received = subscription.receive(GLANCE, |subject, payload| {
            if payload.len() > MESSAGE_BYTES_MAX {
                ingest.refuse_large(payload.len(), MESSAGE_BYTES_MAX);
            } else {
                ingest.take(Some(subject), payload, std::str::from_utf8(payload).is_err());
            }
        });
        if received == ReceiveOutcome::Messages {
            ingest.flush();
        }
    }
}

fn lines(ingest: &mut Ingest, stop: &AtomicBool) -> Result<(), Failure> {
    let (mut input, mut kept, mut bytes) = (stdin().lock(), Vec::new(), vec![0; READ_BYTES]);
    while !stop.load(Ordering::Relaxed) {
        let count = match input.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::new(format!("cannot read standard input: {error}"))),
        };
        kept.extend_from_slice(&bytes[..count]);
        let whole = kept.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        for line in kept[..whole].split_inclusive(|byte| *byte == b'\n') {
            take_line(ingest, line)?;
        }
        kept.drain(..whole);
        if kept.len() > LINE_MOST {
            return Err(
                Failure::new("a line of standard input is above 16 MiB").remedy("end each message with a newline")
            );
        }
        ingest.flush();
        wait_for_room(ingest, stop);
    }
    take_line(ingest, &kept)
}

fn take_line(ingest: &mut Ingest, line: &[u8]) -> Result<(), Failure> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if std::str::from_utf8(line).is_err() {
        return Err(Failure::new(format!("message {} of standard input is not UTF-8", ingest.messages() + 1))
            .remedy("a WebSocket's text must be; write the bytes in base64 or JSON"));
    }
    if !line.is_empty() {
        ingest.take(None, line, false);
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn tape(mut reader: RecordingReader<File>, speed: f64, ingest: &mut Ingest, stop: &AtomicBool) -> Result<(), Failure> {
    let start_ns = monotonic_ns();
    while !stop.load(Ordering::Relaxed) {
        let due = reader.peek_ns().map_err(damaged)?;
        let Some(after_ns) = due else { return Ok(()) };
        if speed > 0.0 {
            sleep_until(start_ns + (after_ns as f64 / speed) as u64, ingest, stop);
        }
        let Some((_, is_binary, payload)) = reader.next_message().map_err(damaged)? else { return Ok(()) };
        let is_text = !is_binary && std::str::from_utf8(payload).is_ok();
        ingest.take(None, payload, !is_text);
        wait_for_room(ingest, stop);
    }
    Ok(())
}

fn damaged(error: pitwire_recorder::recording::RecordingError) -> Failure {
    Failure::new(format!("the recording is damaged at {error}")).remedy("record it again, or cut the file before that")
}

/// Sleeps until `due_ns`. Before it sleeps, it sends the collected messages.
fn sleep_until(due_ns: u64, ingest: &mut Ingest, stop: &AtomicBool) {
    if due_ns <= monotonic_ns() {
        return;
    }
    ingest.flush();
    loop {
        let left = Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()));
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(GLANCE));
    }
}

fn synthetic(rate: f64, bytes: usize, ingest: &mut Ingest, stop: &AtomicBool) -> Result<(), Failure> {
    // Without this, the default timer slack delays every message by up to 50 microseconds.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut messages = SyntheticSource::new(rate, bytes, monotonic_ns(), u64::try_from(now.as_nanos()).unwrap_or(0));
    let mut text = Vec::with_capacity(bytes + 64);
    while !stop.load(Ordering::Relaxed) {
        sleep_until(messages.due_ns(), ingest, stop);
        text.clear();
        messages.next(&mut text);
        ingest.take_for_all(&text);
    }
    Ok(())
}
