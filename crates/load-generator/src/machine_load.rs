//! How busy the server and the machine were while a run measured.
//!
//! Does        finds the processes that listen at the server's address, and reads the time that
//!             their threads ran or waited for a processor; reads the use of all processors.
//! Leaves out  a server on another machine, or of another user: its use cannot be read.
//! Start at    [`MachineProbe`].

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock::mono_ns;

/// State of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// Use of processors while measuring. `None`: it could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// Part of the time that all processors of the machine were in use, from 0 to 1.
    pub machine_busy: Option<f64>,
    /// Part of the time that the busiest thread of the server ran or waited for a processor, from
    /// 0 to 1.
    pub server_busy: Option<f64>,
    /// CPU time of all threads of the server, in nanoseconds.
    pub server_cpu_ns: Option<u64>,
}

impl MachineLoad {
    /// Takes the larger value of each, because several processes of one run read the same machine.
    pub fn merge(&mut self, other: MachineLoad) {
        let larger = |mine: Option<f64>, theirs: Option<f64>| match (mine, theirs) {
            (Some(mine), Some(theirs)) => Some(mine.max(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.machine_busy = larger(self.machine_busy, other.machine_busy);
        self.server_busy = larger(self.server_busy, other.server_busy);
        self.server_cpu_ns = self.server_cpu_ns.max(other.server_cpu_ns);
    }
}

/// Reads the use of processors at the start and at the end of a measurement.
pub struct MachineProbe {
    /// Process ids of the server; empty if it cannot be read from here.
    server: Vec<u32>,
    at_start: Option<CounterReading>,
    load: Option<MachineLoad>,
}

/// The counters at one time.
struct CounterReading {
    at_ns: i64,
    processors: Option<ProcessorTime>,
    threads: BTreeMap<(u32, u32), ThreadTime>,
}

/// Time of all processors since the start of the machine, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ProcessorTime {
    idle: u64,
    total: u64,
}

/// Time that a thread ran, and that it waited for a processor, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadTime {
    ran_ns: u64,
    waited_ns: u64,
}

impl MachineProbe {
    /// Finds the processes that listen at `server`. The caller calls this before it opens
    /// connections, while the server has few open files.
    pub fn new(server: SocketAddr) -> Self {
        MachineProbe { server: listening_processes(server), at_start: None, load: None }
    }

    /// Begins the measurement. Later calls have no effect.
    pub fn start(&mut self) {
        if self.at_start.is_none() {
            self.at_start = Some(CounterReading::now(&self.server));
        }
    }

    /// Ends the measurement. Later calls have no effect.
    pub fn finish(&mut self) {
        if self.load.is_none()
            && let Some(at_start) = &self.at_start
        {
            self.load = Some(CounterReading::now(&self.server).since(at_start));
        }
    }

    /// Returns the use between the start and the end.
    pub fn load(mut self) -> MachineLoad {
        self.finish();
        self.load.unwrap_or_default()
    }
}

impl CounterReading {
    fn now(server: &[u32]) -> Self {
        let processors = fs::read_to_string("/proc/stat").ok().and_then(|text| processor_time(&text));
        let threads = server.iter().flat_map(|process| threads_of(*process)).collect();
        CounterReading { at_ns: mono_ns(), processors, threads }
    }

    #[allow(clippy::cast_precision_loss)]
    fn since(&self, before: &CounterReading) -> MachineLoad {
        let passed_ns = (self.at_ns - before.at_ns).max(1) as f64;
        let machine_busy = self.processors.zip(before.processors).and_then(|(now, before)| now.busy_since(before));
        // A thread that began later is absent in the reading before.
        let used = self.threads.iter().map(|(id, now)| {
            let before = before.threads.get(id).copied().unwrap_or_default();
            (now.ran_ns.saturating_sub(before.ran_ns), now.waited_ns.saturating_sub(before.waited_ns))
        });
        let used: Vec<(u64, u64)> = used.collect();
        let busiest_ns = used.iter().map(|(ran, waited)| ran + waited).max();
        MachineLoad {
            machine_busy,
            server_busy: busiest_ns.map(|ns| (ns as f64 / passed_ns).min(1.0)),
            server_cpu_ns: (!used.is_empty()).then(|| used.iter().map(|(ran, _)| ran).sum()),
        }
    }
}

impl ProcessorTime {
    #[allow(clippy::cast_precision_loss)]
    fn busy_since(self, before: ProcessorTime) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|total| *total > 0)?;
        Some(1.0 - (self.idle.saturating_sub(before.idle) as f64 / total as f64).min(1.0))
    }
}

/// Reads the first line of `/proc/stat`: times in user mode, at low priority, in the kernel, idle,
/// waiting for a disk, and others. Waiting for a disk counts as idle.
fn processor_time(text: &str) -> Option<ProcessorTime> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // The time of guests is part of the time in user mode, so only eight fields are added.
    let total = ticks.iter().take(8).sum();
    Some(ProcessorTime { idle: ticks.get(3)?.saturating_add(*ticks.get(4)?), total })
}

