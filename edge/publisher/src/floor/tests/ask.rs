//! Thousands of turns of readers that only the programme can bring up to date: whatever sockets take and whenever it
//! answers, each reader's messages are a chain.

use std::net::{TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};

use super::*;
use crate::programme::GoOn;

/// What halls have asked.
#[derive(Default)]
struct Asked {
    questions: Mutex<Vec<(Tag, StreamId, u64)>>,
    released: Mutex<Vec<(Tag, Released)>>,
}

impl Programme for Asked {
    fn open(&self, _: &Request<'_>) -> Result<Opening, Answer> {
        Err(Answer::text(404, "nobody comes by himself"))
    }
    fn behind(&self, who: Tag, stream: StreamId, read: u64) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push((who, stream, read));
    }
    fn released(&self, from: Tag, released: Released) {
        self.released.lock().unwrap_or_else(PoisonError::into_inner).push((from, released));
    }
}

/// A book that has one of four states: which one, at each number. Every message leads from one state to another.
struct Book {
    /// By number, which skips some.
    past: BTreeMap<u64, u64>,
}

struct Reader {
    tag: Tag,
    slot: u32,
    /// What it holds of each stream that it reads: number and state.
    holds: BTreeMap<u32, (u64, u64)>,
    got: Vec<u8>,
    is_blocked: bool,
    is_gone: bool,
}

struct Venue {
    floor: Floor,
    asked: Arc<Asked>,
    chance: Chance,
    books: Vec<Book>,
    readers: Vec<Reader>,
    waiting: Vec<(Tag, StreamId, u64)>,
    late: Vec<(Tag, StreamId, u64, GoOn)>,
    door: TcpListener,
    next_tag: u64,
    now_ns: u64,
    /// Messages taken, merged ones, answers that there was nothing to tell, readers that were let go of while behind.
    counts: [usize; 4],
}

const BOOKS: u32 = 3;

impl Venue {
    fn new(seed: u64) -> Self {
        let asked = Arc::new(Asked::default());
        let mut floor = World::new(seed).floor;
        floor.programme = Arc::clone(&asked) as _;
        floor.streams.clear();
        for at in 0..BOOKS {
            let spec =
                StreamSpec { name: format!("b{at}"), lag: Lag::Ask, ring_bytes: 8192, snapshot: false, keep: false };
            floor.run(Errand::Create(spec));
        }
        let books = (0..BOOKS).map(|_| Book { past: BTreeMap::from([(7, 0)]) }).collect();
        let chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Venue {
            floor,
            asked,
            chance,
            books,
            readers: Vec::new(),
            waiting: Vec::new(),
            late: Vec::new(),
            door: TcpListener::bind("127.0.0.1:0").unwrap(),
            next_tag: 0,
            now_ns: 0,
            counts: [0; 4],
        }
    }

    fn last(&self, book: u32) -> (u64, u64) {
        let (number, state) = self.books[book as usize].past.last_key_value().unwrap();
        (*number, *state)
    }

    fn publish(&mut self) {
        let book = self.chance.below(u64::from(BOOKS)) as u32;
        let (prev, before) = self.last(book);
        let (number, state) = (prev + 1 + self.chance.below(5), (before + 1 + self.chance.below(3)) % 4);
        let pad = self.chance.below(400) as usize;
        self.books[book as usize].past.insert(number, state);
        // Nobody reads it: it is not told.
        if self.readers.iter().any(|reader| !reader.is_gone && reader.holds.contains_key(&book)) {
            let text = change(book, (prev, before), (number, state), pad);
            self.floor.append(StreamId(book), b"", number, false, text.as_bytes());
        }
    }

