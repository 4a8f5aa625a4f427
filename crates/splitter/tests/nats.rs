//! The publisher with a real nats-server: each record once and in order, and every loss visible in
//! the numbers.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pitwire_feed::Object;
use pitwire_splitter::{Publication, ShardPublisher, Transport};
use tokio_stream::StreamExt;

const PATIENCE: Duration = Duration::from_secs(30);
const WORKERS: u32 = 3;

/// Finds nats-server where `make test` installs it, or on the path.
fn program() -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/nats-server");
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let everywhere = std::env::split_paths(&path).map(|place| place.join("nats-server"));
    named.into_iter().chain([ours]).chain(everywhere).find(|program| program.is_file())
}

struct NatsServer {
    process: Child,
    place: PathBuf,
    url: String,
}

impl NatsServer {
    /// Returns `None` without a nats-server; the test then reports that and ends.
    fn start(name: &str) -> Option<NatsServer> {
        let Some(program) = program() else {
            eprintln!("skipped: there is no nats-server; make test installs one");
            return None;
        };
        let place = std::env::temp_dir().join(format!("pitwire-nats-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let mut command = Command::new(program);
        command.args(["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir"]).arg(&place);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + PATIENCE;
        let url = loop {
            let ports = place.join(format!("nats-server_{}.ports", process.id()));
            let ports_text = fs::read_to_string(ports).unwrap_or_default();
            if let Some(at) = ports_text.find("nats://") {
                break ports_text[at..].split('"').next().unwrap().to_string();
            }
            assert!(Instant::now() < until, "nats-server does not start");
            std::thread::sleep(Duration::from_millis(10));
        };
        Some(NatsServer { process, place, url })
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::CONT);
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let _ = fs::remove_dir_all(&self.place);
    }
}

#[derive(Default, Debug)]
struct ShardRecords {
    expected: u64,
    records: Vec<Vec<u8>>,
    missed: u64,
}

/// Subscribes, runs `feed`, then receives until each shard's numbers reach what `feed` returned.
fn consume(
    url: &str,
    epoch: u64,
    feed: impl FnOnce(ShardPublisher) -> [u64; WORKERS as usize] + Send,
) -> BTreeMap<u32, ShardRecords> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let options = async_nats::ConnectOptions::new().subscription_capacity(1 << 20);
        let client = options.connect(url).await.unwrap();
        let mut subscription = client.subscribe(format!("test.{epoch}.*")).await.unwrap();
        client.flush().await.unwrap();
        let publication = Publication { url: url.into(), prefix: "test".into(), epoch, workers: WORKERS };
        // On a separate thread: the publisher starts a runtime, and this thread already has one.
        let dealt = std::thread::scope(|scope| {
            let worker = scope.spawn(move || feed(ShardPublisher::open(publication).unwrap()));
            worker.join().unwrap()
        });
        let mut seen: BTreeMap<u32, ShardRecords> =
            (0..WORKERS).map(|shard| (shard, ShardRecords { expected: 1, ..ShardRecords::default() })).collect();
        let is_done = |seen: &BTreeMap<u32, ShardRecords>| {
            seen.values().zip(dealt).all(|(seen, dealt)| seen.expected == dealt + 1)
        };
        while !is_done(&seen) {
            let message =
                tokio::time::timeout(PATIENCE, subscription.next()).await.expect("numbers that end where they should");
            let message = message.expect("a subscription that goes on");
            let headers = message.headers.unwrap();
            let number = |name: &str| headers.get(name).unwrap().as_str().parse::<u64>().unwrap();
            assert_eq!(number("Pitwire-Epoch"), epoch);
            let shard = message.subject.as_str().rsplit('.').next().unwrap().parse().unwrap();
            let seen = seen.get_mut(&shard).unwrap();
            let (first, count) = (number("Pitwire-First"), number("Pitwire-Count"));
            assert!(first >= seen.expected || count == 0, "shard {shard}: {first} after {}", seen.expected);
            seen.missed += first.saturating_sub(seen.expected);
            let mut rest = &message.payload[..];
            let mut records = 0;
            while let Some((length, after)) = rest.split_first_chunk::<4>() {
                let (record, after) = after.split_at(u32::from_le_bytes(*length) as usize);
                seen.records.push(record.to_vec());
                rest = after;
                records += 1;
            }
            assert_eq!(records, count);
            seen.expected = seen.expected.max(first + count);
        }
        seen
    })
}

