//! Hostile input for recovery: a directory that is edited anywhere, or whose checksums are right
//! and whose content is arbitrary.
//!
//! The first byte of an input chooses the meaning of the rest:
//!
//! | byte | the rest |
//! |---|---|
//! | `E` | edits of a whole directory: file, what to do, place, bytes |
//! | `G` | a count, then the records of one more group, with right checksums, number and chain |
//! | `C` | commands one after another, each behind two bytes of length, sealed likewise |
//! | `S` | the payload of a snapshot with the right hash |
//! | else | bytes for every decoder by itself |

use std::sync::{Arc, LazyLock};

use pitwire_engine::Engine;
use pitwire_journal::records::group::{begin_group, read_group, read_header, seal_group};
use pitwire_journal::records::image::{decode_state, encode_state};
use pitwire_journal::records::snapshot::{decode_snapshot, encode_snapshot};
use pitwire_journal::records::{
    ChainState, GroupSeal, JournalPosition, OutputChain, SnapshotMeta, Superblock, decode_command, encode_command,
};
use pitwire_journal::{Journal, JournalConfig, OpenError, Recovery, StartAt, inspect, write_snapshot};
use pitwire_journal::{Log, LogError, OutputHash};
use pitwire_model::{
    AccountId, Amend, Command, InstrumentId, Label, Lots, OrderId, Seq, SequencedCommand, Side, Ticks, VenueNanos,
};
use pitwire_projections::Views;

use crate::storage::{Files, MemoryStorage};
use crate::venue::{NOW, limit, opening};

/// Position of the base's last command, and what continues it.
struct Base {
    files: Files,
    commands: Vec<SequencedCommand>,
    /// Metadata of the snapshot.
    snapshot: SnapshotMeta,
    end: JournalPosition,
    segment: String,
    /// One record each, for seeds.
    records: Vec<Vec<u8>>,
}

/// Small sizes, so that every case occurs within a few commands.
fn small() -> JournalConfig {
    JournalConfig {
        segment_bytes: 16 << 10,
        group_bytes: 8 << 10,
        superblock_interval_ns: 3,
        ..JournalConfig::default()
    }
}

static BASE: LazyLock<Base> = LazyLock::new(Base::build);

/// Accepts any directory: an accepted one must be a valid run, and a refused one must have
/// a remedy.
pub fn run(input: &[u8]) {
    match input {
        [b'E', edits @ ..] => judge_edited(&edited(edits)),
        [b'G', count, payload @ ..] => judge_sealed(&with_group(u32::from(*count), payload), StartAt::Oldest),
        [b'C', records @ ..] => {
            let (count, payload) = whole_records(records);
            judge_sealed(&with_group(count, &payload), StartAt::Oldest);
        }
        [b'S', payload @ ..] => judge_sealed(&with_snapshot(payload), StartAt::NewestSnapshot),
        bytes => decode_all(bytes),
    }
}

impl Base {
    /// Builds a directory: a venue's setup, a few orders, a snapshot, and groups of several sizes
    /// in two segments.
    fn build() -> Base {
        let storage = MemoryStorage::default();
        let mut engine = Engine::new();
        let (mut views, mut chain) = (Views::new(), OutputChain::new());
        let mut base = Base {
            files: Files::new(),
            commands: base_commands(),
            snapshot: SnapshotMeta {
                rule_version: 1,
                seq: Seq(0),
                at: VenueNanos(0),
                position: JournalPosition::START,
                chain: ChainState::default(),
            },
            end: JournalPosition::START,
            segment: String::new(),
            records: Vec::new(),
        };
        let (mut journal, _) =
            Journal::open(Arc::new(storage.clone()), small()).unwrap_or_else(|error| panic!("{error}"));
        let (mut events, mut changes) = (Vec::new(), Vec::new());
        let half = base.commands.len() / 2;
        for (at, stamped) in base.commands.iter().enumerate() {
            done(journal.append(stamped));
            events.clear();
            engine.apply(stamped, &mut events);
            chain.absorb(stamped, &events);
            views.observe(stamped, &events, &mut changes);
            let mut record = Vec::new();
            encode_command(stamped, &mut record);
            base.records.push(record);
            let is_last = at + 1 == base.commands.len();
            if at % 16 == 15 || at == half || is_last {
                done(journal.commit(OutputHash(chain.output())));
                if let Some(job) = journal.segment_wanted() {
                    done(journal.segment_ready(job.run()));
                }
            }
            if at == half {
                let mut payload = Vec::new();
                encode_state(&engine.image(), &views.image(), &mut payload);
                let position = journal.position();
                base.snapshot = SnapshotMeta {
                    seq: stamped.seq,
                    at: stamped.at,
                    position,
                    chain: chain.state().clone(),
                    ..base.snapshot
                };
                done(write_snapshot(&storage, &base.snapshot, &payload));
            }
        }
        base.end = journal.position();
        done(journal.close());
        base.files = storage.files();
        base.segment = format!("journal-{:08}.seg", base.end.segment);
        base
    }
}

