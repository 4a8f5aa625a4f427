//! Objects to workers over pipes or rings, and what becomes of them when a worker is slow or gone.
//!
//! Does        one lane a worker; the policy for slow workers; the program's life.
//! Holds       1. a worker's objects reach it in their order, and what it does not get is declared to it in their place;
//!             2. nothing waits for a worker but under `block`;
//!             3. everything dealt is handed over, dropped, conflated or spilled, and counted so.
//! Leaves out  how records travel ([`lane::Lane`]); where objects come from.
//! Start at    [`Lanes`], then `late` and `catch_up`.

mod area;
mod keeper;
mod lane;
mod late;
mod mapping;
mod pages;
mod pipe;
mod queue;
mod shm;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use pitwire_feed::Object;

pub(crate) use area::Area;
pub use area::Landing;
pub(crate) use lane::Ends;
pub(crate) use mapping::Mapping;

use area::Landings;
use keeper::Keeper;
use lane::{Lane, Refused};
use late::Late;

use crate::child::Starting;
use crate::policy::Policy;
use crate::transport::{Failure, Options, Summary, Totals, Transport};

/// How long `block` waits before it looks whether the run is to end.
const WAIT: Duration = Duration::from_millis(10);
/// A program that has taken nothing for so long while it is behind is stuck.
const STUCK: Duration = Duration::from_secs(1);
/// A closed end is usually a program that has just died; its exit code says more.
const CLOSED: Duration = Duration::from_millis(200);
/// At the end: from asking a program to end to ending it.
const GRACE: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(1);

/// A pipe for each worker.
pub fn open_pipe(options: Options) -> Result<Box<dyn Transport>, Failure> {
    Ok(Box::new(Lanes::<pipe::PipeLane>::open(options)?))
}

/// A ring in shared memory for each worker.
pub fn open_shm(options: Options) -> Result<Box<dyn Transport>, Failure> {
    Ok(Box::new(Lanes::<shm::ShmLane>::open(options)?))
}

/// A ring for each worker, which refers to what was received in memory that all of them map.
pub fn open_shm_ref(mut options: Options) -> Result<Box<dyn Transport>, Failure> {
    let area = Arc::new(shm::open_area(&options)?);
    options.area = Some(Arc::clone(&area));
    let workers = options.workers as usize;
    let mut lanes = Lanes::<shm::ShmLane>::open(options)?;
    lanes.landings = Some(Landings::new(area, workers));
    Ok(Box::new(lanes))
}

struct Worker<L> {
    lane: L,
    /// Looked at for every object; why stands in `late`.
    is_behind: bool,
    handed: u64,
    wakes: bool,
    late: Box<Late>,
}

impl<L: Lane> Worker<L> {
    /// Nobody reads its lane any more, or not before a new program is there.
    fn close(&mut self) {
        self.is_behind = true;
        if self.late.is_closed() {
            return;
        }
        // A lane's records were counted as handed over.
        let unread = self.lane.unread_records();
        self.handed = self.handed.saturating_sub(unread);
        self.late.close(unread);
    }
}

struct Lanes<L> {
    options: Options,
    workers: Vec<Worker<L>>,
    /// Where the feed is received, when lanes refer to it.
    landings: Option<Landings>,
    keeper: Keeper,
    /// The program is being started again.
    starting: Option<Starting<Vec<L>>>,
    connection: u64,
    reports: VecDeque<Failure>,
    failure: Option<Failure>,
    /// Objects for workers that there are not.
    stray: u64,
    scratch: String,
}

