//! Transport to workers on this machine, over pipes or rings; handles slow and dead workers.
//!
//! Does        one channel per worker; the policy for slow workers; the life of the workers'
//!             program.
//! Holds       1. a worker receives its objects in order, and a gap record where some are missing;
//!             2. nothing waits for a worker except under `block`;
//!             3. every routed object is counted as handed over, dropped, conflated or spilled.
//! Leaves out  how records travel ([`channel::WorkerChannel`]); where objects come from.
//! Start at    [`LocalTransport`], then `handle_refused` and `catch_up`.

mod backlog;
mod channel;
mod page_buffer;
mod pipe;
mod ring;
mod spill_queue;
mod supervisor;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use pitwire_feed::Object;

use backlog::WorkerBacklog;
use channel::{PutError, WorkerChannel};
use supervisor::Supervisor;

use crate::policy::SlowWorkerPolicy;
use crate::receive_area::{ReceiveBuffer, ReceiveSegments, ReferenceHolders};
use crate::transport::{Transport, TransportOptions, TransportSummary, TransportTotals};
use crate::transport_error::TransportError;
use crate::worker_process::{self, PendingStart};

/// How long `block` waits before it checks whether the run is to end.
const WAIT: Duration = Duration::from_millis(10);
/// A program that is behind and reads nothing for this long is stuck.
const STUCK: Duration = Duration::from_secs(1);
/// Delay before a closed end is reported: usually its program has just died, and the exit code says
/// more.
const CLOSED: Duration = Duration::from_millis(200);
/// At the end: time between asking a program to end and killing it.
const GRACE: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(1);

/// Opens a pipe for each worker.
///
/// # Errors
/// Pipes cannot be made, or the program cannot be started.
pub fn open_pipe(options: TransportOptions) -> Result<Box<dyn Transport>, TransportError> {
    Ok(Box::new(LocalTransport::<pipe::PipeChannel>::open(options)?))
}

/// Opens a ring in shared memory for each worker.
///
/// # Errors
/// Rings cannot be made, or the program cannot be started.
pub fn open_shm(options: TransportOptions) -> Result<Box<dyn Transport>, TransportError> {
    Ok(Box::new(LocalTransport::<ring::RingChannel>::open(options)?))
}

/// Opens a ring for each worker that refers to received bytes, in memory that all workers map.
///
/// # Errors
/// As [`open_shm`], or the shared memory cannot be made.
pub fn open_shm_ref(mut options: TransportOptions) -> Result<Box<dyn Transport>, TransportError> {
    let area = Arc::new(ring::open_area(&options)?);
    options.area = Some(Arc::clone(&area));
    let workers = options.workers as usize;
    let mut channels = LocalTransport::<ring::RingChannel>::open(options)?;
    channels.segments = Some(ReceiveSegments::new(area, workers));
    Ok(Box::new(channels))
}

struct WorkerState<L> {
    channel: L,
    /// Checked for every object. The reason is in the backlog.
    is_behind: bool,
    handed: u64,
    wakes: bool,
    backlog: Box<WorkerBacklog>,
}

impl<L: WorkerChannel> WorkerState<L> {
    /// Marks the channel as closed: nothing reads it, at least until the program is started again.
    fn close(&mut self) {
        self.is_behind = true;
        if self.backlog.is_closed() {
            return;
        }
        // The records in a channel were counted as handed over.
        let unread = self.channel.unread_records();
        self.handed = self.handed.saturating_sub(unread);
        self.backlog.close(unread);
    }
}

struct LocalTransport<L> {
    options: TransportOptions,
    workers: Vec<WorkerState<L>>,
    /// Where the feed is received, if channels refer to it.
    segments: Option<ReceiveSegments>,
    supervisor: Supervisor,
    /// The program is being restarted.
    starting: Option<PendingStart<Vec<L>>>,
    connection: u64,
    reports: VecDeque<TransportError>,
    failure: Option<TransportError>,
    /// Objects for workers that do not exist.
    stray: u64,
    scratch: String,
}

