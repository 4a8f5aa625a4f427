//! The worker: a thread per shard, one writer, one server.
//!
//! Does        reads every shard, writes finished bars, serves the latest ones; shuts down in
//!             order.
//! Holds       finished bars are written before [`BarWorker::wait`] returns, whatever ended the
//!             run.
//! Start at    [`start`].

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pitwire_net::ServerThread;

use crate::archive::{ArchiveError, BarArchive};
use crate::latest_bars::LatestBars;
use crate::rules::BarRules;
use crate::server;
use crate::shard::{BarRow, BarShard, BarTotals};
use crate::source::{RecordSource, SourceError, SourceState};

/// Batches of finished bars that may wait for the disk. Then the shards wait.
const BATCHES: usize = 64;
const BATCH: usize = 4096;
/// Interval at which open bars are published, and longest wait for records.
const POST: Duration = Duration::from_millis(100);
/// How long a stopping worker reads available records.
const LAST_CALL: Duration = Duration::from_secs(1);

/// The parameters of a run.
pub struct BarJob {
    /// Descriptors or ring names, one per shard.
    pub shards: Vec<String>,
    pub buckets_s: Vec<u32>,
    pub rules: BarRules,
    pub out: Option<PathBuf>,
    /// Interval at which a new file is started.
    pub rotate: Duration,
    pub listen: Option<SocketAddr>,
    /// Set by the caller to end the run.
    pub stop: Arc<AtomicBool>,
}

#[derive(Debug)]
pub enum WorkerError {
    RecordSource(SourceError),
    BarArchive(ArchiveError),
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    /// The splitter was killed. Its records were written.
    SplitterDied {
        shard: String,
    },
    Thread(io::Error),
    /// A shard's thread panicked.
    Panicked,
}

impl WorkerError {
    pub fn remedy(&self) -> &'static str {
        match self {
            WorkerError::RecordSource(error) => error.remedy(),
            WorkerError::BarArchive(error) => error.remedy(),
            WorkerError::Listen { .. } => "give --listen another address, or port 0 for any free one",
            WorkerError::SplitterDied { .. } => "what had arrived is written; start the splitter again",
            WorkerError::Thread(_) => "allow this process more threads (ulimit -u), or give it fewer shards",
            WorkerError::Panicked => "this is our mistake; please report it with the lines above",
        }
    }
}

impl fmt::Display for WorkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WorkerError::RecordSource(error) => error.fmt(f),
            WorkerError::BarArchive(error) => error.fmt(f),
            WorkerError::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            WorkerError::SplitterDied { shard } => {
                write!(f, "the splitter of {shard} died without saying that it ends")
            }
            WorkerError::Thread(error) => write!(f, "cannot start a thread: {error}"),
            WorkerError::Panicked => write!(f, "a shard's thread panicked"),
        }
    }
}

impl std::error::Error for WorkerError {}

/// The result of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct BarSummary {
    pub totals: BarTotals,
    pub files: u64,
    pub rows: u64,
    pub seconds: f64,
}

/// A running worker.
pub struct BarWorker {
    shards: Vec<JoinHandle<(BarTotals, Result<(), WorkerError>)>>,
    /// Ends after the shards.
    server: Option<ServerThread>,
    finished: Receiver<Vec<BarRow>>,
    archive: Option<BarArchive>,
    stop: Arc<AtomicBool>,
    since: Instant,
}

/// Opens everything first, so that errors are reported at once; then starts the threads.
///
/// # Errors
/// A shard, the directory or the address cannot be opened, or a thread cannot be started.
pub fn start(job: BarJob) -> Result<BarWorker, WorkerError> {
    let sources: Result<Vec<_>, _> = job.shards.iter().map(|name| RecordSource::open(name)).collect();
    let sources = sources.map_err(WorkerError::RecordSource)?;
    let archive = job.out.as_deref().map(|out| BarArchive::open(out, job.rotate)).transpose();
    let archive = archive.map_err(WorkerError::BarArchive)?;
    let bars = job.listen.map(|_| Arc::new(LatestBars::new(sources.len())));
    let server = match (job.listen, &bars) {
        (Some(address), Some(bars)) => {
            let serving = TcpListener::bind(address).and_then(|listener| server::serve(listener, Arc::clone(bars)));
            Some(serving.map_err(|error| WorkerError::Listen { address, error })?)
        }
        _ => None,
    };
    let (send, finished) = sync_channel(BATCHES);
    let rules = Arc::new(job.rules);
    let mut shards = Vec::new();
    for (index, (source, name)) in sources.into_iter().zip(job.shards).enumerate() {
        // Each shard has its own copy of the rules, so that cores do not share cache lines.
        let mut shard = BarShard::new(Arc::new((*rules).clone()), &job.buckets_s);
        if bars.is_some() {
            shard.watch_changes();
        }
        let shard_thread = ShardThread {
            name,
            source,
            shard,
            send: archive.is_some().then(|| send.clone()),
            latest: bars.clone().map(|bars| (bars, index)),
            stop: Arc::clone(&job.stop),
        };
        let thread = thread::Builder::new().name(format!("shard-{index}"));
        shards.push(thread.spawn(move || shard_thread.run()).map_err(WorkerError::Thread)?);
    }
    Ok(BarWorker { shards, server, finished, archive, stop: job.stop, since: Instant::now() })
}