impl<L: Lane> Lanes<L> {
    fn open(options: Options) -> Result<Self, Failure> {
        if let Policy::Spill { bytes } = options.policy {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let spilled =
                || Failure::new(format!("cannot reserve {bytes} bytes for a worker"), "give --on-slow spill: less");
            Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| spilled())?;
        }
        let (lanes, ends) = L::open_all(&options, 0)?;
        let keeper = Keeper::start(&options, ends)?;
        Ok(Self::with(options, lanes, keeper))
    }

    fn with(options: Options, lanes: Vec<L>, keeper: Keeper) -> Self {
        let late = || Box::new(Late::new(options.policy, options.workers));
        let worker = |lane| Worker { lane, is_behind: false, handed: 0, wakes: false, late: late() };
        Self {
            workers: lanes.into_iter().map(worker).collect(),
            landings: None,
            keeper,
            starting: None,
            options,
            connection: 1,
            reports: VecDeque::new(),
            failure: None,
            stray: 0,
            scratch: String::with_capacity(4096),
        }
    }

    /// An object that its lane refused, or was not even offered because the worker is behind.
    #[cold]
    #[inline(never)]
    fn late(&mut self, index: usize, text: &[u8], start: usize, end: usize, refused: Option<Refused>) {
        // What no waiting makes fit is not queued either: nothing behind it would ever leave.
        let worker = &mut self.workers[index];
        let is_summed = worker.is_behind && self.options.policy == Policy::Conflate;
        if !is_summed && !worker.lane.fits(end.saturating_sub(start)) {
            worker.late.miss();
            if !worker.is_behind {
                self.declare(index);
            }
            return;
        }
        let is_waited_for = self.options.policy == Policy::Block && !self.workers[index].late.is_closed();
        let refused = if is_waited_for { refused.or(Some(Refused::Full)) } else { refused };
        match refused {
            Some(Refused::Full) if is_waited_for => {
                if self.wait_for(index, text, start, end) {
                    return;
                }
            }
            Some(Refused::TooLong) => {
                self.workers[index].late.miss();
                self.declare(index);
                return;
            }
            Some(Refused::Broken) => self.workers[index].close(),
            Some(Refused::Full) | None => {}
        }
        let record = text.get(start..end).unwrap_or_default();
        let gap = self.gap();
        let worker = &mut self.workers[index];
        worker.is_behind = true;
        worker.late.absorb(record, &gap);
    }

    /// `block`: until the lane takes it. False: the run is to end, or the worker is gone.
    fn wait_for(&mut self, index: usize, text: &[u8], start: usize, end: usize) -> bool {
        loop {
            // Whoever is waited for may itself wait for another shard.
            self.publish();
            if self.workers[index].is_behind {
                self.catch_up(index);
            }
            let worker = &mut self.workers[index];
            if !worker.is_behind {
                match worker.lane.put(text, start, end) {
                    Ok(()) => {
                        worker.handed += 1;
                        return true;
                    }
                    Err(Refused::Full) => {}
                    Err(Refused::TooLong) => {
                        worker.late.miss();
                        self.declare(index);
                        return true;
                    }
                    Err(Refused::Broken) => worker.close(),
                }
            }
            let worker = &self.workers[index];
            if worker.late.is_closed() {
                return false;
            }
            if self.options.stop.load(Ordering::Relaxed) || self.keeper.is_over() {
                return false;
            }
            self.workers[index].lane.wait(WAIT);
        }
    }

    fn gap(&self) -> late::GapMaker {
        late::GapMaker {
            connection: self.connection,
            is_wanted: self.options.gap_records,
            restarts: self.keeper.restarts(),
        }
    }

    /// Tells a worker what it did not get, when its lane takes that; else it is behind.
    fn declare(&mut self, index: usize) {
        let gap = self.gap();
        let worker = &mut self.workers[index];
        worker.is_behind = !worker.late.declare(&mut worker.lane, &gap);
    }

    fn catch_up(&mut self, index: usize) {
        let gap = self.gap();
        let worker = &mut self.workers[index];
        let caught_up = worker.late.catch_up(&mut worker.lane, &gap, &mut worker.handed, &mut self.scratch);
        worker.is_behind = !caught_up;
    }

    /// Everything in the lanes may be seen; sleepers are woken once all of it is.
    fn publish(&mut self) {
        for worker in &mut self.workers {
            match worker.lane.hand_over() {
                Ok(wakes) => worker.wakes = wakes,
                Err(_) => worker.close(),
            }
        }
        for worker in &mut self.workers {
            if std::mem::take(&mut worker.wakes) {
                worker.lane.wake();
            }
        }
    }

    /// Programs that died, that are stuck, that closed an end.
    fn look_after(&mut self) {
        if self.failure.is_some() {
            return;
        }
        self.keeper.urge();
        if self.keeper.is_over() {
            self.lose_program();
        } else if self.keeper.is_due() {
            self.begin_again();
        } else if self.starting.is_some() {
            self.go_on();
        } else if self.keeper.is_running() && self.workers.iter().any(|worker| worker.is_behind) {
            self.judge_late_ones();
        }
    }

    fn judge_late_ones(&mut self) {
        let now = Instant::now();
        let mut closed = 0;
        for (index, worker) in self.workers.iter_mut().enumerate().filter(|(_, worker)| worker.is_behind) {
            let taken = worker.lane.taken_bytes();
            let stands = worker.late.stands_since(taken, now);
            if worker.late.is_closed() && stands >= CLOSED {
                closed += 1;
                if worker.late.report_once() {
                    self.reports.push_back(Failure::new(
                        format!(
                            "worker {index} closed its end, or wrote nonsense; its records are dropped from now on"
                        ),
                        "look what the workers' program says; --on-slow restart starts it again",
                    ));
                }
            }
            if self.options.policy == Policy::Restart
                && (stands >= STUCK || (worker.late.is_closed() && stands >= CLOSED))
            {
                self.reports.push_back(Failure::new(
                    format!("worker {index} takes nothing any more; its program is ended and started again"),
                    "look why it hangs; what it had not taken is declared in gap records",
                ));
                // It is lost once it has ended.
                self.keeper.ask_to_end(GRACE / 5);
                return;
            }
        }
        if closed == self.workers.len() {
            self.failure = Some(Failure::new(
                "every worker has closed its end, though their program runs",
                "let each worker read the descriptor or ring that it got as an argument",
            ));
        }
    }

    /// The program is over: nothing reaches it any more.
    fn lose_program(&mut self) {
        let verdict = self.keeper.verdict();
        self.workers.iter_mut().for_each(Worker::close);
        // Who asked us to end may have asked the program too; the summary says how it ended.
        if self.options.stop.load(Ordering::Relaxed) {
            return;
        }
        if self.options.policy == Policy::Restart && self.keeper.may_restart() {
            let wait = self.keeper.plan_restart();
            self.reports.push_back(Failure::new(
                format!("{verdict}; it is started again in {} ms", wait.as_millis()),
                "look what it says; what it had not taken is declared in gap records",
            ));
            return;
        }
        let remedy = if self.options.policy == Policy::Restart {
            "it ended each time it was started; look what it says"
        } else {
            "look what it says; --on-slow restart starts it again"
        };
        self.failure = Some(Failure::new(format!("the workers' program is gone: {verdict}"), remedy));
    }

    /// The feed does not wait for new lanes and a program's start: a thread makes them.
    fn begin_again(&mut self) {
        let Some(program) = self.options.program.clone() else { return };
        let (options, generation) = (self.options.clone(), self.keeper.restarts() + 1);
        match self.keeper.begin_again(program, move || L::open_all(&options, generation)) {
            Ok(starting) => self.starting = Some(starting),
            Err(failure) => self.not_started(failure),
        }
    }

    /// The program is there again, or it is not to be had.
    fn go_on(&mut self) {
        let Some(starting) = &self.starting else { return };
        let started = match starting.try_recv() {
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => Err(crate::child::thread_gone()),
            Ok(started) => started,
        };
        self.starting = None;
        let (lanes, child) = match started {
            Ok(started) => started,
            Err(failure) => return self.not_started(failure),
        };
        self.keeper.is_back(child);
        let mut old = Vec::with_capacity(lanes.len());
        for (worker, lane) in self.workers.iter_mut().zip(lanes) {
            old.push(std::mem::replace(&mut worker.lane, lane));
            worker.late.reopen();
        }
        if let Some(landings) = &mut self.landings {
            landings.forget_holds();
        }
        // Giving large rings back takes the kernel a while. Without a thread it is done here.
        let _ = std::thread::Builder::new().name("old lanes".into()).spawn(move || drop(old));
    }

    fn not_started(&mut self, failure: Failure) {
        if self.keeper.may_restart() {
            self.keeper.plan_restart();
            self.reports.push_back(failure);
        } else {
            self.failure = Some(failure);
        }
    }

    fn is_handed_over(&self) -> bool {
        self.workers.iter().all(|worker| worker.late.is_closed() || (!worker.is_behind && worker.lane.is_handed_over()))
    }

    /// What workers did not take until the end.
    fn give_up(&mut self) {
        for worker in &mut self.workers {
            let staged = if worker.late.is_closed() { 0 } else { worker.lane.give_up() };
            worker.handed = worker.handed.saturating_sub(staged);
            worker.late.lose(staged);
            worker.lane.end();
        }
    }
}

