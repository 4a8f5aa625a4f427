//! Sources of records: pipes and rings.

use std::io::Write;
use std::os::fd::AsRawFd;

use pitwire_shard::{Producer, RingConfig};

use super::*;

fn all(source: &mut RecordSource) -> (Vec<String>, Result<SourceState, SourceError>) {
    let mut seen = Vec::new();
    loop {
        let state = source.take(Duration::from_millis(1), |record| {
            seen.push(String::from_utf8_lossy(record).into_owned());
        });
        match state {
            Ok(SourceState::Busy | SourceState::Idle) => {}
            done => return (seen, done),
        }
    }
}

fn framed(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}

fn through_a_pipe(bytes: &[u8]) -> (Vec<String>, Result<SourceState, SourceError>) {
    let (reader, mut writer) = io::pipe().unwrap();
    let mut source = RecordSource::open(&reader.as_raw_fd().to_string()).unwrap();
    writer.write_all(bytes).unwrap();
    drop(writer);
    all(&mut source)
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let (seen, ended) = through_a_pipe(&framed(&["one", "", "three"]));
    assert_eq!(seen, ["one", "", "three"]);
    assert_eq!(ended.unwrap(), SourceState::Ended);
}

#[test]
fn a_pipe_that_ends_inside_a_record_was_killed() {
    let bytes = framed(&["one", "two"]);
    for cut in 8..bytes.len() {
        let (seen, ended) = through_a_pipe(&bytes[..cut]);
        assert_eq!((seen.len(), ended.unwrap()), (1, SourceState::Died), "cut at {cut}");
    }
}

#[test]
fn an_impossible_length_is_a_fault() {
    let (seen, ended) = through_a_pipe(&[framed(&["one"]), vec![0xff; 8]].concat());
    assert_eq!(seen, ["one"]);
    let error = ended.unwrap_err();
    assert!(error.to_string().contains("4294967295 bytes"), "{error}");
}

#[test]
fn names_that_are_not_shards_are_reported() {
    for (name, word) in
        [("999", "999 cannot be opened"), ("no-such-ring", "no-such-ring cannot be opened"), ("", "cannot")]
    {
        let error = RecordSource::open(name).err().unwrap();
        assert!(error.to_string().contains(word) && error.remedy().contains("pitwire split"), "{error}");
    }
}

/// A ring in a file, as a splitter makes it.
fn ring_file(name: &str, capacity: u64) -> (std::path::PathBuf, File, Producer<MmapRaw>) {
    let path = std::env::temp_dir().join(format!("pitwire-bars-{}-{name}", std::process::id()));
    let file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    file.set_len(capacity + 4096).unwrap();
    file.lock().unwrap();
    let shape = RingConfig { capacity, worker: 0, workers: 1, started_ns: 1 };
    let producer = Producer::create(map_ring(&file).unwrap(), &shape).unwrap();
    (path, file, producer)
}

fn put(producer: &mut Producer<MmapRaw>, text: &str) {
    producer.put(text.as_bytes(), 0, text.len()).unwrap();
}

#[test]
fn a_ring_is_read_to_its_end() {
    let (path, _lock, mut producer) = ring_file("end", 1 << 16);
    let mut source = RecordSource::open(path.to_str().unwrap()).unwrap();
    put(&mut producer, "one");
    put(&mut producer, "two");
    let _ = producer.publish();
    assert_eq!(source.take(Duration::ZERO, |_| {}).unwrap(), SourceState::Busy);
    put(&mut producer, "three");
    let _ = producer.publish();
    let _ = producer.end();
    let (seen, ended) = all(&mut source);
    assert_eq!((seen, ended.unwrap()), (vec!["three".to_string()], SourceState::Ended));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_dead_splitter_is_noticed_after_its_last_record() {
    let (path, lock, mut producer) = ring_file("dies", 1 << 16);
    let mut source = RecordSource::open(path.to_str().unwrap()).unwrap();
    std::thread::sleep(SILENCE);
    assert_eq!(source.take(Duration::from_millis(1), |_| {}).unwrap(), SourceState::Idle, "alive, and silent");
    put(&mut producer, "last words");
    let _ = producer.publish();
    // Simulates the death: the mapping keeps the file open, so closing ours would not release the
    // lock.
    lock.unlock().unwrap();
    let (seen, ended) = all(&mut source);
    assert_eq!((seen, ended.unwrap()), (vec!["last words".to_string()], SourceState::Died));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn hostile_rings_are_refused() {
    let (path, lock, _producer) = ring_file("hostile", 1 << 16);
    let whole = std::fs::read(&path).unwrap();
    let refused = |what: &str, bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = RecordSource::open(path.to_str().unwrap()).err().unwrap_or_else(|| panic!("{what} was taken"));
        assert!(!error.remedy().is_empty(), "{error}");
    };
    refused("an empty file", &[]);
    refused("half a header", &whole[..2048]);
    refused("a header alone", &whole[..4096]);
    refused("a ring cut short", &whole[..whole.len() - 1]);
    for (what, at, bytes) in [
        ("another magic", 0, &b"PWRING02"[..]),
        ("another version", 8, &[2]),
        ("records elsewhere", 12, &[0, 0, 0, 0]),
        ("a capacity of no power of two", 16, &[1]),
        ("a huge capacity", 23, &[0x80]),
        ("a head beyond the capacity", 128, &[8, 0, 2]),
        ("a tail beyond the head", 256, &[8]),
        ("a head between records", 128, &[3]),
    ] {
        let mut damaged = whole.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        refused(what, &damaged);
    }
    drop(lock);
    std::fs::remove_file(path).unwrap();
}