    /// Whoever joins is told how it stands.
    fn join(&mut self, tag: Tag, book: u32) {
        let (number, state) = self.last(book);
        if self.readers.iter().all(|reader| reader.is_gone || !reader.holds.contains_key(&book)) {
            self.floor.run(Errand::Begin { stream: StreamId(book), seq: number });
        }
        let snapshot = framed(&format!(r#"{{"b":{book},"snapshot":1,"n":{number},"s":{state},"p":""}}"#));
        self.floor.run(Errand::Tell { to: tag, frames: snapshot });
        self.floor.run(Errand::Join { to: tag, stream: StreamId(book) });
        let reader = self.readers.iter_mut().find(|reader| reader.tag == tag).unwrap();
        reader.holds.insert(book, (u64::MAX, state));
    }

    fn come(&mut self) {
        self.next_tag += 1;
        let tag = Tag(self.next_tag);
        let slot = self.floor.insert(tag);
        self.floor.set_stage(slot, Stage::Open, u32::MAX / 4);
        let reader = Reader { tag, slot, holds: BTreeMap::new(), got: Vec::new(), is_blocked: false, is_gone: false };
        self.readers.push(reader);
        let first = self.chance.below(u64::from(BOOKS)) as u32;
        self.join(tag, first);
    }

    /// Somebody leaves a stream, joins one, or is asked for.
    fn change_one(&mut self) {
        let here: Vec<usize> = (0..self.readers.len()).filter(|at| !self.readers[*at].is_gone).collect();
        let Some(at) = here.get(self.chance.below(here.len().max(1) as u64) as usize) else { return };
        let (tag, book) = (self.readers[*at].tag, self.chance.below(u64::from(BOOKS)) as u32);
        let has = self.readers[*at].holds.contains_key(&book);
        match self.chance.below(8) {
            0 => self.floor.run(Errand::Release { to: tag }),
            _ if has => {
                self.floor.run(Errand::Leave { to: tag, stream: StreamId(book) });
                // What it has of it half, it gets whole.
                self.settle(*at);
                self.readers[*at].holds.remove(&book);
            }
            _ => self.join(tag, book),
        }
    }

    /// One that has left a stream: what it is in the middle of, and what waits for it, is judged as before.
    fn settle(&mut self, at: usize) {
        let slot = self.readers[at].slot;
        if self.readers[at].is_blocked {
            self.readers[at].is_blocked = false;
            self.floor.writable(slot);
        }
        self.serve(at, u64::MAX);
        self.judge(at);
    }

    fn serve(&mut self, at: usize, generous: u64) {
        let slot = self.readers[at].slot;
        while self.floor.prepare(slot) == Next::Send {
            let all: Vec<u8> = self.floor.gather(slot).as_slice().concat();
            let takes =
                if self.chance.below(8) < generous { all.len() } else { self.chance.below(all.len() as u64) as usize };
            self.readers[at].got.extend_from_slice(&all[..takes]);
            if takes > 0 {
                self.floor.sent(slot, takes);
            }
            if takes < all.len() {
                self.floor.blocked(slot);
                self.readers[at].is_blocked = true;
                break;
            }
        }
    }

    fn sweep(&mut self, generous: u64) {
        let mut due = Vec::new();
        self.floor.due(&mut due, Sweep::First);
        for slot in due {
            let at = self.readers.iter().position(|reader| reader.slot == slot && !reader.is_gone).unwrap();
            self.serve(at, generous);
            self.judge(at);
        }
        let mut going = Vec::new();
        self.floor.take_releasable(&mut going);
        for slot in going {
            self.floor.release(slot, TcpStream::connect(self.door.local_addr().unwrap()).unwrap());
            drop(self.door.accept().unwrap());
        }
        let released = std::mem::take(&mut *self.asked.released.lock().unwrap_or_else(PoisonError::into_inner));
        for (tag, released) in released {
            let reader = self.readers.iter_mut().find(|reader| reader.tag == tag).unwrap();
            reader.is_gone = true;
            let read: BTreeMap<u32, u64> = released.read.iter().map(|(of, number)| (of.0, *number)).collect();
            let held: BTreeMap<u32, u64> = reader.holds.iter().map(|(of, (number, _))| (*of, *number)).collect();
            assert_eq!(read, held, "where it stands is where it goes on");
            self.counts[3] += usize::from(read.iter().any(|(of, number)| *number < self.last(*of).0));
        }
        let mut gone = Vec::new();
        self.floor.take_gone(&mut gone);
        assert!(gone.is_empty(), "nobody is closed");
    }

    /// Some of what was asked is answered, in whatever order, as things stood by then or some time before.
    fn answer(&mut self, one_in: u64) {
        self.waiting.append(&mut self.asked.questions.lock().unwrap_or_else(PoisonError::into_inner));
        for at in (0..self.waiting.len()).rev() {
            if self.chance.below(one_in) > 0 {
                continue;
            }
            let (to, stream, read) = self.waiting.swap_remove(at);
            let past = &self.books[stream.0 as usize].past;
            let back = if one_in == 1 { 0 } else { self.chance.below(4) as usize };
            let (number, state) = past.range(read..).rev().nth(back).unwrap_or((&read, &past[&read]));
            let (seq, payload) = (*number, change(stream.0, (read, past[&read]), (*number, *state), 0).into_bytes());
            let is_same = past[&read] == *state;
            self.counts[if is_same { 2 } else { 1 }] += 1;
            let how = if is_same { GoOn::Same { seq } } else { GoOn::Told { payload, seq } };
            self.floor.run(Errand::GoOn { to, stream, read, how: how.clone() });
            // Some come twice, and late.
            self.late.push((to, stream, read, how));
        }
        while self.late.len() > 20 {
            let at = self.chance.below(self.late.len() as u64) as usize;
            let (to, stream, read, how) = self.late.swap_remove(at);
            self.floor.run(Errand::GoOn { to, stream, read, how });
        }
    }

    /// Each whole message that it has got leads on from what it holds.
    fn judge(&mut self, at: usize) {
        let reader = &mut self.readers[at];
        let mut used = 0;
        while let [first, second, ..] = reader.got[used..] {
            let header = if second == 126 { 4 } else { 2 };
            let Some(head) = reader.got.get(used..used + header) else { break };
            let len = if second == 126 { usize::from(u16::from_be_bytes([head[2], head[3]])) } else { second.into() };
            let Some(payload) = reader.got.get(used + header..used + header + len) else { break };
            used += header + len;
            if first == 0x89 {
                continue;
            }
            assert_eq!(first, 0x81);
            let text = std::str::from_utf8(payload).unwrap();
            let of = |name: &str| number(text, name).unwrap();
            let book = of("b") as u32;
            let Some(holds) = reader.holds.get_mut(&book) else { panic!("{book} is not its: {text}") };
            if !text.contains("snapshot") {
                assert_eq!((of("v"), of("w")), *holds, "the chain is broken: {text}");
                assert_ne!(holds.1, of("s"), "a change that changes nothing");
            }
            *holds = (of("n"), of("s"));
            assert_eq!(self.books[book as usize].past.get(&holds.0), Some(&holds.1));
            self.counts[0] += 1;
        }
        reader.got.drain(..used);
    }

    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.now_ns += 1_000_000 * (1 + self.chance.below(5));
            self.floor.set_now(self.now_ns);
            for _ in 0..self.chance.below(8) {
                if !self.floor.must_sweep() {
                    self.publish();
                }
            }
            if self.readers.iter().filter(|reader| !reader.is_gone).count() < 20 {
                self.come();
            }
            if self.chance.below(4) == 0 {
                self.change_one();
            }
            self.unblock(60);
            self.sweep(7);
            self.answer(3);
        }
        for _ in 0..20 {
            self.unblock(1);
            self.sweep(8);
            self.answer(1);
        }
        for reader in self.readers.iter().filter(|reader| !reader.is_gone) {
            for (book, holds) in &reader.holds {
                assert_eq!(holds.1, self.last(*book).1, "the book that it holds is the book");
            }
        }
    }

