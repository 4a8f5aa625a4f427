//! A server without free file descriptors. Runs in its own process, because the limit is per
//! process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pitwire_splitter::{SharedStats, TransportOptions, serve};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const PATIENCE: Duration = Duration::from_secs(20);

/// Counts log events.
struct EventCounter(Arc<AtomicU32>);

impl Subscriber for EventCounter {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Returns the CPU time of the thread with this name, once it exists.
fn used_by(name: &str) -> Duration {
    let is_called =
        |thread: &std::path::Path| std::fs::read_to_string(thread.join("comm")).is_ok_and(|found| found.trim() == name);
    let give_up = Instant::now() + PATIENCE;
    loop {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(|thread| thread.path());
        if let Some(thread) = threads.into_iter().find(|thread| is_called(thread)) {
            let used = std::fs::read_to_string(thread.join("schedstat")).unwrap();
            return Duration::from_nanos(used.split(' ').next().unwrap().parse().unwrap());
        }
        assert!(Instant::now() < give_up, "no thread is called {name}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn without_descriptors_the_server_waits_and_logs_once() {
    let refusals = Arc::new(AtomicU32::new(0));
    tracing::subscriber::set_global_default(EventCounter(Arc::clone(&refusals))).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let (_, server) = serve(&TransportOptions::new(1), Arc::new(SharedStats::default()), None, Some(any)).unwrap();
    let address = server.metrics().unwrap();
    let client = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let before = used_by("serve-metrics");

    // The next descriptor would have this number. The limit is lowered before the client connects.
    let next = TcpListener::bind(any).map(|probe| probe.as_raw_fd()).unwrap();
    let limit = getrlimit(Resource::Nofile);
    let lowered = Rlimit { current: Some(u64::try_from(next).unwrap()), maximum: limit.maximum };
    setrlimit(Resource::Nofile, lowered).unwrap();
    client.connect(&address.into()).unwrap();
    let give_up = Instant::now() + PATIENCE;
    while refusals.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < give_up, "no message about the missing descriptor");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(700));
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(refusals.load(Ordering::SeqCst), 1);
    // A busy loop would have used nearly all of that time.
    let used = used_by("serve-metrics").saturating_sub(before);
    assert!(used < Duration::from_millis(200), "{used:?} of a processor");

    let mut client = std::net::TcpStream::from(client);
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(refusals.load(Ordering::SeqCst), 1);
}