/// Sends `reads` reads of thirty numbered objects, to the workers in turn. Returns how many each
/// shard received.
fn deal(publisher: &mut ShardPublisher, from: u32, reads: u32) -> [u64; WORKERS as usize] {
    let mut dealt = [0; WORKERS as usize];
    for read in from..from + reads {
        let (mut text, mut objects) = (String::new(), Vec::new());
        for number in read * 30..read * 30 + 30 {
            let start = u32::try_from(text.len()).unwrap();
            text.push_str(&format!(r#"{{"i":"{number:012}","pad":"{}"}}"#, "x".repeat(60)));
            objects.push(Object { start, end: u32::try_from(text.len()).unwrap(), worker: number % WORKERS });
            dealt[(number % WORKERS) as usize] += 1;
        }
        publisher.send_objects(text.as_bytes(), &objects);
        publisher.hand_over();
    }
    dealt
}

fn number(record: &[u8]) -> u32 {
    std::str::from_utf8(&record[6..18]).unwrap().parse().unwrap()
}

#[test]
fn every_record_arrives_once_and_in_order() {
    let Some(server) = NatsServer::start("order") else { return };
    let seen = consume(&server.url, 7, |mut publisher| {
        let mut dealt = [0; WORKERS as usize];
        for read in 0..50 {
            let more = deal(&mut publisher, read * 10, 10);
            dealt.iter_mut().zip(more).for_each(|(all, more)| *all += more);
            // The queue is shorter than this feed, so give NATS the time that a real feed would.
            std::thread::sleep(Duration::from_millis(10));
        }
        publisher.send_note(1, br#"{"ev":"gap"}"#);
        dealt[1] += 1;
        let summary = publisher.finish(PATIENCE).unwrap();
        assert_eq!((summary.totals.handed + summary.totals.dropped, summary.totals.gaps), (15_000, 1));
        dealt
    });
    let arrived: usize = seen.values().map(|seen| seen.records.len()).sum();
    assert_eq!(arrived as u64 + seen.values().map(|seen| seen.missed).sum::<u64>(), 15_001);
    assert_eq!(seen[&1].records.last().unwrap(), br#"{"ev":"gap"}"#);
    for (shard, seen) in &seen {
        let numbers: Vec<u32> =
            seen.records.iter().filter(|record| record.len() > 20).map(|record| number(record)).collect();
        assert!(numbers.is_sorted_by(|before, after| before < after), "shard {shard}");
        assert!(numbers.iter().all(|number| number % WORKERS == *shard));
    }
}

/// SIGSTOP fills the socket, then the queue. The splitter's calls return, and the numbers show what
/// was dropped.
#[test]
fn a_stopped_server_blocks_nothing_and_every_loss_shows() {
    let Some(server) = NatsServer::start("still") else { return };
    let seen = consume(&server.url, 8, |mut publisher| {
        server.signal(rustix::process::Signal::STOP);
        let dealt = deal(&mut publisher, 0, 20_000);
        let dropped = publisher.totals().dropped;
        assert!(dropped > 0, "600,000 objects are more than a standing server takes");
        assert!(publisher.report().is_some() && publisher.report().is_none());
        server.signal(rustix::process::Signal::CONT);
        let totals = publisher.finish(PATIENCE).unwrap().totals;
        assert_eq!(totals.handed + totals.dropped, 600_000);
        dealt
    });
    let ports_text: u64 = seen.values().map(|seen| seen.records.len() as u64).sum();
    let missed: u64 = seen.values().map(|seen| seen.missed).sum();
    assert!(missed > 0);
    assert_eq!(ports_text + missed, 600_000);
}
