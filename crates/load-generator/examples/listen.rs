//! Listens on a URL, to measure without the whole program: `listen URL CONNECTIONS SECONDS
//! THREADS`.

use std::net::ToSocketAddrs;
use std::time::Duration;

use pitwire_load_generator::{Address, LoadPlan, MeasurementStart, RunControl, RunError, raise_file_limit, run};

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, connections, seconds, threads] = words.as_slice() else {
        return Err("listen URL CONNECTIONS SECONDS THREADS".into());
    };
    let number = |text: &str| text.parse::<u32>().map_err(|error| format!("{text}: {error}"));
    let address = Address::parse(url).map_err(|error| error.to_string())?;
    let mut servers = (address.host.as_str(), address.port).to_socket_addrs().map_err(|error| error.to_string())?;
    raise_file_limit();
    let server = servers.next().ok_or("no address")?;
    let duration = Duration::from_secs(u64::from(number(seconds)?));
    let plan = LoadPlan {
        threads: number(threads)? as usize,
        ..LoadPlan::listening(address, server, number(connections)?, duration)
    };
    let report =
        run(&plan, &RunControl::default(), MeasurementStart::WhenOpen, |_| {}).map_err(|error| match error {
            RunError::NothingOpened(refusal) => refusal.to_string(),
            RunError::Machine(cause) => cause,
        })?;
    let (counters, generator) = (&report.counters, &report.generator);
    println!(
        "{} deliveries, {} late, {} lost; p50 {:?} p99 {:?} us; {} reads; {} ns CPU a delivery, busy {:.2}, waiting {:.2}",
        counters.deliveries,
        counters.late,
        counters.lost,
        report.latencies.percentile_us(50.0),
        report.latencies.percentile_us(99.0),
        counters.reads,
        generator.cpu_ns / counters.deliveries.max(1),
        generator.busy,
        generator.waiting
    );
    Ok(())
}
