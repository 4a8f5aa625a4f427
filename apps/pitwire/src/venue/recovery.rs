//! From a data directory to a venue that goes on where it was: newest snapshot, then the tail of the journal.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pitwire_engine::Engine;
use pitwire_host::{DirectoryLock, DirectoryStorage};
use pitwire_journal::{Journal, JournalConfig, OpenError, Recovery, Tail, TailGroup};
use pitwire_log::OutputChain;
use pitwire_log::image::decode_state;
use pitwire_model::{Event, Seq, Stamped, VenueNanos};
use pitwire_ports::{OutputHash, Storage};
use pitwire_sequencer::Sequencer;
use pitwire_views::{Change, Views};
use tracing::{info, warn};

use super::ledger::Ledger;
use crate::failure::Failure;

pub struct Recovered {
    pub sequencer: Sequencer<Ledger>,
    pub views: Views,
    pub chain: OutputChain,
    pub storage: Arc<dyn Storage>,
    /// Held for as long as the venue writes.
    pub lock: DirectoryLock,
}

/// State that a replay carries along.
pub struct Replay {
    pub engine: Engine,
    pub views: Views,
    pub chain: OutputChain,
    pub last: Seq,
    pub time: VenueNanos,
}

impl Replay {
    /// From the recovery's snapshot, or from nothing.
    pub fn start(recovery: &Recovery) -> Result<Self, Failure> {
        let Some(snapshot) = &recovery.snapshot else {
            let (engine, views, chain) = (Engine::new(), Views::new(), OutputChain::new());
            return Ok(Replay { engine, views, chain, last: Seq(0), time: VenueNanos(0) });
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
        })
    }

    /// Applies the tail group by group, holding each to the outputs it had when it was first applied. Another thread
    /// reads ahead. `visit` sees every command with its events, `checked` the state after every group.
    pub fn run(
        &mut self,
        recovery: &Recovery,
        storage: &dyn Storage,
        mut visit: impl FnMut(&Replay, &Stamped, &[Event]) -> Result<(), Failure>,
        mut checked: impl FnMut(&Replay) -> Result<(), Failure>,
    ) -> Result<u64, Failure> {
        let tail = recovery.tail(storage)?;
        thread::scope(|scope| {
            let (ahead, groups) = sync_channel(GROUPS_AHEAD);
            let (back, used) = sync_channel(GROUPS_AHEAD + 2);
            scope.spawn(move || read_ahead(tail, &ahead, &used));
            let (mut buffers, mut replayed) = (Buffers::default(), 0);
            for group in groups {
                let group = group?;
                for stamped in &group.commands {
                    self.apply(stamped, &mut buffers);
                    visit(self, stamped, &buffers.events)?;
                }
                replayed += group.commands.len() as u64;
                self.check(group.output)?;
                checked(self)?;
                // The reader may be done already.
                let _ = back.try_send(group.commands);
            }
            Ok(replayed)
        })
    }

    fn apply(&mut self, stamped: &Stamped, buffers: &mut Buffers) {
        buffers.events.clear();
        buffers.changes.clear();
        self.engine.apply(stamped, &mut buffers.events);
        self.chain.absorb(stamped, &buffers.events);
        self.views.observe(stamped, &buffers.events, &mut buffers.changes);
        self.last = stamped.seq;
        self.time = stamped.at;
    }

    fn check(&mut self, output: Option<OutputHash>) -> Result<(), Failure> {
        if output.is_none_or(|output| output.0 == self.chain.seal()) {
            return Ok(());
        }
        Err(Failure::new(format!("replaying up to command {} gives other events than were sent", self.last)).remedy(
            "the journal is whole, so this build applies other rules than the one that wrote it; start that build",
        ))
    }
}

/// Groups that are read before they are needed; with them in flight memory stays bounded.
const GROUPS_AHEAD: usize = 4;

#[derive(Default)]
struct Buffers {
    events: Vec<Event>,
    changes: Vec<Change>,
}

/// Until the log ends, cannot be read, or nobody wants any more. Vectors come back to be filled again.
fn read_ahead(mut tail: Tail<'_>, ahead: &SyncSender<Result<TailGroup, OpenError>>, used: &Receiver<Vec<Stamped>>) {
    while let Some(group) = tail.next_into(used.try_recv().unwrap_or_default()) {
        if ahead.send(group).is_err() {
            return;
        }
    }
}

/// How every part of this program reads and writes a journal. Small segments: a fresh venue starts in a blink.
pub fn journal_config() -> JournalConfig {
    JournalConfig { segment_bytes: 16 << 20, ..JournalConfig::default() }
}

pub fn recover(directory: &Path) -> Result<Recovered, Failure> {
    let opened = DirectoryStorage::open_or_create(directory);
    let storage = opened.map_err(|error| {
        Failure::new(format!("cannot use the data directory {}: {error}", directory.display()))
            .remedy("give another with --data, or make it writable")
    })?;
    let lock =
        DirectoryLock::acquire(directory).map_err(|error| Failure::new(error.to_string()).remedy(error.remedy()))?;
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let (journal, recovery) = Journal::open(Arc::clone(&storage), journal_config())?;
    for damaged in &recovery.damaged_snapshots {
        warn!(snapshot = damaged.name, fault = %damaged.fault, "damaged snapshot passed over; an older one is used");
    }
    if let Some(torn) = &recovery.torn {
        warn!(%torn, "cut: nothing in it had been acknowledged");
    }
    let mut replay = Replay::start(&recovery)?;
    let base = replay.last;
    let replayed = replay.run(&recovery, storage.as_ref(), |_, _, _| Ok(()), |_| Ok(()))?;
    if !recovery.is_fresh {
        info!(snapshot = base.0, replayed, last = replay.last.0, "recovered");
    }
    let Replay { engine, views, chain, last, time } = replay;
    let sequencer = Sequencer::resume(engine, Ledger::Disk(Box::new(journal)), last, time);
    Ok(Recovered { sequencer, views, chain, storage, lock })
}
