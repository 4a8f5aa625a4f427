//! One order at a time, compared with a TCP ping-pong on the same machine. The two alternate, so
//! that both see the same load of the machine.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::echo::{Echo, bind_to_core};
use super::latencies::{Latencies, median, nanoseconds, ratio, us};
use super::session::{BenchSession, BenchTarget, OrderFrames, cancel_all};
use crate::BenchProgress;
use pitwire_failure::Failure;

/// Size of the measurement.
pub struct Pairs {
    /// Number of pairs.
    pub count: u16,
    /// Requests in each half of a pair.
    pub requests: u32,
    /// Core of the client and core of the echo process. The caller places the venue.
    pub cores: Option<(usize, usize)>,
    /// Command that starts the echo process, see [`super::echo::serve`].
    pub echo: Command,
}

/// Measures all pairs; with `sync` also the sync of 4 KiB in that directory.
///
/// # Errors
///
/// Returns a failure if the venue cannot be reached or refuses an order, or if the directory is not
/// writable.
pub fn measure(
    venue: &BenchTarget,
    pairs: Pairs,
    sync: Option<&Path>,
    progress: &BenchProgress,
) -> Result<Value, Failure> {
    let Pairs { count, requests, cores, echo } = pairs;
    progress.plan(count.into());
    let echo = Echo::start(echo, cores.map(|(_, peer)| peer))?;
    cores.map(|(client, _)| bind_to_core(client)).transpose()?;
    let (mut session, mut orders) = (BenchSession::open(venue, 0)?, OrderFrames::new());
    let request = orders.next().len();
    let reply = session.ask(orders.next())?.len() + 4;
    let disk = sync.map(SyncProbe::new).transpose()?;
    let (mut tcp, mut order, mut synced) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        tcp.push(echo.ping_pong(request, reply, requests)?);
        order.push(one_at_a_time(&mut session, &mut orders, requests)?);
        if let Some(disk) = &disk {
            synced.push(disk.run(requests.min(500))?);
        }
        progress.add(1);
    }
    cancel_all(venue)?;
    let of = |runs: &[Latencies], quantile| median(runs.iter().map(|run| run.at(quantile)).collect());
    let mut figures = json!({
        "pairs": count, "requests": requests, "request_bytes": request, "reply_bytes": reply,
        "tcp_p50_us": us(of(&tcp, 0.5)), "tcp_p99_us": us(of(&tcp, 0.99)),
        "order_p50_us": us(of(&order, 0.5)), "order_p99_us": us(of(&order, 0.99)),
        "p50_ratio": ratio(of(&order, 0.5), of(&tcp, 0.5)), "p99_ratio": ratio(of(&order, 0.99), of(&tcp, 0.99)),
    });
    if !synced.is_empty() {
        figures["sync_p50_us"] = json!(us(of(&synced, 0.5)));
        figures["sync_p99_us"] = json!(us(of(&synced, 0.99)));
    }
    Ok(figures)
}

/// Times `count` orders, each sent after the reply to the one before.
///
/// # Errors
///
/// Returns a failure if the venue refuses an order.
pub fn one_at_a_time(session: &mut BenchSession, orders: &mut OrderFrames, count: u32) -> Result<Latencies, Failure> {
    use std::io::Write;
    let mut latencies = Latencies::new();
    for number in 0..count + count / 10 {
        let started = Instant::now();
        session.stream.write_all(orders.next())?;
        let reply = session.reply()?;
        let took = nanoseconds(started.elapsed());
        if !super::session::is_result(reply) {
            let reason = String::from_utf8_lossy(reply);
            return Err(
                Failure::new(format!("the venue refused an order: {reason}")).remedy("give a fresh venue without flow")
            );
        }
        // The first tenth is warm-up.
        if number >= count / 10 {
            latencies.record(took);
        }
    }
    Ok(latencies)
}

/// The least that a commit needs: one write of 4 KiB into a file of fixed size, and one sync of its
/// data.
struct SyncProbe {
    file: File,
    path: std::path::PathBuf,
}

const BLOCK: usize = 4096;
const BLOCKS: u64 = 1024;

impl SyncProbe {
    fn new(directory: &Path) -> Result<SyncProbe, Failure> {
        let path = directory.join(format!("order-bench-{}.tmp", std::process::id()));
        let file = File::create(&path).map_err(|error| {
            Failure::new(format!("cannot write {}: {error}", path.display())).remedy("check --sync")
        })?;
        for block in 0..BLOCKS {
            file.write_all_at(&[0; BLOCK], block * BLOCK as u64)?;
        }
        file.sync_all()?;
        Ok(SyncProbe { file, path })
    }

    fn run(&self, count: u32) -> Result<Latencies, Failure> {
        let mut latencies = Latencies::new();
        for number in 0..u64::from(count) {
            let started = Instant::now();
            self.file.write_all_at(&[0x5A; BLOCK], number % BLOCKS * BLOCK as u64)?;
            self.file.sync_data()?;
            latencies.record(nanoseconds(started.elapsed()));
        }
        Ok(latencies)
    }
}

impl Drop for SyncProbe {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.path));
    }
}
