//! More than the venue can do: how much still gets through, and how long a cancel takes.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Orders, Session, cancel_all, request};
use super::figures::{Latencies, ratio};
use super::open_loop::{Load, nanoseconds, ramp, run};
use pitwire_failure::Failure;

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
pub fn give_way() {
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
