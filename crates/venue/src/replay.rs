//! Replaying the journal and comparing its events with the events that were sent.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;
use std::thread;

use pitwire_engine::look_ahead::UpcomingCommand;
use pitwire_engine::{Engine, RULE_VERSION};
use pitwire_failure::Failure;
use pitwire_journal::records::OutputChain;
use pitwire_journal::records::image::decode_state;
use pitwire_journal::{OpenError, OutputHash, Recovery, Storage};
use pitwire_model::{Event, InstrumentId, Seq, SequencedCommand, VenueNanos};
use pitwire_projections::{Change, Views};
use tracing::error;

use crate::guard::{EnginePanic, apply_guarded, instrument_of, refusal};
use crate::read_ahead::{BATCHES_AHEAD, ReplayBatch, read_ahead};

/// Called from time to time with what is done and with the whole, usually in commands.
pub type ReplayProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// Commands between two reports of the progress.
const REPORT_EVERY: u64 = 4_096;

/// Reports the progress of a replay of the commands after `base`, at every 4,096th command.
pub fn report_progress(progress: ReplayProgress<'_>, base: Seq, at: Seq, last: Seq) {
    if at.0.is_multiple_of(REPORT_EVERY) || at == last {
        progress(at.0.saturating_sub(base.0), last.0.saturating_sub(base.0));
    }
}

/// The state of a replay.
pub struct Replay {
    pub engine: Engine,
    pub views: Views,
    pub chain: OutputChain,
    pub last: Seq,
    pub time: VenueNanos,
    /// Rule version of the group whose commands are being applied.
    pub rule_version: u16,
    /// Commands that are refused instead of applied.
    quarantined: BTreeSet<Seq>,
    /// Quarantined commands for which the log has no quarantine record yet.
    pub(crate) found: Vec<UnrecordedPanic>,
}

/// A command on which the engine panicked, and the instrument that it concerns.
#[derive(Clone, Copy, Debug)]
pub struct UnrecordedPanic {
    pub seq: Seq,
    pub instrument: Option<InstrumentId>,
}

impl Replay {
    /// Starts from the recovery's snapshot, or from the first command if there is none.
    ///
    /// # Errors
    ///
    /// Returns a failure if the snapshot cannot be decoded.
    pub fn start(recovery: &Recovery) -> Result<Self, Failure> {
        let Some(snapshot) = &recovery.snapshot else {
            let (engine, views, chain) = (Engine::new(), Views::new(), OutputChain::new());
            let (quarantined, found) = (recovery.quarantined.clone(), Vec::new());
            return Ok(Replay {
                engine,
                views,
                chain,
                last: Seq(0),
                time: VenueNanos(0),
                rule_version: RULE_VERSION,
                quarantined,
                found,
            });
        };
        let seq = snapshot.meta.seq;
        let unusable = |why: String| {
            Failure::new(format!("the snapshot at command {seq} is whole but cannot be used: {why}"))
                .remedy("start the build that wrote it, or restore the directory from a copy")
        };
        let (engine, views) = decode_state(&snapshot.payload).map_err(|error| unusable(error.to_string()))?;
        let engine = Engine::from_image(engine).map_err(|error| unusable(error.0.into()))?;
        Ok(Replay {
            engine,
            views: Views::from_image(views),
            chain: OutputChain::resume(snapshot.meta.chain.clone()),
            last: seq,
            time: snapshot.meta.at,
            rule_version: RULE_VERSION,
            quarantined: recovery.quarantined.clone(),
            found: Vec::new(),
        })
    }

    /// As [`Replay::start`], and refuses the commands in `skipped`, on which the engine panicked.
    ///
    /// # Errors
    ///
    /// Fails like [`Replay::start`].
    pub fn start_without(recovery: &Recovery, skipped: &BTreeSet<Seq>) -> Result<Self, Failure> {
        let mut replay = Replay::start(recovery)?;
        replay.quarantined.extend(skipped);
        Ok(replay)
    }

    /// Returns the state at the end of the log. It starts again without each command on which the
    /// engine panics.
    ///
    /// # Errors
    ///
    /// Returns a failure if the log cannot be read, or if it produces other events than were sent.
    pub fn whole(recovery: &Recovery, storage: &dyn Storage) -> Result<Self, Failure> {
        Replay::whole_with_progress(recovery, storage, &mut |_, _| {})
    }

    /// As [`Replay::whole`], and reports its progress.
    ///
    /// # Errors
    ///
    /// As [`Replay::whole`].
    pub fn whole_with_progress(
        recovery: &Recovery,
        storage: &dyn Storage,
        progress: ReplayProgress<'_>,
    ) -> Result<Self, Failure> {
        let mut skipped = BTreeSet::new();
        loop {
            let mut replay = Replay::start_without(recovery, &skipped)?;
            match replay.run_pipelined(recovery, storage, progress) {
                Ok(()) => return Ok(replay),
                Err(ReplayError::EngineFailed(seq)) if skipped.insert(seq) => {
                    error!(seq = seq.0, "engine panicked on this command; skipping it");
                }
                Err(interrupted) => return Err(interrupted.into()),
            }
        }
    }