    fn unblock(&mut self, one_in: u64) {
        for reader in self.readers.iter_mut().filter(|reader| reader.is_blocked && !reader.is_gone) {
            if self.chance.below(one_in) == 0 {
                reader.is_blocked = false;
                self.floor.writable(reader.slot);
            }
        }
    }
}

fn change(book: u32, from: (u64, u64), to: (u64, u64), pad: usize) -> String {
    let pad = "x".repeat(pad);
    format!(r#"{{"b":{book},"v":{},"w":{},"n":{},"s":{},"p":"{pad}"}}"#, from.0, from.1, to.0, to.1)
}

fn framed(text: &str) -> Vec<u8> {
    [crate::ring::Header::new(Opcode::Text, text.len(), false).as_bytes(), text.as_bytes()].concat()
}

#[test]
fn whoever_falls_behind_goes_on_with_its_own_chain() {
    let mut counts = [0; 4];
    for seed in 1..=30 {
        let mut venue = Venue::new(seed);
        venue.run(1_500);
        counts.iter_mut().zip(venue.counts).for_each(|(all, one)| *all += one);
    }
    let [messages, merged, same, released] = counts;
    assert!(messages > 100_000 && merged > 1_000 && same > 300 && released > 10, "{counts:?}");
}

#[test]
fn who_is_being_closed_hears_why_though_its_stream_begins_anew() {
    let mut venue = Venue::new(1);
    venue.come();
    let floor = &mut venue.floor;
    let (tag, slot) = (venue.readers[0].tag, venue.readers[0].slot);
    take_all(floor, slot);
    let stream = StreamId(floor.subscribers[slot as usize].items.as_slice()[0].stream);
    floor.run(Errand::Close { to: tag, code: CloseCode::TryAgainLater, reason: "gone".into() });
    floor.run(Errand::Begin { stream, seq: 900 });
    assert_eq!(take_all(floor, slot), "\u{3}\u{fffd}gone");
    assert!(floor.streams[stream.0 as usize].listeners.is_empty());
}