impl<L: WorkerChannel> LocalTransport<L> {
    fn open(options: TransportOptions) -> Result<Self, TransportError> {
        if let SlowWorkerPolicy::Spill { bytes } = options.policy {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let spilled = || {
                TransportError::new(format!("cannot reserve {bytes} bytes for a worker"), "give --on-slow spill: less")
            };
            Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| spilled())?;
        }
        let (channels, ends) = L::open_all(&options, 0)?;
        let supervisor = Supervisor::start(&options, ends)?;
        Ok(Self::with(options, channels, supervisor))
    }

    fn with(options: TransportOptions, channels: Vec<L>, supervisor: Supervisor) -> Self {
        let backlog = || Box::new(WorkerBacklog::new(options.policy, options.workers));
        let worker = |channel| WorkerState { channel, is_behind: false, handed: 0, wakes: false, backlog: backlog() };
        Self {
            workers: channels.into_iter().map(worker).collect(),
            segments: None,
            supervisor,
            starting: None,
            options,
            connection: 1,
            reports: VecDeque::new(),
            failure: None,
            stray: 0,
            scratch: String::with_capacity(4096),
        }
    }

    /// Handles an object that its channel refused, or that was not offered because the worker is
    /// behind.
    #[cold]
    #[inline(never)]
    fn handle_refused(&mut self, index: usize, text: &[u8], start: usize, end: usize, refused: Option<PutError>) {
        // An object that can never fit is not queued, because nothing behind it would ever leave.
        let worker = &mut self.workers[index];
        let is_summed = worker.is_behind && self.options.policy == SlowWorkerPolicy::Conflate;
        if !is_summed && !worker.channel.fits(end.saturating_sub(start)) {
            worker.backlog.miss();
            if !worker.is_behind {
                self.declare(index);
            }
            return;
        }
        let is_waited_for = self.options.policy == SlowWorkerPolicy::Block && !self.workers[index].backlog.is_closed();
        let refused = if is_waited_for { refused.or(Some(PutError::Full)) } else { refused };
        match refused {
            Some(PutError::Full) if is_waited_for => {
                if self.wait_for(index, text, start, end) {
                    return;
                }
            }
            Some(PutError::TooLong) => {
                self.workers[index].backlog.miss();
                self.declare(index);
                return;
            }
            Some(PutError::Broken) => self.workers[index].close(),
            Some(PutError::Full) | None => {}
        }
        let record = text.get(start..end).unwrap_or_default();
        let gap = self.gap();
        let worker = &mut self.workers[index];
        worker.is_behind = true;
        worker.backlog.add(record, &gap);
    }

    /// Under `block`: waits until the channel accepts the object. Returns false if the run ends or
    /// the worker is gone.
    fn wait_for(&mut self, index: usize, text: &[u8], start: usize, end: usize) -> bool {
        loop {
            // A worker that we wait for may itself wait for another shard.
            self.publish();
            if self.workers[index].is_behind {
                self.catch_up(index);
            }
            let worker = &mut self.workers[index];
            if !worker.is_behind {
                match worker.channel.put(text, start, end) {
                    Ok(()) => {
                        worker.handed += 1;
                        return true;
                    }
                    Err(PutError::Full) => {}
                    Err(PutError::TooLong) => {
                        worker.backlog.miss();
                        self.declare(index);
                        return true;
                    }
                    Err(PutError::Broken) => worker.close(),
                }
            }
            let worker = &self.workers[index];
            if worker.backlog.is_closed() {
                return false;
            }
            if self.options.stop.load(Ordering::Relaxed) || self.supervisor.is_over() {
                return false;
            }
            self.workers[index].channel.wait(WAIT);
        }
    }

    fn gap(&self) -> backlog::GapContext {
        backlog::GapContext {
            connection: self.connection,
            is_wanted: self.options.gap_records,
            restarts: self.supervisor.restarts(),
        }
    }

    /// Sends a gap record for the missing objects. If the channel refuses it, the worker is behind.
    fn declare(&mut self, index: usize) {
        let gap = self.gap();
        let worker = &mut self.workers[index];
        worker.is_behind = !worker.backlog.declare(&mut worker.channel, &gap);
    }

    fn catch_up(&mut self, index: usize) {
        let gap = self.gap();
        let worker = &mut self.workers[index];
        let caught_up = worker.backlog.catch_up(&mut worker.channel, &gap, &mut worker.handed, &mut self.scratch);
        worker.is_behind = !caught_up;
    }

    /// Publishes the records in the channels, then wakes the sleeping workers.
    fn publish(&mut self) {
        for worker in &mut self.workers {
            match worker.channel.hand_over() {
                Ok(wakes) => worker.wakes = wakes,
                Err(_) => worker.close(),
            }
        }
        for worker in &mut self.workers {
            if std::mem::take(&mut worker.wakes) {
                worker.channel.wake();
            }
        }
    }

    /// Handles programs that died or are stuck, and workers that closed their end.
    fn supervise(&mut self) {
        if self.failure.is_some() {
            return;
        }
        self.supervisor.urge();
        if self.supervisor.is_over() {
            self.program_ended();
        } else if self.supervisor.is_due() {
            self.restart();
        } else if self.starting.is_some() {
            self.take_restarted();
        } else if self.supervisor.is_running() && self.workers.iter().any(|worker| worker.is_behind) {
            self.check_slow_workers();
        }
    }

    fn check_slow_workers(&mut self) {
        let now = Instant::now();
        let mut closed = 0;
        for (index, worker) in self.workers.iter_mut().enumerate().filter(|(_, worker)| worker.is_behind) {
            let taken = worker.channel.taken_bytes();
            let stands = worker.backlog.idle_time(taken, now);
            if worker.backlog.is_closed() && stands >= CLOSED {
                closed += 1;
                if worker.backlog.mark_reported() {
                    self.reports.push_back(TransportError::new(
                        format!(
                            "worker {index} closed its end, or wrote nonsense; its records are dropped from now on"
                        ),
                        "look what the workers' program says; --on-slow restart starts it again",
                    ));
                }
            }
            if self.options.policy == SlowWorkerPolicy::Restart
                && (stands >= STUCK || (worker.backlog.is_closed() && stands >= CLOSED))
            {
                self.reports.push_back(TransportError::new(
                    format!("worker {index} takes nothing any more; its program is ended and started again"),
                    "look why it hangs; what it had not taken is declared in gap records",
                ));
                // The program counts as lost when it has ended.
                self.supervisor.ask_to_end(GRACE / 5);
                return;
            }
        }
        if closed == self.workers.len() {
            self.failure = Some(TransportError::new(
                "every worker has closed its end, though their program runs",
                "let each worker read the descriptor or ring that it got as an argument",
            ));
        }
    }

    /// Handles the end of the program: nothing reaches the workers.
    fn program_ended(&mut self) {
        let verdict = self.supervisor.verdict();
        self.workers.iter_mut().for_each(WorkerState::close);
        // At shutdown the program may have been stopped together with us. The summary says how it
        // ended.
        if self.options.stop.load(Ordering::Relaxed) {
            return;
        }
        if self.options.policy == SlowWorkerPolicy::Restart && self.supervisor.may_restart() {
            let wait = self.supervisor.plan_restart();
            self.reports.push_back(TransportError::new(
                format!("{verdict}; it is started again in {} ms", wait.as_millis()),
                "look what it says; what it had not taken is declared in gap records",
            ));
            return;
        }
        let remedy = if self.options.policy == SlowWorkerPolicy::Restart {
            "it ended each time it was started; look what it says"
        } else {
            "look what it says; --on-slow restart starts it again"
        };
        self.failure = Some(TransportError::new(format!("the workers' program is gone: {verdict}"), remedy));
    }

    /// Restarts the program on another thread, so that the feed does not wait for it.
    fn restart(&mut self) {
        let Some(program) = self.options.program.clone() else { return };
        let (options, generation) = (self.options.clone(), self.supervisor.restarts() + 1);
        match self.supervisor.restart(program, move || L::open_all(&options, generation)) {
            Ok(starting) => self.starting = Some(starting),
            Err(failure) => self.start_failed(failure),
        }
    }

    /// Takes over the restarted program, or handles the failure to start it.
    fn take_restarted(&mut self) {
        let Some(starting) = &self.starting else { return };
        let started = match starting.try_recv() {
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err(worker_process::thread_gone()),
            Ok(started) => started,
        };
        self.starting = None;
        let (channels, child) = match started {
            Ok(started) => started,
            Err(failure) => return self.start_failed(failure),
        };
        self.supervisor.is_back(child);
        let mut old = Vec::with_capacity(channels.len());
        for (worker, channel) in self.workers.iter_mut().zip(channels) {
            old.push(std::mem::replace(&mut worker.channel, channel));
            worker.backlog.reopen();
        }
        if let Some(segments) = &mut self.segments {
            segments.release_all();
        }
        // Unmapping large rings takes the kernel a while, so a thread does it. Without a thread it
        // happens here.
        let _ = std::thread::Builder::new().name("old channels".into()).spawn(move || drop(old));
    }

    fn start_failed(&mut self, failure: TransportError) {
        if self.supervisor.may_restart() {
            self.supervisor.plan_restart();
            self.reports.push_back(failure);
        } else {
            self.failure = Some(failure);
        }
    }

    fn is_handed_over(&self) -> bool {
        self.workers
            .iter()
            .all(|worker| worker.backlog.is_closed() || (!worker.is_behind && worker.channel.is_handed_over()))
    }

    /// Counts what workers did not take until the end as lost, and ends the channels.
    fn give_up(&mut self) {
        for worker in &mut self.workers {
            let staged = if worker.backlog.is_closed() { 0 } else { worker.channel.give_up() };
            worker.handed = worker.handed.saturating_sub(staged);
            worker.backlog.lose(staged);
            worker.channel.end();
        }
    }
}