/// What the landings ask of the lanes.
struct Rings<'a, L>(&'a mut [Worker<L>]);

impl<L: Lane> area::Rings for Rings<'_, L> {
    fn head(&self, worker: usize) -> u64 {
        self.0.get(worker).map_or(0, |worker| worker.lane.head())
    }

    fn has_taken(&mut self, worker: usize, head: u64) -> bool {
        self.0.get_mut(worker).is_none_or(|worker| worker.late.is_closed() || worker.lane.has_taken(head))
    }

    fn refer(&mut self, worker: usize, refers: bool) {
        if let Some(worker) = self.0.get_mut(worker) {
            worker.lane.refer(refers);
        }
    }
}

impl<L: Lane> Transport for Lanes<L> {
    fn deal(&mut self, text: &[u8], objects: &[Object]) {
        for object in objects {
            let (start, end) = (object.start as usize, object.end as usize);
            let Some(worker) = self.workers.get_mut(object.worker as usize) else {
                self.stray += 1;
                continue;
            };
            let refused = if worker.is_behind { None } else { worker.lane.put(text, start, end).err() };
            if refused.is_none() && !worker.is_behind {
                worker.handed += 1;
            } else {
                self.late(object.worker as usize, text, start, end, refused);
            }
        }
    }

    fn landing(&mut self) -> Option<Landing> {
        self.landings.as_mut()?.next(&mut Rings(&mut self.workers))
    }

