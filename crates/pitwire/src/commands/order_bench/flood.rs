//! One session floods: what it costs another, and the flooding one itself.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Orders, Session, cancel_all, request};
use super::figures::{Latencies, median, ratio, us};
use super::open_loop::nanoseconds;
use super::overload::give_way;
use super::pairs::one_at_a_time;
use pitwire_failure::Failure;

/// The flood asks for a cancel of its own so often.
const CANCEL_EVERY: Duration = Duration::from_millis(5);

/// One quiet session alone, beside one that floods its venue, and beside one that floods another, in turns.
pub fn measure(venue: SocketAddr, elsewhere: Option<SocketAddr>, pairs: u16, requests: u32) -> Result<Value, Failure> {
    let (mut quiet, mut orders) = (Session::open(venue, 0)?, Orders::new());
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

/// What came of a flood.
struct Flood {
    answered: u64,
    /// Of its own cancels, from when they were next to be written: they wait for what was written before them.
    cancels: Latencies,
}

fn while_flooded<T>(venue: SocketAddr, run: impl FnOnce() -> Result<T, Failure>) -> Result<(T, Flood), Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flood_until(venue, &is_over));
        let done = run();
        is_over.store(true, Ordering::Release);
        let flood = flooding.join().map_err(|_| Failure::new("the flood ended by a mistake of its own"))?;
        Ok((done?, flood?))
    })
}

/// As many orders as the venue takes off the wire, from one session, and a cancel now and then.
fn flood_until(venue: SocketAddr, is_over: &AtomicBool) -> Result<Flood, Failure> {
    const ORDERS: u64 = 256;
    give_way();
    let (mut session, mut orders) = (Session::open(venue, 1)?, Orders::new());
    session.stream.set_nonblocking(true)?;
    let chunk: Vec<u8> = (0..ORDERS).flat_map(|_| orders.next().to_vec()).collect();
    // Of no order there is: what it waits for is the same.
    let cancel = request("private/cancel", r#"{"order_id":"1"}"#);
    let (mut flood, mut asked) = (Flood { answered: 0, cancels: Latencies::new() }, 0);
    let (mut out, mut written, mut waiting, mut last) = (&chunk[..], 0, VecDeque::new(), Instant::now());
    asked += ORDERS;
    // What was asked for is waited for: a cancel far back in the flood is what this is to find.
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
