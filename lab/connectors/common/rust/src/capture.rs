//! The capture file: a thread that stores what the receive path puts into its ring.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, ToSql, params};
use rustix::time::{ClockId, clock_gettime};

use crate::event::{Counts, Envelope, Event, Item};
use crate::receive::RECEIVED;
use crate::{CAPTURE_ERROR, Library, Settings, monotonic_ns};

const RING_PLACES: usize = 1 << 16;
const ROWS_MAX: usize = 10_000;
const FLUSH_NS: i64 = 250_000_000;
const LOOK: Duration = Duration::from_millis(20);

type Failure = Box<dyn Error + Send + Sync>;

pub struct Capture(JoinHandle<Result<Writer, Failure>>);

struct Writer {
    file: Connection,
    settings: Arc<Settings>,
    captured: i64,
    batch: Vec<Event>,
    flushed_ns: i64,
    next_second_ns: i64,
}

impl Capture {
    /// Creates the capture file and starts the writer. Returns the ring too.
    pub fn start<L: Library>(
        settings: &Arc<Settings>,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self, SyncSender<Item>), Failure> {
        OpenOptions::new().write(true).create_new(true).open(&settings.capture)?;
        let file = Connection::open(&settings.capture)?;
        file.execute_batch(&fs::read_to_string(&settings.schema)?)?;
        let now_ns = monotonic_ns();
        let mut writer = Writer {
            file,
            settings: Arc::clone(settings),
            captured: 0,
            batch: Vec::with_capacity(ROWS_MAX),
            flushed_ns: now_ns,
            next_second_ns: now_ns + 1_000_000_000,
        };
        writer.first_facts::<L>(now_ns)?;
        writer.clock()?;
        let (sender, ring) = sync_channel(RING_PLACES);
        let stop = Arc::clone(stop);
        let run = move || writer.run(&ring, &stop).inspect_err(|_| stop.store(true, Relaxed)).map(|()| writer);
        Ok((Capture(std::thread::Builder::new().name("capture".into()).spawn(run)?), sender))
    }

    /// Waits until everything is stored, and closes the file. Returns the exit code.
    pub fn finish(self, code: u8, counts: Counts) -> u8 {
        let written = self.0.join().unwrap_or_else(|_| Err("the writer panicked".into()));
        match written.and_then(|writer| writer.finish(code, counts)) {
            Ok(()) => code,
            Err(error) => {
                eprintln!("cannot write the capture file: {error}");
                CAPTURE_ERROR
            }
        }
    }
}

impl Writer {
    /// Stores items until the ring is closed and empty. The receive path does not wake this thread,
    /// because that would cost a system call and two context switches per message.
    fn run(&mut self, ring: &Receiver<Item>, stop: &AtomicBool) -> Result<(), Failure> {
        loop {
            std::thread::sleep(LOOK);
            loop {
                match ring.try_recv() {
                    Ok(Item::Event(event)) => self.batch.push(event),
                    Ok(Item::Open { connection_id, at_ns }) => {
                        println!("open {connection_id} {at_ns}");
                        let end = "UPDATE gap SET to_ns = ? WHERE connection_id = ?";
                        self.file.execute(end, params![at_ns, connection_id - 1])?;
                    }
                    Ok(Item::Gap { connection_id, reason, close_code, at_ns }) => {
                        println!("gap {connection_id} {reason}");
                        let insert = "INSERT INTO gap VALUES (?, ?, ?, ?, NULL)";
                        self.file.execute(insert, params![connection_id, reason, close_code, at_ns])?;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return self.flush(),
                }
                if self.batch.len() >= ROWS_MAX {
                    self.flush()?;
                }
            }
            let now_ns = monotonic_ns();
            if now_ns - self.flushed_ns > FLUSH_NS {
                self.flush()?;
            }
            if self.settings.exit_file.exists() {
                stop.store(true, Relaxed);
            }
            if now_ns >= self.next_second_ns {
                self.next_second_ns += 1_000_000_000;
                println!("alive {} {}", RECEIVED.load(Relaxed), self.captured);
                self.clock()?;
            }
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.flushed_ns = monotonic_ns();
        if self.batch.is_empty() {
            return Ok(());
        }
        let rows = self.batch.len();
        let transaction = self.file.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
            let mut insert_body = transaction.prepare_cached("INSERT INTO payload VALUES (?, ?)")?;
            for event in self.batch.drain(..) {
                self.captured += 1;
                let of = |value: fn(&Envelope) -> i64| event.envelope.as_ref().map(value);
                let flags = i64::from(event.is_binary) | if event.envelope.is_none() { 2 } else { 0 };
                insert.execute(params![
                    self.captured,
                    event.connection_id,
                    of(|envelope| envelope.feed_connection),
                    of(|envelope| envelope.sequence),
                    of(|envelope| envelope.due_ns),
                    of(|envelope| envelope.sent_ns),
                    event.received_ns,
                    event.length_bytes as i64,
                    flags
                ])?;
                if let Some(body) = event.body {
                    insert_body.execute(params![self.captured, body])?;
                }
            }
        }
        transaction.commit()?;
        let flush = params![self.flushed_ns, monotonic_ns(), rows as i64];
        self.file.execute("INSERT INTO flush VALUES (?, ?, ?)", flush)?;
        Ok(())
    }

    fn fact(&self, name: &str, value: impl ToString) -> Result<(), Failure> {
        let row: [&dyn ToSql; 2] = [&name, &value.to_string()];
        self.file.execute("INSERT INTO run VALUES (?, ?)", row)?;
        Ok(())
    }

    fn first_facts<L: Library>(&self, now_ns: i64) -> Result<(), Failure> {
        for (name, value) in ["run", "connector", "exchange"].into_iter().zip(&self.settings.names) {
            self.fact(name, value)?;
        }
        self.fact("url", &self.settings.url)?;
        self.fact("subscribe", &self.settings.subscribe)?;
        self.fact("contract", 1)?;
        self.fact("language", "Rust")?;
        self.fact("library", L::NAME)?;
        self.fact("library_version", L::VERSION)?;
        self.fact("runtime_version", "none")?;
        self.fact("host", rustix::system::uname().nodename().to_string_lossy())?;
        self.fact("started_ns", now_ns)
    }

    fn clock(&self) -> Result<(), Failure> {
        let before_ns = monotonic_ns();
        let real = clock_gettime(ClockId::Realtime);
        let row = params![before_ns, real.tv_sec * 1_000_000_000 + real.tv_nsec, monotonic_ns()];
        self.file.execute("INSERT INTO clock VALUES (?, ?, ?)", row)?;
        Ok(())
    }

    fn finish(self, code: u8, counts: Counts) -> Result<(), Failure> {
        let status = fs::read_to_string("/proc/self/status")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next());
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        self.fact("ended_ns", counts.ended_ns)?;
        self.fact("exit_code", code)?;
        self.fact("messages", counts.received)?;
        self.fact("ring_waits", counts.ring_waits)?;
        self.fact("cpu_us", cpu.tv_sec * 1_000_000 + cpu.tv_nsec / 1_000)?;
        self.fact("peak_memory_kb", peak.unwrap_or("0"))?;
        self.file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        self.file.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}
