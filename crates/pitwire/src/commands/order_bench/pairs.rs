//! One order at a time, beside the floor of this machine: pair after pair, so that both see the same weather.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::client::{Orders, Session, cancel_all};
use super::echo::{Echo, stay_on};
use super::figures::{Latencies, median, ratio, us};
use super::open_loop::nanoseconds;
use pitwire_failure::Failure;

#[derive(Clone, Copy)]
pub struct Pairs {
    pub count: u16,
    pub requests: u32,
    /// The client's and its peer's; where the venue runs is for its starter to say.
    pub cores: Option<(usize, usize)>,
}

pub fn measure(venue: SocketAddr, pairs: Pairs, sync: Option<&Path>) -> Result<Value, Failure> {
    let Pairs { count, requests, cores } = pairs;
    let echo = Echo::start(cores.map(|(_, peer)| peer))?;
    cores.map(|(client, _)| stay_on(client)).transpose()?;
    let (mut session, mut orders) = (Session::open(venue, 0)?, Orders::new());
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

pub fn one_at_a_time(session: &mut Session, orders: &mut Orders, count: u32) -> Result<Latencies, Failure> {
    use std::io::Write;
    let mut latencies = Latencies::new();
    for number in 0..count + count / 10 {
        let started = Instant::now();
        session.stream.write_all(orders.next())?;
        let accepted = super::client::is_result(session.reply()?);
        let took = nanoseconds(started.elapsed());
        if !accepted {
            return Err(Failure::new("the venue refuses orders").remedy("give a fresh venue without flow"));
        }
        // The first tenth warms up.
        if number >= count / 10 {
            latencies.record(took);
        }
    }
    Ok(latencies)
}

/// What a commit cannot do without: one write of 4 KiB into a file of settled size, and one sync of its data.
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