fn threads_of(process: u32) -> Vec<((u32, u32), ThreadTime)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let threads = entries.flatten().filter_map(|entry| {
        let thread = entry.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(entry.path().join("schedstat")).ok()?;
        let mut fields = text.split_whitespace().map_while(|field| field.parse().ok());
        Some(((process, thread), ThreadTime { ran_ns: fields.next()?, waited_ns: fields.next()? }))
    });
    threads.collect()
}

/// Returns the processes that listen at an address of this machine. Returns none if the address
/// belongs to another machine, or to this process itself.
fn listening_processes(server: SocketAddr) -> Vec<u32> {
    let is_here = server.ip().is_loopback() || UdpSocket::bind((server.ip(), 0)).is_ok();
    if !is_here {
        return Vec::new();
    }
    let mut sockets = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        sockets.extend(listening_sockets(&text, server).into_iter().map(|inode| format!("socket:[{inode}]")));
    }
    let Ok(processes) = fs::read_dir("/proc").map(|entries| {
        entries.flatten().filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path())))
    }) else {
        return Vec::new();
    };
    let owns = |directory: &Path| {
        let files = fs::read_dir(directory.join("fd")).into_iter().flatten().flatten();
        let mut names = files.filter_map(|file| fs::read_link(file.path()).ok());
        names.any(|name| sockets.iter().any(|socket| name.as_os_str() == socket.as_str()))
    };
    let found = processes.filter(|(process, directory)| *process != std::process::id() && owns(directory));
    if sockets.is_empty() { Vec::new() } else { found.map(|(process, _)| process).collect() }
}

/// Returns the inodes of the sockets that listen at `server`, from the text of `/proc/net/tcp` or
/// `/proc/net/tcp6`.
fn listening_sockets(table: &str, server: SocketAddr) -> Vec<u64> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, port) = fields.get(1)?.split_once(':')?;
        let is_server = u16::from_str_radix(port, 16).ok()? == server.port()
            && *fields.get(3)? == LISTENING
            && address_of(address).is_some_and(|ip| ip.is_unspecified() || ip == server.ip().to_canonical());
        if is_server { fields.get(9)?.parse().ok() } else { None }
    };
    table.lines().skip(1).filter_map(of_line).collect()
}

/// Parses an address of these tables: groups of eight hexadecimal digits, each a word in the byte
/// order of the machine.
fn address_of(text: &str) -> Option<IpAddr> {
    let words: Option<Vec<[u8; 4]>> = (0..text.len())
        .step_by(8)
        .map(|at| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    match words?.as_slice() {
        [word] => Some(Ipv4Addr::from(*word).into()),
        words @ [_, _, _, _] => {
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(IpAddr::from(Ipv6Addr::from(bytes)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The words of these lines are of a little-endian machine, as every machine that runs the
    // tests.
    const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
        \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0 100 0 0 10 0\n\
        \x20  1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0 100 0 0 10 0\n\
        \x20  2: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0\n";
    const TCP6: &str = "  sl  local_address remote_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode\n\
        \x20  0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4714 1 0 100\n";

    #[test]
    fn only_listening_sockets_at_the_address_are_found() {
        let sockets = |table, server: &str| listening_sockets(table, server.parse().unwrap());
        assert_eq!(sockets(TCP, "127.0.0.1:8080"), [4711]);
        assert_eq!(sockets(TCP, "127.0.0.1:80"), [4713], "0.0.0.0 is every address");
        assert!(sockets(TCP, "127.0.0.2:8080").is_empty() && sockets(TCP, "127.0.0.1:81").is_empty());
        assert_eq!(sockets(TCP6, "[::1]:8080"), [4714]);
        assert!(sockets("", "127.0.0.1:80").is_empty() && sockets("head\nnonsense\n", "[::1]:8080").is_empty());
    }

    #[test]
    fn processor_use_excludes_idle_time() {
        let before = processor_time("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(before, ProcessorTime { idle: 850, total: 1_000 });
        let now = processor_time("cpu  160 0 65 820 55 0 0 0 0 0\n").unwrap();
        assert!((now.busy_since(before).unwrap() - 0.75).abs() < 1e-9);
        assert_eq!(now.busy_since(now), None);
        assert!(processor_time("").is_none() && processor_time("cpu 1 2\n").is_none());
    }

    #[test]
    fn a_server_on_another_machine_is_not_read() {
        // An address for documentation, which no machine has.
        assert!(listening_processes("192.0.2.1:22".parse().unwrap()).is_empty());
        let probe = MachineProbe::new("192.0.2.1:22".parse().unwrap());
        assert_eq!(probe.load(), MachineLoad::default());
    }
}