/// Unwraps an outcome of the base; memory does not fail.
fn done<T>(outcome: Result<T, LogError>) {
    if let Err(error) = outcome {
        panic!("the base cannot be written: {error}");
    }
}

fn base_commands() -> Vec<SequencedCommand> {
    let mut commands = opening();
    let account = AccountId(0);
    for step in 0..60_u32 {
        let order = OrderId(u64::from(step) + 30);
        let instrument = InstrumentId(step % 4);
        let price = Ticks(1 + i64::from(step) * 3000);
        commands.push(match step % 6 {
            0 => Command::Cancel { account, order },
            1 => Command::Amend(Amend { account, order, price, lots: Lots(3), ..Amend::PLAIN }),
            2 => Command::CloseWindow,
            3 => limit(account, instrument, Side::Sell, price, Lots(2)),
            _ => limit(account, instrument, Side::Buy, price, Lots(4)),
        });
    }
    commands.extend([Command::SampleIndex, Command::EndDay]);
    let stamped = |(seq, mut command): (u64, Command)| {
        if let Command::Enter(order) = &mut command {
            order.id = OrderId(seq);
            order.label = Label::new("base").unwrap_or_default();
        }
        SequencedCommand { seq: Seq(seq), at: VenueNanos(NOW.0 + seq), command }
    };
    (1..).zip(commands).map(stamped).collect()
}

/// Applies edits, each with a head of seven bytes: file, action, three of position, two of length.
fn edited(mut edits: &[u8]) -> MemoryStorage {
    let mut files = BASE.files.clone();
    while let Some((&[file, action, low, middle, high, short, long], rest)) = edits.split_first_chunk::<7>() {
        let at = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        let count = usize::from(short) | usize::from(long) << 8;
        let (bytes, rest) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        edits = rest;
        let Some(name) = files.keys().nth(usize::from(file) % files.len().max(1)).cloned() else { break };
        match action % 6 {
            0 => drop(files.remove(&name)),
            1 => files.entry(name).or_default().truncate(at),
            2 => {
                let copy = files.get(&name).cloned().unwrap_or_default();
                files.insert(String::from_utf8_lossy(bytes).into_owned(), copy);
            }
            3 => {
                let held = files.entry(name).or_default();
                held.iter_mut().skip(at).take(count.max(512)).for_each(|byte| *byte = 0);
            }
            4 => {
                let held = files.entry(name).or_default();
                held.iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old ^= new);
            }
            _ => {
                let held = files.entry(name).or_default();
                held.iter_mut().skip(at).zip(bytes).for_each(|(old, new)| *old = *new);
            }
        }
    }
    MemoryStorage::holding(files)
}

/// Appends one group to the base.
fn with_group(commands: u32, payload: &[u8]) -> MemoryStorage {
    let mut files = BASE.files.clone();
    let end = BASE.end;
    let mut group = Vec::new();
    let start = begin_group(&mut group);
    group.extend_from_slice(payload);
    let seal = GroupSeal {
        rule_version: 1,
        number: end.group,
        first: end.next,
        commands,
        watermark: Seq(end.next.0 - 1),
        previous: end.previous,
        output: None,
    };
    seal_group(&mut group, start, &seal);
    let held = files.entry(BASE.segment.clone()).or_default();
    let at = usize::try_from(end.offset).unwrap_or(usize::MAX).min(held.len());
    held.truncate(at);
    held.extend_from_slice(&group);
    held.resize(held.len() + 4096, 0);
    MemoryStorage::holding(files)
}

/// Makes the length and the checksum of each record right, whatever it contains.
fn whole_records(mut bytes: &[u8]) -> (u32, Vec<u8>) {
    let (mut count, mut out) = (0, Vec::new());
    while let Some((&[short, long], rest)) = bytes.split_first_chunk::<2>() {
        let (body, rest) = rest.split_at_checked(usize::from(short) | usize::from(long) << 8).unwrap_or((rest, &[]));
        bytes = rest;
        out.extend_from_slice(body);
        count += 1;
    }
    (count, out)
}

/// Replaces the base's snapshot.
fn with_snapshot(payload: &[u8]) -> MemoryStorage {
    let mut files = BASE.files.clone();
    let file = encode_snapshot(&BASE.snapshot, payload);
    files.insert(format!("snapshot-{:020}.snap", BASE.snapshot.seq.0), file);
    MemoryStorage::holding(files)
}

/// Judges a directory with right checksums and arbitrary content.
fn judge_sealed(storage: &MemoryStorage, from: StartAt) {
    match inspect(storage, &small(), from) {
        Ok(recovery) => replayed(&recovery, storage, true),
        Err(error) => check_refusal(&error),
    }
}

