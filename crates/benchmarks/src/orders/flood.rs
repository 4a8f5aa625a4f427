//! The cost of a flooding session for another session, and for itself.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::latencies::{Latencies, median, nanoseconds, ratio, us};
use super::overload::lower_priority;
use super::pairs::one_at_a_time;
use super::session::{BenchSession, BenchTarget, OrderFrames, cancel_all, request};
use crate::BenchProgress;
use pitwire_failure::Failure;

/// Interval between cancels of the flooding session.
const CANCEL_EVERY: Duration = Duration::from_millis(5);

/// Times one quiet session under up to three loads, which alternate: alone; while another session
/// floods the same venue; and, if `elsewhere` is given, while a session floods that other venue on
/// the same machine.
///
/// # Errors
///
/// Returns a failure if a venue cannot be reached or refuses an order.
pub fn measure(
    venue: &BenchTarget,
    elsewhere: Option<&BenchTarget>,
    pairs: u16,
    requests: u32,
    progress: &BenchProgress,
) -> Result<Value, Failure> {
    progress.plan(pairs.into());
    let (mut quiet, mut orders) = (BenchSession::open(venue, 0)?, OrderFrames::new());
    let (mut alone, mut beside, mut other) = (Vec::new(), Vec::new(), Vec::new());
    let (mut answered, mut cancels) = (0, Vec::new());
    for _ in 0..pairs {
        alone.push(one_at_a_time(&mut quiet, &mut orders, requests)?);
        let (latencies, flood) = while_flooded(venue, || one_at_a_time(&mut quiet, &mut orders, requests))?;
        beside.push(latencies);
        answered += flood.answered;
        cancels.push(flood.cancels);
        cancel_all(venue)?;
        if let Some(elsewhere) = elsewhere {
            other.push(while_flooded(elsewhere, || one_at_a_time(&mut quiet, &mut orders, requests))?.0);
            cancel_all(elsewhere)?;
            cancel_all(venue)?;
        }
        progress.add(1);
    }
    let of = |runs: &[Latencies], quantile| median(runs.iter().map(|run| run.at(quantile)).collect());
    let mut figures = json!({
        "pairs": pairs, "requests": requests, "flooding_requests": answered,
        "alone_p50_us": us(of(&alone, 0.5)), "alone_p99_us": us(of(&alone, 0.99)),
        "beside_p50_us": us(of(&beside, 0.5)), "beside_p99_us": us(of(&beside, 0.99)),
        "p50_ratio": ratio(of(&beside, 0.5), of(&alone, 0.5)), "p99_ratio": ratio(of(&beside, 0.99), of(&alone, 0.99)),
        "own_cancel_p50_us": us(of(&cancels, 0.5)), "own_cancel_p99_us": us(of(&cancels, 0.99)),
    });
    if !other.is_empty() {
        figures["elsewhere_p50_us"] = json!(us(of(&other, 0.5)));
        figures["elsewhere_p99_us"] = json!(us(of(&other, 0.99)));
        figures["elsewhere_p99_ratio"] = json!(ratio(of(&other, 0.99), of(&alone, 0.99)));
        figures["p99_over_elsewhere"] = json!(ratio(of(&beside, 0.99), of(&other, 0.99)));
    }
    Ok(figures)
}

/// Result of a flood.
struct FloodResult {
    /// Replies received.
    answered: u64,
    /// Latencies of the flooding session's own cancels. The time starts when the cancel is next to
    /// be written, so it includes the wait for everything written before.
    cancels: Latencies,
}

fn while_flooded<T>(
    venue: &BenchTarget,
    run: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, FloodResult), Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood_until(venue, &is_over));
        let done = run();
        is_over.store(true, Ordering::Release);
        let flood = flooding.join().map_err(|_| Failure::new("the flooding thread panicked"))?;
        Ok((done?, flood?))
    })
}

/// Sends orders as fast as the venue reads them, from one session, with a cancel every 5 ms.
fn flood_until(venue: &BenchTarget, is_over: &AtomicBool) -> Result<FloodResult, Failure> {
    const ORDERS: u64 = 256;
    lower_priority();
    let (mut session, mut orders) = (BenchSession::open(venue, 1)?, OrderFrames::new());
    session.stream.set_nonblocking(true)?;
    let chunk: Vec<u8> = (0..ORDERS).flat_map(|_| orders.next().to_vec()).collect();
    // The order does not exist. The cancel waits as long as any other.
    let cancel = request("private/cancel", r#"{"order_id":"1"}"#);
    let (mut flood, mut asked) = (FloodResult { answered: 0, cancels: Latencies::new() }, 0);
    let (mut out, mut written, mut waiting, mut last) = (&chunk[..], 0, VecDeque::new(), Instant::now());
    asked += ORDERS;
    // Wait for every cancel that was sent: the slow ones at the end of the flood matter most.
    while !is_over.load(Ordering::Acquire) || !waiting.is_empty() {
        match session.stream.write(&out[written..]) {
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        if written == out.len() {
            written = 0;
            if is_over.load(Ordering::Acquire) {
                out = &[];
            } else if last.elapsed() >= CANCEL_EVERY {
                last = Instant::now();
                (out, asked) = (&cancel[..], asked + 1);
                waiting.push_back((asked, last));
            } else {
                (out, asked) = (&chunk[..], asked + ORDERS);
            }
        }
        session.drain(|_| {
            flood.answered += 1;
            if let Some((_, at)) = waiting.pop_front_if(|(place, _)| *place == flood.answered) {
                flood.cancels.record(nanoseconds(at.elapsed()));
            }
        })?;
    }
    Ok(flood)
}
