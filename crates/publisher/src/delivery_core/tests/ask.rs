//! Randomized tests of [`LagPolicy::Ask`]. Sockets accept random amounts and answers arrive at
//! random times, but the messages of each reader must form an unbroken chain.

use std::sync::{Mutex, PoisonError};

use super::*;
use crate::handler::LagAnswer;
use crate::inbox::Inbox;

/// A handler that records the questions of the delivery core.
#[derive(Default)]
struct QuestionRecorder {
    questions: Mutex<Vec<(SubscriberId, StreamId, u64)>>,
}

impl DeliveryHandler for QuestionRecorder {
    fn open(&self, _: &Request<'_>) -> Result<SubscriberSetup, HttpResponse> {
        Err(HttpResponse::text(404, "no client opens a path in these tests"))
    }
    fn behind(&self, who: SubscriberId, stream: StreamId, read: u64) {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner).push((who, stream, read));
    }
}

/// A book with one of four states at each number. Every message leads from one state to another.
struct Book {
    /// State by number. Some numbers are skipped.
    past: BTreeMap<u64, u64>,
}

struct Reader {
    tag: SubscriberId,
    slot: u32,
    /// Number and state that it knows for each of its streams.
    holds: BTreeMap<u32, (u64, u64)>,
    got: Vec<u8>,
    is_blocked: bool,
    is_gone: bool,
}

struct Venue {
    core: DeliveryCore,
    asked: Arc<QuestionRecorder>,
    chance: SplitMix64,
    books: Vec<Book>,
    readers: Vec<Reader>,
    waiting: Vec<(SubscriberId, StreamId, u64)>,
    late: Vec<(SubscriberId, StreamId, u64, LagAnswer)>,
    next_tag: u64,
    now_ns: u64,
    /// Inbox in front of the core, which may shed. Without it, everything is applied at once.
    inbox: Option<Inbox>,
    /// Messages received, merged messages, unchanged answers, readers that disconnected while slow,
    /// shed messages, and readers closed for shed messages.
    counts: [usize; 6],
}

const BOOKS: u32 = 3;

