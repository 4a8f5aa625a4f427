//! The bytes of version 2 are a promise: they were made by another program from the written layouts
//! (`golden.py`). A new layout is a new version and a new file, never an edit of this one.

use crate::samples;
use std::collections::BTreeMap;

use pitwire_journal::records::{
    ChainState, GroupSeal, JournalPosition, NamedSnapshot, NamedSnapshots, OutputChain, SnapshotFault, SnapshotMeta,
    StreamHash, Superblock, decode_command, encode_command, encode_event, encode_public_event,
    group::{begin_group, read_group, seal_group},
    snapshot::{decode_snapshot, encode_snapshot},
};
use pitwire_model::{Command, Event, Seq, SequencedCommand, VenueNanos};

const AT: VenueNanos = VenueNanos(1_700_000_000_000_000_000);

fn golden_of(file: &'static str) -> BTreeMap<&'static str, Vec<u8>> {
    file.lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, digits)| (name, hex::decode(digits).unwrap()))
        .collect()
}

fn golden() -> BTreeMap<&'static str, Vec<u8>> {
    golden_of(include_str!("../../../../contracts/vectors/log/v2.txt"))
}

fn golden_snapshot() -> BTreeMap<&'static str, Vec<u8>> {
    golden_of(include_str!("../../../../contracts/vectors/log/v4-snapshot.txt"))
}

fn golden_of_sessions() -> BTreeMap<&'static str, Vec<u8>> {
    golden_of(include_str!("../../../../contracts/vectors/log/v2-sessions.txt"))
}

fn golden_of_reporting() -> BTreeMap<&'static str, Vec<u8>> {
    golden_of(include_str!("../../../../contracts/vectors/log/v2-reporting.txt"))
}

fn golden_of_named_snapshots() -> BTreeMap<&'static str, Vec<u8>> {
    golden_of(include_str!("../../../../contracts/vectors/log/v2-named-snapshots.txt"))
}

fn golden_of_signatures() -> BTreeMap<&'static str, Vec<u8>> {
    golden_of(include_str!("../../../../contracts/vectors/log/v2-signatures.txt"))
}

fn golden_of_flows() -> BTreeMap<&'static str, Vec<u8>> {
    golden_of(include_str!("../../../../contracts/vectors/log/v2-flows.txt"))
}

#[test]
fn command_records_never_change() {
    commands_are(&golden(), samples::commands());
    commands_are(&golden_of_sessions(), samples::sessions::commands());
    commands_are(&golden_of_reporting(), samples::reporting::commands());
    commands_are(&golden_of_signatures(), samples::signatures::commands());
    commands_are(&golden_of_flows(), samples::flows::commands());
}

fn commands_are(golden: &BTreeMap<&str, Vec<u8>>, commands: Vec<(&str, SequencedCommand)>) {
    assert_eq!(commands.len(), golden.keys().filter(|name| name.starts_with("command.")).count());
    for (name, stamped) in commands {
        let bytes = &golden[format!("command.{name}").as_str()];
        assert_eq!(decode_command(bytes), Ok((stamped.clone(), bytes.len())), "{name}");
        let mut encoded = Vec::new();
        encode_command(&stamped, &mut encoded);
        assert_eq!(&encoded, bytes, "{name}");
    }
}

#[test]
fn event_bytes_never_change() {
    events_are(&golden(), samples::events());
    events_are(&golden_of_sessions(), samples::sessions::events());
    events_are(&golden_of_reporting(), samples::reporting::events());
    events_are(&golden_of_flows(), samples::flows::events());
}

fn events_are(golden: &BTreeMap<&str, Vec<u8>>, events: Vec<(&str, Event)>) {
    assert_eq!(events.len(), golden.keys().filter(|name| name.starts_with("event.")).count());
    for (name, event) in events {
        let mut encoded = Vec::new();
        encode_event(&event, &mut encoded);
        assert_eq!(encoded, golden[format!("event.{name}").as_str()], "{name}");
        let mut public = Vec::new();
        let is_public = encode_public_event(AT, &event, &mut public);
        assert_eq!(is_public, event.is_public(), "{name}");
        assert_eq!(Some(&public).filter(|_| is_public), golden.get(format!("public.{name}").as_str()), "{name}");
        assert!(is_public || public.is_empty(), "{name}");
    }
}

