//! The sequencer: numbers, times, logs and applies commands.
//!
//! Holds       1. sequence numbers are consecutive from 1, and venue time never goes back;
//!             2. the id of an order is the number of the command that entered it;
//!             3. a command that the log refused has not been applied;
//!             4. a command on which the engine panicked is in the log: see `guard`.
//! Leaves out  when to commit, and what may leave the process before that: see `crates/server`.
//! Start at    [`Sequencer::submit`].

use pitwire_engine::Engine;
use pitwire_journal::{Log, LogError, OutputHash};
use pitwire_model::{Command, Event, OrderId, Seq, SequencedCommand, VenueNanos};

use crate::guard::{self, EnginePanic};

pub struct Sequencer<L> {
    engine: Engine,
    log: L,
    last: Seq,
    time: VenueNanos,
}

impl<L: Log> Sequencer<L> {
    /// Takes over an engine that has applied every command up to `last`.
    pub fn resume(engine: Engine, log: L, last: Seq, time: VenueNanos) -> Self {
        Sequencer { engine, log, last, time }
    }

    /// Numbers, times, logs and applies one command, and appends its events to `events`.
    ///
    /// A time in the past counts as now, because venue time never goes back.
    ///
    /// # Errors
    ///
    /// Returns an error if the log refuses the command. The command has then not been applied.
    pub fn submit(
        &mut self,
        at: VenueNanos,
        command: Command,
        events: &mut Vec<Event>,
    ) -> Result<SequencedCommand, LogError> {
        let stamped = self.enlist(at, command)?;
        self.engine.apply(&stamped, events);
        Ok(stamped)
    }

    /// As [`Sequencer::submit`], and catches a panic of the engine. After one, call
    /// [`Sequencer::replace_engine`] before anything else.
    ///
    /// # Errors
    ///
    /// Returns an error if the log refuses the command. The command has then not been applied.
    pub fn submit_guarded(
        &mut self,
        at: VenueNanos,
        command: Command,
        events: &mut Vec<Event>,
    ) -> Result<(SequencedCommand, Result<(), EnginePanic>), LogError> {
        let stamped = self.enlist(at, command)?;
        let applied = guard::apply_guarded(&mut self.engine, &stamped, events);
        Ok((stamped, applied))
    }

    fn enlist(&mut self, at: VenueNanos, command: Command) -> Result<SequencedCommand, LogError> {
        let stamped = stamp(self.last.next(), at.max(self.time), command);
        self.log.append(&stamped)?;
        self.last = stamped.seq;
        self.time = stamped.at;
        Ok(stamped)
    }

    /// Replaces the engine by one that has applied every command of the log.
    pub fn replace_engine(&mut self, engine: Engine) {
        self.engine = engine;
    }

    /// Makes every submitted command durable. `output` is the hash of all events up to now.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be written. The venue must then stop.
    pub fn commit(&mut self, output: OutputHash) -> Result<Seq, LogError> {
        self.log.commit(output)
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn log(&self) -> &L {
        &self.log
    }

    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    pub fn last(&self) -> Seq {
        self.last
    }

    pub fn time(&self) -> VenueNanos {
        self.time
    }

    /// Returns the log, to be closed.
    pub fn into_log(self) -> L {
        self.log
    }

    /// Returns the number of the newest command that would survive a power cut.
    pub fn durable(&self) -> Seq {
        self.log.durable_position()
    }

    pub fn has_uncommitted(&self) -> bool {
        self.log.durable_position() < self.last
    }
}

fn stamp(seq: Seq, at: VenueNanos, mut command: Command) -> SequencedCommand {
    if let Command::Enter(order) = &mut command {
        order.id = OrderId(seq.0);
    }
    SequencedCommand { seq, at, command }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::Epoch;

    /// A log that accepts a given number of commands and then fails.
    struct ShortLog {
        taken: Vec<SequencedCommand>,
        room: usize,
    }

    impl Log for ShortLog {
        fn append(&mut self, entry: &SequencedCommand) -> Result<(), LogError> {
            if self.taken.len() == self.room {
                return Err(LogError::Poisoned);
            }
            self.taken.push(entry.clone());
            Ok(())
        }

        fn commit(&mut self, _: OutputHash) -> Result<Seq, LogError> {
            Ok(self.durable_position())
        }

        fn durable_position(&self) -> Seq {
            Seq(self.taken.len() as u64)
        }

        fn follow_from(&self, from: Seq, visit: &mut dyn FnMut(SequencedCommand)) -> Result<(), LogError> {
            self.taken.iter().filter(|entry| entry.seq >= from).cloned().for_each(visit);
            Ok(())
        }
    }

    fn start(epoch: u64) -> Command {
        Command::StartEpoch { epoch: Epoch(epoch) }
    }

    #[test]
    fn numbers_are_consecutive_and_time_never_goes_back() {
        let log = ShortLog { taken: Vec::new(), room: 10 };
        let mut sequencer = Sequencer::resume(Engine::new(), log, Seq(0), VenueNanos(50));
        let mut events = Vec::new();
        let stamps: Vec<_> = [100, 40, 120]
            .map(|at| sequencer.submit(VenueNanos(at), start(at), &mut events).unwrap())
            .iter()
            .map(|stamped| (stamped.seq.0, stamped.at.0))
            .collect();
        assert_eq!(stamps, [(1, 100), (2, 100), (3, 120)]);
        assert_eq!(events.len(), 3);
    }

    #[test]
    fn refused_command_is_not_applied() {
        let log = ShortLog { taken: Vec::new(), room: 1 };
        let mut sequencer = Sequencer::resume(Engine::new(), log, Seq(0), VenueNanos(0));
        let mut events = Vec::new();
        sequencer.submit(VenueNanos(1), start(1), &mut events).unwrap();
        assert!(sequencer.submit(VenueNanos(2), start(2), &mut events).is_err());
        assert_eq!((sequencer.last(), sequencer.engine().epoch(), events.len()), (Seq(1), Epoch(1), 1));
    }
}
