//! A log that is read while its venue writes: everything read is whole, however far the reader read
//! ahead.

use std::io;
use std::sync::{Arc, Mutex};

use crate::common::{Writer, small};
use pitwire_faulty_disk::FaultyStorage;
use pitwire_journal::{File, Storage};
use pitwire_journal::{StartAt, inspect};

/// Gives the venue a turn after every read.
struct Live {
    disk: FaultyStorage,
    venue: Arc<Mutex<Venue>>,
}

struct Venue {
    writer: Writer,
    turns_left: u32,
}

struct LiveFile {
    file: Box<dyn File>,
    venue: Arc<Mutex<Venue>>,
}

impl File for LiveFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(offset, into)?;
        let venue = &mut *self.venue.lock().unwrap();
        if venue.turns_left > 0 {
            venue.turns_left -= 1;
            venue.writer.turn(u64::from(venue.turns_left)).unwrap();
        }
        Ok(got)
    }

    fn write_at(&mut self, _: u64, _: &[u8]) -> io::Result<()> {
        unreachable!("it is only looked at")
    }

    fn sync(&mut self) -> io::Result<()> {
        unreachable!("it is only looked at")
    }
}

impl Storage for Live {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(LiveFile { file: self.disk.open(name)?, venue: Arc::clone(&self.venue) }))
    }

    fn create(&self, _: &str, _: u64) -> io::Result<Box<dyn File>> {
        unreachable!("it is only looked at")
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("it is only looked at")
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        unreachable!("it is only looked at")
    }

    fn sync_directory(&self) -> io::Result<()> {
        unreachable!("it is only looked at")
    }
}

#[test]
fn writes_behind_the_reader_are_not_damage() {
    let mut grown = 0;
    for seed in 0..100 {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, seed).unwrap();
        for turn in 0..=seed {
            writer.turn(turn).unwrap();
        }
        let before = writer.acked;
        let venue = Arc::new(Mutex::new(Venue { writer, turns_left: 40 }));
        let live = Live { disk, venue: Arc::clone(&venue) };
        let found = inspect(&live, &small(), StartAt::Oldest).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let after = venue.lock().unwrap().writer.acked;
        assert!(found.torn.is_none(), "seed {seed}: {:?}", found.torn);
        assert!((before..=after).contains(&found.last.0), "seed {seed}: {before}, {}, {after}", found.last);
        grown += found.last.0 - before;
    }
    assert!(grown > 100, "it has seen little of what was written meanwhile: {grown}");
}
