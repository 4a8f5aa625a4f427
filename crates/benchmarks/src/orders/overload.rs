//! More load than the venue can handle: how much it still accepts, and how long a cancel takes.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::latencies::{Latencies, nanoseconds, ratio};
use super::open_loop::{Load, ramp, run};
use super::session::{BenchSession, BenchTarget, OrderFrames, cancel_all, request};
use crate::BenchProgress;
use pitwire_failure::Failure;

/// Interval between the cancels of a separate session during the overload.
const CANCEL_EVERY: Duration = Duration::from_millis(5);
/// Multiples of the saturation rate at which the venue is loaded.
const MULTIPLES: [u32; 3] = [1, 2, 10];

/// Finds the saturation rate, then loads the venue with one, two and ten times that rate.
///
/// # Errors
///
/// Returns a failure if the venue cannot be reached or closes a connection.
pub fn measure(venue: &BenchTarget, load: &Load, progress: &BenchProgress) -> Result<Value, Failure> {
    let ramped = ramp(venue, load, progress)?;
    progress.plan(MULTIPLES.len() as u64 * load.steps());
    let best = ramped["saturates_at_per_s"].as_u64().and_then(|best| u32::try_from(best).ok()).unwrap_or(load.rate);
    let mut figures = json!({ "saturates_at_per_s": best });
    for times in MULTIPLES {
        let load = Load { rate: best.saturating_mul(times), ..*load };
        let ((accepted, refused), cancels) = with_cancels(venue, || {
            let outcome = run(venue, &load, false, progress)?;
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

/// Lowers the priority of the loading thread below that of the measuring one. The venue must be
/// fair between sessions, not the scheduler of the shared machine.
pub fn lower_priority() {
    // If it fails, the figures are only worse.
    let _ = rustix::process::nice(15);
}

fn with_cancels<T: Send>(
    venue: &BenchTarget,
    load: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<(T, Latencies), Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| {
            lower_priority();
            let done = load();
            is_over.store(true, Ordering::Release);
            done
        });
        let cancels = cancel_until(venue, &is_over);
        let done = loading.join().map_err(|_| Failure::new("the loading thread panicked"))??;
        Ok((done, cancels?))
    })
}

fn cancel_until(venue: &BenchTarget, is_over: &AtomicBool) -> Result<Latencies, Failure> {
    let (mut session, mut orders, mut latencies) =
        (BenchSession::open(venue, 1)?, OrderFrames::new(), Latencies::new());
    while !is_over.load(Ordering::Acquire) {
        session.stream.write_all(orders.next())?;
        let reply = String::from_utf8_lossy(session.reply()?).into_owned();
        // An order that was refused leaves nothing to cancel.
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