    /// Applies the log group by group and compares the events with those that were sent. Another
    /// thread reads ahead.
    ///
    /// `visit` sees every command with its events, `checked` the state after each group. Returns
    /// the number of commands.
    ///
    /// # Errors
    ///
    /// Stops at the first command on which the engine panics, and at the first failure of the log
    /// or of a visitor.
    pub fn run(
        &mut self,
        recovery: &Recovery,
        storage: &dyn Storage,
        mut visit: impl FnMut(&Replay, &SequencedCommand, &[Event]) -> Result<(), Failure>,
        mut checked: impl FnMut(&Replay) -> Result<(), Failure>,
    ) -> Result<u64, ReplayError> {
        let tail = recovery.tail(storage)?;
        thread::scope(|scope| {
            let (ahead, batches) = sync_channel(BATCHES_AHEAD);
            let (back, used) = sync_channel(BATCHES_AHEAD + 2);
            scope.spawn(move || read_ahead(tail, &ahead, &used));
            let (mut events, mut changes, mut replayed) = (Vec::new(), Vec::new(), 0);
            for batch in batches {
                let batch: ReplayBatch = batch?;
                let mut from = 0;
                for (group, end) in &batch.groups {
                    self.follow(group.rule_version);
                    for (at, stamped) in batch.commands.iter().enumerate().take(*end).skip(from) {
                        events.clear();
                        changes.clear();
                        self.look_ahead(&batch.commands, at);
                        self.apply(stamped, recovery, &mut events)?;
                        observe(&mut self.chain, &mut self.views, stamped, &events, &mut changes);
                        visit(self, stamped, &events)?;
                    }
                    from = *end;
                    check(&mut self.chain, self.last, group.output)?;
                    checked(self)?;
                }
                replayed += batch.commands.len() as u64;
                // The reader may have ended already.
                let _ = back.try_send(batch);
            }
            Ok(replayed)
        })
    }

    /// Returns whether a command was refused instead of applied.
    pub fn is_quarantined(&self, seq: Seq) -> bool {
        !self.quarantined.is_empty() && self.quarantined.contains(&seq)
    }

    /// HOT. Prefetches the state that the commands after `at` will touch.
    #[inline]
    pub(crate) fn look_ahead(&mut self, commands: &[SequencedCommand], at: usize) {
        self.engine.look_ahead(|n| commands.get(at + n).and_then(|behind| UpcomingCommand::of(&behind.command)));
    }

    /// Sets the rules under which the next commands were first applied.
    pub(crate) fn follow(&mut self, rule_version: u16) {
        self.rule_version = rule_version;
        self.engine.follow(rule_version);
    }

    /// Applies a command and appends its events.
    pub(crate) fn apply(
        &mut self,
        stamped: &SequencedCommand,
        recovery: &Recovery,
        events: &mut Vec<Event>,
    ) -> Result<(), ReplayError> {
        if self.is_quarantined(stamped.seq) {
            if !recovery.quarantined.contains(&stamped.seq) {
                self.found.push(UnrecordedPanic { seq: stamped.seq, instrument: instrument_of(stamped, &self.engine) });
            }
            events.push(refusal(stamped));
        } else {
            apply_guarded(&mut self.engine, stamped, events)
                .map_err(|EnginePanic| ReplayError::EngineFailed(stamped.seq))?;
        }
        self.last = stamped.seq;
        self.time = stamped.at;
        Ok(())
    }
}

pub(crate) fn observe(
    chain: &mut OutputChain,
    views: &mut Views,
    stamped: &SequencedCommand,
    events: &[Event],
    changes: &mut Vec<Change>,
) {
    chain.absorb(stamped, events);
    views.observe(stamped, events, changes);
}

/// Compares a group that ends with command `last` with the events that were sent for it.
pub(crate) fn check(chain: &mut OutputChain, last: Seq, output: Option<OutputHash>) -> Result<(), Failure> {
    if output.is_none_or(|output| output.0 == chain.seal()) {
        return Ok(());
    }
    Err(Failure::new(format!("replaying up to command {last} gives other events than were sent"))
        .remedy("the journal is whole, so this build applies other rules than the one that wrote it; start that build"))
}

/// Why a replay stopped early.
pub enum ReplayError {
    /// The engine panicked on this command. The state is incomplete.
    EngineFailed(Seq),
    Failure(Failure),
}

impl From<Failure> for ReplayError {
    fn from(failure: Failure) -> Self {
        ReplayError::Failure(failure)
    }
}

impl From<OpenError> for ReplayError {
    fn from(error: OpenError) -> Self {
        ReplayError::Failure(error.into())
    }
}

impl From<ReplayError> for Failure {
    fn from(interrupted: ReplayError) -> Self {
        match interrupted {
            ReplayError::Failure(failure) => failure,
            ReplayError::EngineFailed(seq) => Failure::new(format!("command {seq} makes the engine fail"))
                .remedy("start the venue: it quarantines the command and halts its instrument"),
        }
    }
}
