//! Recordings as written, cut at every byte, and damaged at every byte.

use std::io::Cursor;

use super::*;
use pitwire_random::SplitMix64;

type Message = (u64, bool, Vec<u8>);

fn messages(count: u64) -> Vec<Message> {
    let mut random = SplitMix64::new(3);
    let message = |n: u64| {
        let bytes = if n % 50 == 49 { 100_000 } else { random.below(300) };
        (n * 1_000_003, n.is_multiple_of(3), (0..bytes).map(|i| u8::try_from((n + i / 7) % 251).unwrap()).collect())
    };
    (0..count).map(message).collect()
}

fn written(messages: &[Message]) -> Vec<u8> {
    let mut writer = RecordingWriter::new(Vec::new(), 1_700_000_000_000_000_000, "ws://example/").unwrap();
    for (ns, is_binary, payload) in messages {
        writer.add(*ns, *is_binary, payload).unwrap();
    }
    writer.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<(Vec<Message>, FileEnding), RecordingError> {
    let mut reader = RecordingReader::new(Cursor::new(bytes))?;
    let mut found = Vec::new();
    while let Some((ns, is_binary, payload)) = reader.next_message()? {
        found.push((ns, is_binary, payload.to_vec()));
    }
    Ok((found, reader.ending))
}

#[test]
fn a_recording_returns_what_was_written() {
    let messages = messages(400);
    let (found, ending) = read(&written(&messages)).unwrap();
    assert!(found == messages);
    assert!(matches!(ending, FileEnding::Whole { messages: 400, blocks } if blocks > 2), "{ending:?}");
    assert_eq!(read(&written(&[])).unwrap(), (vec![], FileEnding::Whole { messages: 0, blocks: 0 }));
}

#[test]
fn times_start_at_the_first_message_and_never_go_back() {
    let late = vec![(5_000_000_000, false, b"a".to_vec()), (4_000_000_000, false, b"b".to_vec())];
    let (found, _) = read(&written(&late)).unwrap();
    assert_eq!(found, [(0, false, b"a".to_vec()), (0, false, b"b".to_vec())]);
}

#[test]
fn a_cut_file_returns_its_whole_blocks() {
    let messages = messages(120);
    let bytes = written(&messages);
    let mut most = 0;
    for cut in (0..bytes.len()).step_by(997).chain(bytes.len() - 40..bytes.len()) {
        match read(&bytes[..cut]) {
            Ok((found, FileEnding::Cut { at })) => {
                assert!(at <= cut as u64);
                assert!(found[..] == messages[..found.len()], "cut at {cut}");
                assert!(found.len() >= most, "cut at {cut}");
                most = found.len();
            }
            Ok((_, ending)) => panic!("cut at {cut}: {ending:?}"),
            // Inside the header.
            Err(error) => assert!(cut < 40, "cut at {cut}: {error}"),
        }
    }
    assert_eq!(most, 120, "only index or footer were missing");
}

#[test]
fn a_changed_byte_is_detected_and_located() {
    let messages = messages(60);
    let bytes = written(&messages);
    let mut silent = 0;
    for at in (0..bytes.len()).step_by(251).chain(0..200) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        match read(&changed) {
            // In the magic number of the footer: a file without a footer counts as cut, and all its
            // blocks are whole.
            Ok((found, FileEnding::Cut { .. })) => assert!(found == messages, "changed at {at}"),
            Ok((found, _)) => {
                assert!(found == messages, "changed at {at}");
                silent += 1;
            }
            Err(error) => assert!(error.at <= at as u64, "changed at {at}: {error}"),
        }
    }
    assert_eq!(silent, 0, "an unnoticed change");
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"short", b"PAR1 and more than twenty bytes", b"{\"ev\":\"T\"}\n{\"ev\":\"T\"}\n"] {
        let error = read(bytes).unwrap_err();
        assert_eq!(error.at, 0);
        assert!(error.what.contains("no recording"), "{error}");
    }
}

#[test]
fn old_blocks_are_written_in_time() {
    let mut writer = RecordingWriter::new(Vec::new(), 0, "").unwrap();
    writer.add(0, false, b"x").unwrap();
    let before = writer.bytes();
    writer.tick(BLOCK_NS - 1).unwrap();
    assert_eq!(writer.bytes(), before);
    writer.tick(BLOCK_NS).unwrap();
    assert!(writer.bytes() > before);
}