#[test]
fn the_chains_never_change() {
    let golden = golden();
    let all: Vec<Event> = samples::events().into_iter().map(|(_, event)| event).collect();
    let quiet: Vec<Event> = all.iter().filter(|event| !event.is_public()).cloned().collect();
    let command = |seq, at| SequencedCommand { seq: Seq(seq), at: VenueNanos(at), command: Command::EndDay };
    let mut chain = OutputChain::new();
    chain.absorb(&command(1, AT.0), &all);
    chain.seal();
    // A chain resumed from a snapshot continues as the original.
    let mut chain = OutputChain::resume(chain.state().clone());
    chain.absorb(&command(2, AT.0 + 5), &quiet);
    let (output, tape, state) = (chain.seal(), chain.tape(), chain.state());
    assert_eq!((&output[..], &tape[..]), (&golden["chain.output"][..], &golden["chain.tape"][..]));
    assert_eq!((state.commands, state.events, state.orders, state.trades), (2, (all.len() + quiet.len()) as u64, 4, 1));
}

#[test]
fn groups_never_change() {
    let golden = golden();
    let commands: Vec<SequencedCommand> = samples::commands().into_iter().map(|(_, stamped)| stamped).collect();
    let count = commands.len() as u64;
    let mut bytes = Vec::new();
    let seal = GroupSeal {
        rule_version: 3,
        number: 1,
        first: Seq(1),
        commands: u32::try_from(count).unwrap(),
        watermark: Seq(0),
        previous: [0; 32],
        output: Some([9; 32]),
    };
    let first = write_group(&mut bytes, commands, &seal);
    let (after, last) = (Seq(count + 1), Seq(count + 200));
    let closing = (after.0..=last.0).map(|seq| SequencedCommand {
        seq: Seq(seq),
        at: VenueNanos(2000),
        command: Command::CloseWindow,
    });
    let seal = GroupSeal {
        number: 2,
        first: after,
        commands: 200,
        watermark: Seq(count),
        previous: first,
        output: None,
        ..seal
    };
    let second = write_group(&mut bytes, closing.collect(), &seal);
    assert_eq!(bytes, [&golden["group.1"][..], &golden["group.2"][..]].concat());
    let read = read_group(&golden["group.2"]).unwrap();
    assert_eq!((read.header.last(), read.header.previous, read.hash), (last, first, second));
    assert_eq!((read.header.output, read.header.watermark), (None, Seq(count)));

    // Earlier builds named no snapshots.
    let snapshots = NamedSnapshots::default();
    let superblock =
        Superblock { generation: 6, watermark: last, group: 2, segment: 1, offset: 12_288, hash: second, snapshots };
    assert_eq!(superblock.encode(), golden["superblock"]);
    assert_eq!(Superblock::decode_file(&golden["superblock"]), Ok(superblock));
    let [newest, before] = [(9, 8), (5, 4)].map(|(seq, byte)| Some(NamedSnapshot { seq: Seq(seq), hash: [byte; 32] }));
    for (name, snapshots) in [("superblock.one", [newest, None]), ("superblock.two", [newest, before])] {
        let superblock = Superblock { snapshots, ..superblock };
        let golden = &golden_of_named_snapshots()[name];
        assert_eq!(&superblock.encode(), golden, "{name}");
        assert_eq!(Superblock::decode_file(golden), Ok(superblock), "{name}");
    }
}

fn write_group(bytes: &mut Vec<u8>, commands: Vec<SequencedCommand>, seal: &GroupSeal) -> [u8; 32] {
    let start = begin_group(bytes);
    for stamped in &commands {
        encode_command(stamped, bytes);
    }
    seal_group(bytes, start, seal)
}

fn tape_of(bytes: &[u8]) -> StreamHash {
    let mut tape = StreamHash::default();
    tape.push(bytes);
    tape
}

#[test]
fn snapshots_never_change() {
    let golden = golden_snapshot();
    let meta = SnapshotMeta {
        rule_version: 3,
        seq: Seq(18),
        at: VenueNanos(1018),
        position: JournalPosition { segment: 2, offset: 8192, group: 5, next: Seq(19), previous: [1; 32] },
        chain: ChainState {
            output: [2; 32],
            tape: tape_of(b"a short tape"),
            commands: 18,
            events: 19,
            orders: 20,
            trades: 21,
        },
    };
    let payload = b"payload".repeat(300);
    assert_eq!(encode_snapshot(&meta, &payload), golden["snapshot"]);
    assert_eq!(decode_snapshot(&golden["snapshot"]), Ok((meta, &payload[..])));
}

/// The payload of an earlier layout is never given to a decoder of this one.
#[test]
fn a_snapshot_of_the_layout_before_is_known_by_its_number() {
    assert_eq!(decode_snapshot(&self::golden()["snapshot"]), Err(SnapshotFault::OlderFormat { found: 2 }));
    let third = golden_of(include_str!("../../../../contracts/vectors/log/v3-snapshot.txt"));
    assert_eq!(decode_snapshot(&third["snapshot"]), Err(SnapshotFault::OlderFormat { found: 3 }));
}