/// Gives the receive segments access to the channels.
struct ChannelReferences<'a, L>(&'a mut [WorkerState<L>]);

impl<L: WorkerChannel> ReferenceHolders for ChannelReferences<'_, L> {
    fn head(&self, worker: usize) -> u64 {
        self.0.get(worker).map_or(0, |worker| worker.channel.head())
    }

    fn has_taken(&mut self, worker: usize, head: u64) -> bool {
        self.0.get_mut(worker).is_none_or(|worker| worker.backlog.is_closed() || worker.channel.has_taken(head))
    }

    fn refer(&mut self, worker: usize, refers: bool) {
        if let Some(worker) = self.0.get_mut(worker) {
            worker.channel.refer(refers);
        }
    }
}

impl<L: WorkerChannel> Transport for LocalTransport<L> {
    fn send_objects(&mut self, text: &[u8], objects: &[Object]) {
        for object in objects {
            let (start, end) = (object.start as usize, object.end as usize);
            let Some(worker) = self.workers.get_mut(object.worker as usize) else {
                self.stray += 1;
                continue;
            };
            let refused = if worker.is_behind { None } else { worker.channel.put(text, start, end).err() };
            if refused.is_none() && !worker.is_behind {
                worker.handed += 1;
            } else {
                self.handle_refused(object.worker as usize, text, start, end, refused);
            }
        }
    }