impl Venue {
    fn new(seed: u64) -> Self {
        let asked = Arc::new(QuestionRecorder::default());
        let mut core = World::new(seed).core;
        core.fanout.context.handler = Arc::clone(&asked) as _;
        core.fanout.streams.clear();
        for at in 0..BOOKS {
            let spec = StreamSpec {
                name: format!("b{at}"),
                lag: LagPolicy::Ask,
                ring_bytes: 8192,
                snapshot: false,
                keep: false,
            };
            core.control(ControlMessage::Create(spec));
        }
        let books = (0..BOOKS).map(|_| Book { past: BTreeMap::from([(7, 0)]) }).collect();
        let chance = SplitMix64::new(seed);
        Venue {
            core,
            asked,
            chance,
            books,
            readers: Vec::new(),
            waiting: Vec::new(),
            late: Vec::new(),
            next_tag: 0,
            now_ns: 0,
            inbox: None,
            counts: [0; 6],
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
        // A stream without readers gets no messages.
        if self.readers.iter().any(|reader| !reader.is_gone && reader.holds.contains_key(&book)) {
            let text = change(book, (prev, before), (number, state), pad);
            let Some(inbox) = &self.inbox else {
                return self.core.fanout.append(StreamId(book), b"", number, false, text.as_bytes());
            };
            let (stream, len) = (StreamId(book), text.len());
            inbox.put(
                &[QueuedMessage { stream, seq: number, start: 0, key_len: 0, len, is_binary: false }],
                text.as_bytes(),
            );
            self.counts[4] += usize::from(inbox.is_shedding());
        }
    }

    fn order(&mut self, message: ControlMessage) {
        match &self.inbox {
            Some(inbox) => inbox.control(message),
            None => self.core.control(message),
        }
    }

    fn take(&mut self) {
        while self.inbox.as_ref().is_some_and(|inbox| self.core.take(inbox)) {
            self.sweep(7);
        }
    }

    /// Subscribes a reader, which first gets a snapshot.
    fn join(&mut self, tag: SubscriberId, book: u32) {
        let (number, state) = self.last(book);
        if self.readers.iter().all(|reader| reader.is_gone || !reader.holds.contains_key(&book)) {
            self.order(ControlMessage::Restart { stream: StreamId(book), seq: number });
        }
        let snapshot = framed(&format!(r#"{{"b":{book},"snapshot":1,"n":{number},"s":{state},"p":""}}"#));
        self.order(ControlMessage::Frames { to: tag, frames: snapshot });
        let read = (self.chance.below(2) == 0).then_some(number);
        self.order(ControlMessage::Join { to: tag, stream: StreamId(book), read });
        let reader = self.readers.iter_mut().find(|reader| reader.tag == tag).unwrap();
        reader.holds.insert(book, (u64::MAX, state));
    }

    fn come(&mut self) {
        self.next_tag += 1;
        let tag = SubscriberId(self.next_tag);
        let slot = self.core.fanout.insert(tag);
        self.core.fanout.subscribers.set_stage(slot, Stage::Open, u32::MAX / 4);
        let reader = Reader { tag, slot, holds: BTreeMap::new(), got: Vec::new(), is_blocked: false, is_gone: false };
        self.readers.push(reader);
        let first = self.chance.below(u64::from(BOOKS)) as u32;
        self.join(tag, first);
    }

    /// Makes a random reader leave a stream, join one, or disconnect.
    fn change_one(&mut self) {
        let here: Vec<usize> = (0..self.readers.len()).filter(|at| !self.readers[*at].is_gone).collect();
        let Some(at) = here.get(self.chance.below(here.len().max(1) as u64) as usize) else { return };
        let (tag, book) = (self.readers[*at].tag, self.chance.below(u64::from(BOOKS)) as u32);
        let has = self.readers[*at].holds.contains_key(&book);
        match self.chance.below(8) {
            0 => self.disconnect(*at),
            _ if has => {
                self.order(ControlMessage::Leave { to: tag, stream: StreamId(book) });
                self.take();
                // A partly sent frame is still completed.
                self.settle(*at);
                self.readers[*at].holds.remove(&book);
            }
            _ => self.join(tag, book),
        }
    }

    /// Serves and checks everything that a reader has pending before it leaves a stream.
    fn settle(&mut self, at: usize) {
        let slot = self.readers[at].slot;
        if self.readers[at].is_blocked {
            self.readers[at].is_blocked = false;
            self.core.writable(slot);
        }
        self.serve(at, u64::MAX);
        self.judge(at);
    }

    fn serve(&mut self, at: usize, generous: u64) {
        let slot = self.readers[at].slot;
        loop {
            match self.core.prepare(slot) {
                Next::Idle => break,
                Next::Shut => return self.core.finish(slot),
                Next::Send => {}
            }
            let all: Vec<u8> = self.core.gather(slot).as_slice().concat();
            let takes =
                if self.chance.below(8) < generous { all.len() } else { self.chance.below(all.len() as u64) as usize };
            self.readers[at].got.extend_from_slice(&all[..takes]);
            if takes > 0 {
                self.core.sent(slot, takes);
            }
            if takes < all.len() {
                self.core.blocked(slot);
                self.readers[at].is_blocked = true;
                break;
            }
        }
    }

    fn sweep(&mut self, generous: u64) {
        let mut due = Vec::new();
        self.core.due(&mut due, PassKind::First);
        for slot in due {
            let at = self.readers.iter().position(|reader| reader.slot == slot && !reader.is_gone).unwrap();
            self.serve(at, generous);
            self.judge(at);
        }
        self.forget_closed();
    }

    /// Disconnects a reader.
    fn disconnect(&mut self, at: usize) {
        let reader = &self.readers[at];
        let is_behind = |(book, (number, _)): (&u32, &(u64, u64))| *number < self.last(*book).0;
        self.counts[3] += usize::from(reader.holds.iter().any(is_behind));
        self.core.finish(reader.slot);
        self.forget_closed();
    }

    fn forget_closed(&mut self) {
        let mut gone = Vec::new();
        self.core.take_finished(&mut gone);
        for slot in gone {
            self.readers.iter_mut().filter(|reader| reader.slot == slot).for_each(|reader| reader.is_gone = true);
            self.core.remove(slot);
        }
    }

    /// Answers some open questions in random order, with the current state or an earlier one.
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
            let how = if is_same { LagAnswer::Unchanged { seq } } else { LagAnswer::Text { payload, seq } };
            self.order(ControlMessage::LagAnswer { to, stream, read, answer: how.clone() });
            // Some answers are repeated later.
            self.late.push((to, stream, read, how));
        }
        while self.late.len() > 20 {
            let at = self.chance.below(self.late.len() as u64) as usize;
            let (to, stream, read, how) = self.late.swap_remove(at);
            self.order(ControlMessage::LagAnswer { to, stream, read, answer: how });
        }
    }

    /// Checks that each whole message continues from the state that the reader knows.
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
            if first == 0x88 {
                assert!(String::from_utf8_lossy(payload).ends_with("too busy; connect again"), "{payload:?}");
                self.counts[5] += 1;
                break;
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
            self.core.set_now(self.now_ns);
            for _ in 0..self.chance.below(8) {
                if !self.core.must_serve() {
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
            // The delivery thread is delayed now and then.
            if self.chance.below(4) > 0 {
                self.take();
            }
            self.sweep(7);
            self.answer(3);
        }
        for _ in 0..20 {
            self.unblock(1);
            self.take();
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
                self.core.writable(reader.slot);
            }
        }
    }
}

fn change(book: u32, from: (u64, u64), to: (u64, u64), pad: usize) -> String {
    let pad = "x".repeat(pad);
    format!(r#"{{"b":{book},"v":{},"w":{},"n":{},"s":{},"p":"{pad}"}}"#, from.0, from.1, to.0, to.1)
}

fn framed(text: &str) -> Vec<u8> {
    [pitwire_delivery::FrameHeader::new(pitwire_websocket::Opcode::Text, text.len(), false).as_bytes(), text.as_bytes()]
        .concat()
}

fn ran(seeds: std::ops::RangeInclusive<u64>, most: Option<usize>) -> [usize; 6] {
    let mut counts = [0; 6];
    for seed in seeds {
        println!("seed {seed}");
        let mut venue = Venue::new(seed);
        venue.inbox = most.map(Inbox::new);
        venue.run(1_500);
        counts.iter_mut().zip(venue.counts).for_each(|(all, one)| *all += one);
    }
    println!("{counts:?}");
    counts
}

#[test]
fn slow_reader_resumes_without_a_break() {
    let counts @ [messages, merged, same, disconnected, ..] = ran(1..=30, None);
    assert!(messages > 100_000 && merged > 1_000 && same > 300 && disconnected > 10, "{counts:?}");
}

/// Only readers with an unknown position are closed.
#[test]
fn placed_readers_request_shed_messages() {
    let counts @ [messages, merged, same, disconnected, shed, closed] = ran(101..=120, Some(2_500));
    assert!(messages > 30_000 && merged > 1_000 && same > 300 && disconnected > 10, "{counts:?}");
    assert!(shed > 1_000 && closed > 100 && closed * 10 < shed, "{counts:?}");
}

#[test]
fn closing_reader_gets_its_reason_when_the_stream_restarts() {
    let mut venue = Venue::new(1);
    venue.come();
    let core = &mut venue.core;
    let (tag, slot) = (venue.readers[0].tag, venue.readers[0].slot);
    take_all(core, slot);
    let stream = StreamId(core.fanout.subscribers.get(slot).unwrap().items.as_slice()[0].stream);
    core.control(ControlMessage::Close { to: tag, code: CloseCode::TryAgainLater, reason: "gone".into() });
    core.control(ControlMessage::Restart { stream, seq: 900 });
    assert_eq!(take_all(core, slot), "\u{3}\u{fffd}gone");
    assert!(core.fanout.streams.get(stream.0).unwrap().listeners.is_empty());
}

#[test]
fn messages_shed_before_a_restart_do_not_affect_new_readers() {
    let inbox = Inbox::new(64);
    let mut venue = Venue::new(1);
    venue.come();
    let core = &mut venue.core;
    let (tag, slot) = (venue.readers[0].tag, venue.readers[0].slot);
    let stream = StreamId(core.fanout.subscribers.get(slot).unwrap().items.as_slice()[0].stream);
    for first in [10, 30, 50] {
        put(&inbox, stream, first, "aaaaaaaaaaaaaaa");
    }
    inbox.control(ControlMessage::Leave { to: tag, stream });
    inbox.control(ControlMessage::Restart { stream, seq: 900 });
    inbox.control(ControlMessage::Join { to: tag, stream, read: None });
    assert!(inbox.is_shedding() && !core.take(&inbox));
    assert_eq!(core.fanout.subscribers.get(slot).unwrap().stage, Stage::Open);
    core.fanout.park(slot, 0);
    assert_eq!(core.fanout.subscribers.get(slot).unwrap().rare.as_ref().unwrap().lag_requests[0].read, 900);
}
