//! Snapshots: written under another name, renamed when whole, and chosen by whether they can be
//! read.

use crate::records::{
    NamedSnapshot, NamedSnapshots, SNAPSHOT_VERSION, SnapshotFault, SnapshotMeta,
    snapshot::{closing_hash, decode_snapshot, encode_snapshot},
};
use crate::{LogError, Storage};
use pitwire_model::Seq;

use crate::{
    DamagedSnapshot, JournalConfig, OpenError, RecoveredSnapshot, StartAt,
    error::while_doing,
    names::{self, Listing},
};

/// Writes a snapshot, for [`Journal::name_snapshot`](crate::Journal::name_snapshot). Without that
/// call no start uses it. May run on any thread while the journal is written.
///
/// `meta.seq` must be durable already, because a snapshot proves that the log reaches that far.
///
/// # Errors
///
/// Returns an I/O error. The unfinished file has been removed, if that was possible.
pub fn write_snapshot(storage: &dyn Storage, meta: &SnapshotMeta, payload: &[u8]) -> Result<NamedSnapshot, LogError> {
    let name = names::snapshot(meta.seq);
    let unfinished = names::unfinished(&name);
    let bytes = encode_snapshot(meta, payload);
    let written = write_and_rename(storage, &unfinished, &name, &bytes);
    if written.is_err() {
        // Frees the space, which cancels may need. A second failure changes nothing.
        let _ = storage.remove(&unfinished);
    }
    written.map(|()| NamedSnapshot { seq: meta.seq, hash: closing_hash(&bytes) })
}

fn write_and_rename(storage: &dyn Storage, unfinished: &str, name: &str, bytes: &[u8]) -> Result<(), LogError> {
    let failed = |doing: &'static str| move |source| LogError::Io { doing, file: name.to_owned(), source };
    let mut file = storage.create(unfinished, bytes.len() as u64).map_err(failed("create"))?;
    file.write_at(0, bytes).map_err(failed("write"))?;
    file.sync().map_err(failed("sync"))?;
    storage.rename(unfinished, name).map_err(failed("rename"))?;
    storage.sync_directory().map_err(failed("sync the directory of"))
}

/// The readable snapshots of a directory.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub used: Option<RecoveredSnapshot>,
    pub damaged: Vec<DamagedSnapshot>,
    pub later: Vec<RecoveredSnapshot>,
    /// Number of the newest readable one.
    pub newest_seq: Seq,
}

impl Choice {
    /// Prefers the log from its start. If every segment from the first one on exists, the oldest
    /// snapshot is verified like the others.
    pub(crate) fn prefer_the_beginning(&mut self, listing: &Listing) {
        let Some(used) = &self.used else { return };
        if listing.reaches(1, used.meta.position.segment) {
            self.later.splice(0..0, self.used.take());
        }
    }
}

/// Chooses among the snapshots of a directory. `named` are those of the superblock.
pub(crate) fn choose(
    storage: &dyn Storage,
    listing: &Listing,
    config: &JournalConfig,
    from: StartAt,
    named: &NamedSnapshots,
) -> Result<Choice, OpenError> {
    let mut choice = Choice::default();
    for seq in listing.snapshots.iter().rev() {
        let name = names::snapshot(*seq);
        let snapshot = match load(storage, *seq, config)?.and_then(|snapshot| judge(snapshot, from, named)) {
            Ok(snapshot) => snapshot,
            Err(fault) => {
                choice.damaged.push(DamagedSnapshot { name, fault });
                continue;
            }
        };
        choice.newest_seq = choice.newest_seq.max(*seq);
        let older = choice.used.replace(snapshot);
        if from == StartAt::NewestSnapshot {
            break;
        }
        choice.later.extend(older);
    }
    choice.later.reverse();
    Ok(choice)
}

/// Compares a readable snapshot with those that the superblock names.
///
/// A start uses only a named snapshot, unless an earlier build wrote the superblock and it names
/// none. [`StartAt::Oldest`] also reads snapshots that are not named, for `verify` to compare.
fn judge(
    snapshot: RecoveredSnapshot,
    from: StartAt,
    named: &NamedSnapshots,
) -> Result<RecoveredSnapshot, SnapshotFault> {
    let mut known = named.iter().flatten().peekable();
    let names_none = known.peek().is_none();
    match known.find(|known| known.seq == snapshot.meta.seq) {
        Some(known) if known.hash != snapshot.hash => Err(SnapshotFault::Replaced),
        Some(_) => Ok(snapshot),
        None if names_none || from == StartAt::Oldest => Ok(snapshot),
        None => Err(SnapshotFault::Unnamed),
    }
}

/// Returns the newest two readable snapshots, for a superblock that names none.
pub(crate) fn newest_two(storage: &dyn Storage, config: &JournalConfig) -> Result<NamedSnapshots, OpenError> {
    let listing = Listing::new(storage.list().map_err(while_doing("list", "the journal's directory"))?);
    let mut named = NamedSnapshots::default();
    let mut places = named.iter_mut();
    for seq in listing.snapshots.iter().rev() {
        let Ok(snapshot) = load(storage, *seq, config)? else { continue };
        let Some(place) = places.next() else { break };
        *place = Some(NamedSnapshot { seq: *seq, hash: snapshot.hash });
    }
    Ok(named)
}

/// Reads the snapshot with that number. The inner error says why it is unusable.
pub(crate) fn load(
    storage: &dyn Storage,
    seq: Seq,
    config: &JournalConfig,
) -> Result<Result<RecoveredSnapshot, SnapshotFault>, OpenError> {
    let name = names::snapshot(seq);
    let bytes = read_whole(storage, &name)?;
    match decode_snapshot(&bytes) {
        Ok((meta, _)) if meta.rule_version > config.rule_version => {
            Err(OpenError::NewerRules { file: name, found: meta.rule_version, known: config.rule_version })
        }
        // A whole snapshot under the name of another one.
        Ok((meta, _)) if meta.seq != seq => Ok(Err(SnapshotFault::BadLength)),
        Ok((meta, payload)) => {
            Ok(Ok(RecoveredSnapshot { meta, payload: payload.to_vec(), hash: closing_hash(&bytes) }))
        }
        Err(SnapshotFault::NewerFormat { found }) => {
            Err(OpenError::NewerFormat { file: name, found, known: SNAPSHOT_VERSION })
        }
        Err(fault) => Ok(Err(fault)),
    }
}

fn read_whole(storage: &dyn Storage, name: &str) -> Result<Vec<u8>, OpenError> {
    let file = storage.open(name).map_err(while_doing("open", name))?;
    let bytes = file.len().map_err(while_doing("measure", name))?;
    let bytes = usize::try_from(bytes).map_err(|_| OpenError::Io {
        doing: "read",
        file: name.to_owned(),
        source: std::io::ErrorKind::FileTooLarge.into(),
    })?;
    let mut whole = vec![0; bytes];
    let got = file.read_at(0, &mut whole).map_err(while_doing("read", name))?;
    whole.truncate(got);
    Ok(whole)
}