impl BarWorker {
    /// Returns the address of the server.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(ServerThread::address)
    }

    /// Writes bars until every shard has ended. Returns the first error, after everything is
    /// written.
    pub fn wait(mut self) -> (BarSummary, Result<(), WorkerError>) {
        let written = self.write_all();
        if written.is_err() {
            // Nothing takes bars any more. The stop flag ends the shards.
            self.stop.store(true, Ordering::Relaxed);
        }
        drop(std::mem::replace(&mut self.finished, sync_channel(0).1));
        let mut summary = BarSummary::default();
        let mut wrong = written.err();
        for shard in self.shards {
            match shard.join() {
                Ok((totals, ended)) => {
                    summary.totals.add(&totals);
                    wrong = wrong.or(ended.err());
                }
                Err(_) => wrong = wrong.or(Some(WorkerError::Panicked)),
            }
        }
        drop(self.server);
        (summary.files, summary.rows) = self.archive.as_ref().map_or((0, 0), BarArchive::totals);
        summary.seconds = self.since.elapsed().as_secs_f64();
        (summary, wrong.map_or(Ok(()), Err))
    }

    fn write_all(&mut self) -> Result<(), WorkerError> {
        let Some(archive) = &mut self.archive else { return Ok(()) };
        let result = write_until_the_end(archive, &self.finished);
        let rotated = archive.rotate();
        result.and(rotated).map_err(WorkerError::BarArchive)
    }
}

fn write_until_the_end(archive: &mut BarArchive, bars: &Receiver<Vec<BarRow>>) -> Result<(), ArchiveError> {
    loop {
        let patience = archive.due().map_or(Duration::MAX, |due| due.saturating_duration_since(Instant::now()));
        match bars.recv_timeout(patience) {
            Ok(rows) => archive.push(&rows)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        if archive.due().is_some_and(|due| Instant::now() >= due) {
            archive.rotate()?;
        }
    }
}

/// The thread of one shard.
struct ShardThread {
    name: String,
    source: RecordSource,
    shard: BarShard,
    send: Option<SyncSender<Vec<BarRow>>>,
    latest: Option<(Arc<LatestBars>, usize)>,
    stop: Arc<AtomicBool>,
}

impl ShardThread {
    fn run(mut self) -> (BarTotals, Result<(), WorkerError>) {
        let ended = self.read_until_the_end();
        self.shard.finish();
        self.hand_over();
        (self.shard.totals(), ended)
    }

    fn read_until_the_end(&mut self) -> Result<(), WorkerError> {
        let mut post_at = Instant::now() + POST;
        let mut last_call: Option<Instant> = None;
        loop {
            let shard = &mut self.shard;
            let state = self.source.take(POST, |record| shard.take(record)).map_err(WorkerError::RecordSource)?;
            if self.shard.pending() >= BATCH || Instant::now() >= post_at {
                self.hand_over();
                post_at = Instant::now() + POST;
            }
            match state {
                SourceState::Ended => return Ok(()),
                SourceState::Died => return Err(WorkerError::SplitterDied { shard: self.name.clone() }),
                SourceState::Busy | SourceState::Idle => {}
            }
            if self.stop.load(Ordering::Relaxed) {
                let until = *last_call.get_or_insert_with(|| Instant::now() + LAST_CALL);
                if state == SourceState::Idle || Instant::now() >= until {
                    return Ok(());
                }
            }
        }
    }

    /// Sends finished bars to the writer, and finished and changed bars to the readers.
    fn hand_over(&mut self) {
        let finished: Vec<BarRow> = self.shard.finished().collect();
        if let Some((latest, index)) = &self.latest {
            let mut rows: Vec<(BarRow, bool)> = finished.iter().map(|row| (row.clone(), true)).collect();
            self.shard.changed(|row| rows.push((row, false)));
            if !rows.is_empty() {
                latest.post(*index, rows.into_iter());
            }
        }
        if let (Some(send), false) = (&self.send, finished.is_empty()) {
            // A writer that ended has reported why, and the stop flag ends this thread.
            let _ = send.send(finished);
        }
    }
}
