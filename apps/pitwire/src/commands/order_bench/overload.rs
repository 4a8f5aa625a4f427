//! More than the venue can do: how much still gets through, and who suffers.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Orders, Session, cancel_all, request};
use super::figures::{Latencies, median, ratio, us};
use super::open_loop::{Load, nanoseconds, ramp, run};
use super::pairs::one_at_a_time;
use crate::failure::Failure;

/// A cancel every so often from a session of its own, while others send too much.
const CANCEL_EVERY: Duration = Duration::from_millis(5);

pub fn measure(venue: SocketAddr, load: &Load) -> Result<Value, Failure> {
    let ramped = ramp(venue, load)?;
    let best = ramped["saturates_at_per_s"].as_u64().and_then(|best| u32::try_from(best).ok()).unwrap_or(load.rate);
    let mut figures = json!({ "saturates_at_per_s": best });
    for times in [1, 2, 10] {
        let load = Load { rate: best.saturating_mul(times), ..*load };
        let ((accepted, refused), cancels) = with_cancels(venue, || {
            let outcome = run(venue, &load, false)?;
            Ok((outcome.accepted_per_second(), outcome.refused))
        })?;
        cancel_all(venue)?;
        figures[format!("at_{times}x")] = json!({
            "due_per_s": load.rate, "accepted_per_s": accepted, "refused": refused,
            "goodput": ratio(accepted, u64::from(best)), "cancels": cancels.figures(),
        });
    }
    Ok(figures)
}

/// The load gives way to whoever measures: it is the venue that must be fair, not the one machine they share.
fn give_way() {
    // Without it the figures are only worse.
    let _ = rustix::process::nice(15);
}

fn with_cancels<T: Send>(
    venue: SocketAddr,
    load: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<(T, Latencies), Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| {
            give_way();
            let done = load();
            is_over.store(true, Ordering::Release);
            done
        });
        let cancels = cancel_until(venue, &is_over);
        let done = loading.join().map_err(|_| Failure::new("the load ended by a mistake of its own"))??;
        Ok((done, cancels?))
    })
}

fn cancel_until(venue: SocketAddr, is_over: &AtomicBool) -> Result<Latencies, Failure> {
    let (mut session, mut orders, mut latencies) = (Session::open(venue, 1)?, Orders::new(), Latencies::new());
    while !is_over.load(Ordering::Acquire) {
        session.stream.write_all(orders.next())?;
        let reply = String::from_utf8_lossy(session.reply()?).into_owned();
        // An order that is refused under load leaves nothing to cancel.
        if let Some(id) = reply.split_once("\"order_id\":\"").and_then(|(_, rest)| rest.split_once('"')) {
            let cancel = request("private/cancel", &format!(r#"{{"order_id":"{}"}}"#, id.0));
            let started = Instant::now();
            session.ask(&cancel)?;
            latencies.record(nanoseconds(started.elapsed()));
        }
        std::thread::sleep(CANCEL_EVERY);
    }
    Ok(latencies)
}

/// One quiet session, alone and beside one that floods, in turns.
pub fn flood(venue: SocketAddr, pairs: u16, requests: u32) -> Result<Value, Failure> {
    let (mut quiet, mut orders) = (Session::open(venue, 0)?, Orders::new());
    let (mut alone, mut beside, mut flooded) = (Vec::new(), Vec::new(), 0);
    for _ in 0..pairs {
        alone.push(one_at_a_time(&mut quiet, &mut orders, requests)?);
        let is_over = AtomicBool::new(false);
        let (latencies, sent) = std::thread::scope(|scope| {
            let flooding = scope.spawn(|| flood_until(venue, &is_over));
            let latencies = one_at_a_time(&mut quiet, &mut orders, requests);
            is_over.store(true, Ordering::Release);
            let sent = flooding.join().map_err(|_| Failure::new("the flood ended by a mistake of its own"))?;
            Ok::<_, Failure>((latencies?, sent?))
        })?;
        beside.push(latencies);
        flooded += sent;
        cancel_all(venue)?;
    }
    let of = |runs: &[Latencies], quantile| median(runs.iter().map(|run| run.at(quantile)).collect());
    Ok(json!({
        "pairs": pairs, "requests": requests, "flooding_requests": flooded,
        "alone_p50_us": us(of(&alone, 0.5)), "alone_p99_us": us(of(&alone, 0.99)),
        "beside_p50_us": us(of(&beside, 0.5)), "beside_p99_us": us(of(&beside, 0.99)),
        "p50_ratio": ratio(of(&beside, 0.5), of(&alone, 0.5)), "p99_ratio": ratio(of(&beside, 0.99), of(&alone, 0.99)),
    }))
}

/// As many orders as the venue takes off the wire, from one session.
fn flood_until(venue: SocketAddr, is_over: &AtomicBool) -> Result<u64, Failure> {
    give_way();
    let (mut session, mut orders) = (Session::open(venue, 1)?, Orders::new());
    session.stream.set_nonblocking(true)?;
    let chunk: Vec<u8> = (0..256).flat_map(|_| orders.next().to_vec()).collect();
    let (mut written, mut heard) = (0, 0);
    while !is_over.load(Ordering::Acquire) {
        match session.stream.write(&chunk[written..]) {
            Ok(bytes) => written = (written + bytes) % chunk.len(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        session.drain(|_| heard += 1)?;
    }
    Ok(heard)
}