    fn landed(&mut self, bytes: usize) {
        if let Some(landings) = &mut self.landings {
            landings.landed(bytes);
        }
    }

    fn note(&mut self, worker: u32, record: &[u8]) {
        let Some(worker) = self.workers.get_mut(worker as usize) else { return };
        if !worker.is_behind && worker.lane.put(record, 0, record.len()).is_ok() {
            worker.late.gaps += 1;
        } else {
            worker.is_behind = true;
            worker.late.absorb_note(record);
        }
    }

    fn hand_over(&mut self) {
        for index in 0..self.workers.len() {
            if self.workers[index].is_behind {
                self.catch_up(index);
            }
        }
        self.publish();
        self.look_after();
    }

    fn connected(&mut self, connection: u64) {
        self.connection = connection;
    }

    fn is_behind(&self) -> bool {
        self.failure.is_none()
            && (self.keeper.is_over() || self.keeper.is_waiting() || self.starting.is_some() || !self.is_handed_over())
    }

    fn totals(&self) -> Totals {
        let mut totals = Totals { dropped: self.stray, restarts: self.keeper.restarts(), ..Totals::default() };
        for worker in &self.workers {
            totals.handed += worker.handed;
            totals.behind += u32::from(worker.is_behind);
            worker.late.add_to(&mut totals);
        }
        totals
    }

    fn lag_bytes(&mut self, worker: u32) -> u64 {
        let Some(worker) = self.workers.get_mut(worker as usize) else { return 0 };
        worker.lane.lag_bytes() + worker.late.queued_bytes()
    }

    fn report(&mut self) -> Option<Failure> {
        self.reports.pop_front()
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    fn finish(&mut self, patience: Duration) -> Result<Summary, Failure> {
        let until = Instant::now() + patience;
        loop {
            self.hand_over();
            if self.failure.is_some() || self.is_handed_over() || Instant::now() >= until {
                break;
            }
            std::thread::sleep(GLANCE);
        }
        if let Some(starting) = self.starting.take() {
            // Too late for it: dropped, it ends, and its lanes go.
            let _ = starting.recv_timeout(GRACE);
        }
        self.give_up();
        let left = until.saturating_duration_since(Instant::now()).max(GRACE);
        let (found, program) = self.keeper.finish(left, GRACE);
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        Ok(Summary { totals: self.totals(), counted: found.counted, counters_cpu_ns: found.cpu_ns, program })
    }
}

#[cfg(test)]
mod tests;