    fn receive_buffer(&mut self) -> Option<ReceiveBuffer> {
        self.segments.as_mut()?.next(&mut ChannelReferences(&mut self.workers))
    }

    fn commit_received(&mut self, bytes: usize) {
        if let Some(segments) = &mut self.segments {
            segments.commit_received(bytes);
        }
    }

    fn send_note(&mut self, worker: u32, record: &[u8]) {
        let Some(worker) = self.workers.get_mut(worker as usize) else { return };
        if !worker.is_behind && worker.channel.put(record, 0, record.len()).is_ok() {
            worker.backlog.gaps += 1;
        } else {
            worker.is_behind = true;
            worker.backlog.add_note(record);
        }
    }

    fn hand_over(&mut self) {
        for index in 0..self.workers.len() {
            if self.workers[index].is_behind {
                self.catch_up(index);
            }
        }
        self.publish();
        self.supervise();
    }

    fn connected(&mut self, connection: u64) {
        self.connection = connection;
    }

    fn has_pending(&self) -> bool {
        self.failure.is_none()
            && (self.supervisor.is_over()
                || self.supervisor.is_waiting()
                || self.starting.is_some()
                || !self.is_handed_over())
    }

    fn totals(&self) -> TransportTotals {
        let mut totals =
            TransportTotals { dropped: self.stray, restarts: self.supervisor.restarts(), ..TransportTotals::default() };
        for worker in &self.workers {
            totals.handed += worker.handed;
            totals.behind += u32::from(worker.is_behind);
            worker.backlog.add_to(&mut totals);
        }
        totals
    }

    fn pending_bytes(&mut self, worker: u32) -> u64 {
        let Some(worker) = self.workers.get_mut(worker as usize) else { return 0 };
        worker.channel.pending_bytes() + worker.backlog.queued_bytes()
    }

    fn report(&mut self) -> Option<TransportError> {
        self.reports.pop_front()
    }

    fn failure(&self) -> Option<TransportError> {
        self.failure.clone()
    }

    fn finish(&mut self, patience: Duration) -> Result<TransportSummary, TransportError> {
        let until = Instant::now() + patience;
        loop {
            self.hand_over();
            if self.failure.is_some() || self.is_handed_over() || Instant::now() >= until {
                break;
            }
            std::thread::sleep(GLANCE);
        }
        if let Some(starting) = self.starting.take() {
            // Too late for the restarted program: dropping it ends it.
            let _ = starting.recv_timeout(GRACE);
        }
        self.give_up();
        let left = until.saturating_duration_since(Instant::now()).max(GRACE);
        let (found, program) = self.supervisor.finish(left, GRACE);
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        Ok(TransportSummary { totals: self.totals(), counted: found.counted, counters_cpu_ns: found.cpu_ns, program })
    }
}

#[cfg(test)]
mod tests;
