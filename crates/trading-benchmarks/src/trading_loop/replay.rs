//! A recorded book, replayed over one connection as fast as the client reads it.
//!
//! Start at    [`replay`].

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_client::{Error, OrderBook, Reconnect, Settings, SubscriptionEvent, VenueConnection};
use pitwire_failure::Failure;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tungstenite::Message;

use super::market_data::BookRecording;
use crate::cost::{AllocationCounter, Cost, CostMeter};

/// Bound of the client's queue, so that a burst loses no message.
const QUEUE_BYTES: usize = 256 << 20;
/// One update in this many is timed by itself, because reading the clock costs as much as a part of
/// an update.
const TIMED_EVERY: u64 = 16;

/// The result of a replay.
pub struct ReplayedUpdates {
    /// Time to apply one update to the book.
    pub latencies: Latencies,
    pub updates_per_second: f64,
    /// Per update: from the socket to the changed book.
    pub cost: Cost,
}

/// Sends the recording again and again to a separate client, at least `updates` messages.
///
/// # Errors
///
/// Fails if the client does not get every message.
pub async fn replay(
    recording: &BookRecording,
    updates: u64,
    counter: AllocationCounter,
) -> Result<ReplayedUpdates, Failure> {
    let per_cycle = recording.messages.len() as u64;
    let cycles = updates.div_ceil(per_cycle).max(1);
    let (address, server) = serve(recording, cycles)?;
    let settings = Settings {
        reconnect: Reconnect::Never,
        heartbeat: None,
        queue_bytes: QUEUE_BYTES,
        ..Settings::new(format!("ws://{address}/"))
    };
    let connection = VenueConnection::open(settings).await?;
    // The server sends at once, so the measurement begins before the subscription.
    let before = connection.traffic();
    let (started, meter) = (Instant::now(), CostMeter::start(counter));
    let mut subscription = connection.subscribe(&recording.channel).await?;
    let (mut book, mut latencies) = (OrderBook::default(), Latencies::new());
    let count = cycles * per_cycle;
    for number in 0..count {
        let SubscriptionEvent::Notice(notice) = subscription.next().await else {
            return Err(Failure::new("the client lost replayed messages").remedy("replay fewer, with --updates"));
        };
        let is_timed = number % TIMED_EVERY == 0;
        let begun = is_timed.then(Instant::now);
        book.apply(&notice.data).map_err(|fault| Error::Garbled { what: fault.to_string() })?;
        if let Some(begun) = begun {
            latencies.record(nanoseconds(begun.elapsed()));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let mut cost = meter.stop(count);
    let after = connection.traffic();
    cost.sent_bytes = after.sent_bytes - before.sent_bytes;
    cost.received_bytes = after.received_bytes - before.received_bytes;
    let mut state = connection.state();
    drop((subscription, connection));
    // The server ends when the connection is closed.
    while state.changed().await.is_ok() {}
    let server_cpu_s = server.join().map_err(|_| Failure::new("the replay server failed"))??;
    cost.cpu_s -= server_cpu_s;
    #[allow(clippy::cast_precision_loss)]
    Ok(ReplayedUpdates { latencies, updates_per_second: count as f64 / seconds, cost })
}

/// Starts a server on loopback for one client. Its thread returns the CPU time of sending, in
/// seconds.
fn serve(recording: &BookRecording, cycles: u64) -> io::Result<(SocketAddr, JoinHandle<io::Result<f64>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let channel = recording.channel.clone();
    let mut cycle = Vec::new();
    for data in &recording.messages {
        let params = json!({"channel": channel, "data": data});
        let text = json!({"jsonrpc": "2.0", "method": "subscription", "params": params}).to_string();
        append_frame(&mut cycle, text.as_bytes());
    }
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        let mut socket = tungstenite::accept(stream).map_err(|error| io::Error::other(error.to_string()))?;
        let request = socket.read().map_err(io::Error::other)?;
        let request: serde_json::Value = serde_json::from_slice(&request.into_data()).map_err(io::Error::other)?;
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": [channel]});
        socket.send(Message::text(answer.to_string())).map_err(io::Error::other)?;
        let before_s = thread_cpu_seconds();
        let stream: &mut TcpStream = socket.get_mut();
        for _ in 0..cycles {
            stream.write_all(&cycle)?;
        }
        let spent_s = thread_cpu_seconds() - before_s;
        // The client closes the connection when it has read everything.
        while socket.read().is_ok() {}
        Ok(spent_s)
    });
    Ok((address, server))
}

/// Appends a text frame of a server, which has no mask.
fn append_frame(out: &mut Vec<u8>, text: &[u8]) {
    out.push(0x81);
    match (u8::try_from(text.len()), u16::try_from(text.len())) {
        (Ok(length @ 0..=125), _) => out.push(length),
        (_, Ok(length)) => {
            out.push(126);
            out.extend_from_slice(&length.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(text.len() as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(text);
}

#[allow(clippy::cast_precision_loss)]
fn thread_cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    const NO_COUNTER: AllocationCounter = AllocationCounter { start: || {}, read: || (0, 0) };

    #[tokio::test]
    async fn every_message_of_every_cycle_is_applied() {
        let raw = |text: &str| RawValue::from_string(text.into()).unwrap();
        // The long message needs a frame with an extended length.
        let long = "1".repeat(70_000);
        let messages = vec![
            raw(r#"{"type":"snapshot","change_id":5,"bids":[["new",10,1]],"asks":[]}"#),
            raw(r#"{"type":"change","prev_change_id":5,"change_id":6,"bids":[["delete",10,0]],"asks":[]}"#),
            raw(&format!(r#"{{"prev_change_id":6,"change_id":7,"bids":[],"asks":[],"note":"{long}"}}"#)),
        ];
        let recording = BookRecording { channel: "book.X.raw".into(), messages, latencies: Latencies::new() };
        let replayed = replay(&recording, 100, NO_COUNTER).await.unwrap();
        assert_eq!(replayed.cost.operations, 102);
        assert_eq!(replayed.latencies.histogram().len(), 7);
        assert!(replayed.cost.received_bytes > 34 * 70_000 && replayed.updates_per_second > 0.0);
    }
}