/// Recovery may refuse an edited directory; an accepted one must equal the written one.
fn judge_edited(storage: &MemoryStorage) {
    for from in [StartAt::Oldest, StartAt::NewestSnapshot] {
        match inspect(storage, &small(), from) {
            Ok(recovery) => replayed(&recovery, storage, false),
            Err(error) => check_refusal(&error),
        }
    }
    // As a start does: cut the torn tail and continue.
    match Journal::open(Arc::new(storage.clone()), small()) {
        Ok((journal, recovery)) => {
            assert!(recovery.watermark <= recovery.last, "what was acknowledged is lost");
            drop(journal);
            let again = inspect(storage, &small(), StartAt::NewestSnapshot);
            let again = again.unwrap_or_else(|error| panic!("opened once and not again: {error}"));
            assert_eq!(again.last, recovery.last, "a second start finds something else");
        }
        Err(error) => check_refusal(&error),
    }
}

fn check_refusal(error: &OpenError) {
    assert!(!error.to_string().is_empty() && !error.remedy().is_empty());
}

/// Replays what was recovered. Damage must never pass as a run: the result equals the base or is an
/// error.
fn replayed(recovery: &Recovery, storage: &MemoryStorage, is_whole: bool) {
    let (mut engine, mut views) = (Engine::new(), Views::new());
    if let Some(snapshot) = &recovery.snapshot {
        let Ok((image, seen)) = decode_state(&snapshot.payload) else { return };
        let Ok(restored) = Engine::from_image(image) else { return };
        (engine, views) = (restored, Views::from_image(seen));
    }
    let Ok(tail) = recovery.tail(storage) else { return };
    let (mut events, mut changes, mut next) = (Vec::new(), Vec::new(), recovery.base().next());
    for group in tail {
        let Ok(group) = group else { return };
        for stamped in &group.commands {
            assert_eq!(stamped.seq, next, "a command is missing");
            next = next.next();
            if !is_whole {
                let index = usize::try_from(stamped.seq.0).unwrap_or(0).wrapping_sub(1);
                assert_eq!(Some(stamped), BASE.commands.get(index), "another command than was written");
            }
            events.clear();
            changes.clear();
            engine.apply(stamped, &mut events);
            views.observe(stamped, &events, &mut changes);
        }
    }
    let mut state = Vec::new();
    encode_state(&engine.image(), &views.image(), &mut state);
}

/// Whatever decodes must encode to the same bytes.
fn decode_all(bytes: &[u8]) {
    let _ = (read_header(bytes), read_group(bytes), decode_snapshot(bytes), Superblock::decode_file(bytes));
    if let Ok((stamped, used)) = decode_command(bytes) {
        let mut again = Vec::new();
        encode_command(&stamped, &mut again);
        assert_eq!(bytes.get(..used), Some(again.as_slice()), "one value, two encodings");
    }
    if let Ok((engine, views)) = decode_state(bytes) {
        let mut again = Vec::new();
        encode_state(&engine, &views, &mut again);
        assert_eq!(bytes, again, "one value, two encodings");
        drop(Engine::from_image(engine));
    }
}

/// Valid inputs of every kind, for a fuzzer to take apart.
pub fn seeds() -> Vec<Vec<u8>> {
    let vectors = include_str!("../../../contracts/vectors/log/v2.txt");
    let bytes = |digits: &str| hex::decode(digits).unwrap_or_default();
    let golden: Vec<(&str, Vec<u8>)> = vectors
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, digits)| (name, bytes(digits.trim())))
        .collect();
    let mut seeds: Vec<Vec<u8>> = golden.iter().map(|(_, bytes)| [b"D", bytes.as_slice()].concat()).collect();
    seeds.extend(golden.iter().map(|(_, bytes)| bytes.clone()));
    for (name, record) in &golden {
        if name.starts_with("command") {
            seeds.push(behind_base(record));
        }
    }
    seeds.extend(BASE.records.iter().map(|record| behind_base(record)));
    for (file, held) in (0_u8..).zip(BASE.files.values()) {
        seeds.push(vec![b'E', file, 0, 0, 0, 0, 0, 0]);
        for place in (0..held.len()).step_by(1024) {
            let [low, middle, high, ..] = place.to_le_bytes();
            for action in [1, 3, 4] {
                seeds.push(vec![b'E', file, action, low, middle, high, 1, 0, 0x10]);
            }
        }
    }
    if let Some(Ok((_, payload))) =
        BASE.files.iter().find(|(name, _)| name.starts_with("snapshot")).map(|(_, file)| decode_snapshot(file))
    {
        seeds.push([b"S", payload].concat());
        seeds.push(payload.to_vec());
    }
    seeds
}

/// Renumbers a command, so that it follows the base.
fn behind_base(record: &[u8]) -> Vec<u8> {
    let Ok((mut stamped, _)) = decode_command(record) else { return Vec::new() };
    stamped.seq = BASE.end.next;
    stamped.at = VenueNanos(NOW.0 + 1_000_000);
    let mut body = Vec::new();
    encode_command(&stamped, &mut body);
    let [short, long, ..] = body.len().to_le_bytes();
    [&[b'C', short, long], body.as_slice()].concat()
}
