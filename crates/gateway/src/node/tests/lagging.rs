//! Lagging readers of books that the venue merges.

use super::*;
use pitwire_random::SplitMix64;

fn change(from: u64, to: u64) -> String {
    format!(r#"{{"prev_change_id":{from},"change_id":{to}}}"#)
}

/// Returns a world with a lagging reader without an envelope. It has change 12 of the book, which
/// is at 42.
fn behind() -> World {
    let mut world = World::with_room(400);
    world.open(1, &format!("/?channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, r#"{"change_id":10}"#);
    world.join(BOOK, reply);
    world.live_text(BOOK, 0, &change(10, 12));
    assert_eq!((world.sent.take().len(), world.read(1)), (1, vec![change(10, 12)]));
    (0..30).for_each(|n| world.live_text(BOOK, n + 1, &change(12 + n, 13 + n)));
    assert_eq!(world.read(1), Vec::<String>::new(), "it is not closed");
    world
}

fn ask(change_id: u64) -> VenueQuestion {
    VenueQuestion::Merged { name: BOOK.into(), change_id }
}

#[test]
fn lagging_book_reader_gets_one_change_for_its_book() {
    for answer in ["change", "gone", "away", "left", "another start"] {
        let mut world = behind();
        assert_eq!(world.asks(), [ask(12)]);
        assert_eq!((world.read(1), world.asks()), (vec![], vec![]), "it is asked for once");
        // The answer is ahead of the bus by one message.
        let reply = here(&world, 32, 0, "", "");
        let later = change(12, 43);
        match answer {
            "change" => world.answered(ask(12), Reply { first: later.clone().into_bytes(), ..reply }),
            "gone" => world.answered(ask(12), Reply { outcome: ReplyOutcome::NotHere, ..reply }),
            "another start" => world.answered(ask(12), Reply { epoch: 8, ..reply }),
            "away" => world.node.answered(&ask(12), Err("away".into()), world.now, &mut world.sent),
            _ => {
                world.text(1, "public/unsubscribe_all", "{}");
                world.sent.take();
                world.answered(ask(12), Reply { first: later.clone().into_bytes(), ..reply });
            }
        }
        let expected: &[String] = match answer {
            "change" => &[format!("1 {later}")],
            "left" => &[],
            _ => &["1 !1013".into()],
        };
        assert_eq!(world.sent.take(), expected, "{answer}");
        world.live_text(BOOK, 31, &change(42, 43));
        world.live_text(BOOK, 32, &change(43, 44));
        let goes_on = answer == "change";
        assert_eq!(world.read(1), if goes_on { vec![change(43, 44)] } else { vec![] }, "{answer}");
        // The reader is behind again, from its new position.
        (0..30).for_each(|n| world.live_text(BOOK, n + 33, &change(44 + n, 45 + n)));
        world.read(1);
        assert_eq!(world.asks().contains(&ask(44)), goes_on, "{answer}");
    }
}

#[test]
fn unchanged_book_sends_no_empty_change() {
    let mut world = behind();
    assert_eq!(world.asks(), [ask(12)]);
    let reply = here(&world, 31, 0, "", "");
    world.answered(ask(12), reply);
    assert_eq!((world.read(1), world.asks()), (vec![], vec![]), "there is nothing to tell");
    // The next message applies to 42, which the reader does not have.
    world.live_text(BOOK, 31, &change(42, 43));
    assert_eq!((world.read(1), world.asks()), (vec![], vec![ask(12)]));
    let reply = here(&world, 32, 0, "", &change(12, 43));
    world.answered(ask(12), reply);
    world.live_text(BOOK, 32, &change(43, 44));
    assert_eq!((world.sent.take(), world.read(1)), (vec![format!("1 {}", change(12, 43))], vec![change(43, 44)]));
}

#[test]
fn equal_books_share_one_question_and_a_busy_venue_is_retried() {
    let mut world = World::with_room(400);
    (1..=1_000).for_each(|id| world.open(id, &format!("/?channels={BOOK}")));
    let reply = here(&world, 0, 0, BOOK, r#"{"change_id":10}"#);
    world.join(BOOK, reply);
    // The last ten readers have one message more than the others.
    (0..2).for_each(|n| world.live_text(BOOK, n, &change(10 + n, 11 + n)));
    (991..=1_000).for_each(|id| assert_eq!(world.read(id).len(), 2));
    (2..40).for_each(|n| world.live_text(BOOK, n, &change(10 + n, 11 + n)));
    world.sent.take();
    (1..=1_000).for_each(|id| assert_eq!(world.read(id), Vec::<String>::new()));
    assert_eq!(world.asks(), [ask(10)], "one question at a time");
    let busy = Reply { outcome: ReplyOutcome::Full, ..here(&world, 40, 0, "", "") };
    world.answered(ask(10), busy);
    assert_eq!(world.asks(), []);
    assert_eq!(world.node.due_ns(), world.now.steady_ns + 50_000_000);
    world.now.steady_ns = world.node.due_ns();
    assert_eq!(world.asks(), [ask(12)], "they take turns");
    let reply = here(&world, 40, 0, "", &change(12, 50));
    world.answered(ask(12), reply);
    assert_eq!((world.sent.take().len(), world.asks()), (10, vec![ask(10)]));
    let reply = here(&world, 40, 0, "", &change(10, 50));
    world.answered(ask(10), reply);
    assert_eq!((world.sent.take().len(), world.asks()), (990, vec![]));
}

fn number(text: &str, key: &str) -> u64 {
    let at = text.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    text[at..].split(['}', ',']).next().unwrap().parse().unwrap()
}

/// A random test with a book of one level and four amounts, so that it often returns to an earlier
/// state; readers stall, and the venue answers late or is busy.
#[test]
fn every_change_applies_to_the_readers_book() {
    let (mut merged, mut same, mut read) = (0, 0, 0);
    for seed in 1..=200_u64 {
        let mut random = SplitMix64::new(seed);
        let mut below = |most: usize| random.index(most);
        let mut world = World::with_room(300 + below(1_500));
        // The amount at each `change_id` from 1 on, and each reader's amount.
        let mut amounts = vec![(1, 0)];
        let mut held: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        let mut asked: Vec<u64> = Vec::new();
        for _ in 0..300 {
            let (newest, amount) = *amounts.last().unwrap();
            match below(8) {
                0 if held.len() < 6 => {
                    let id = held.len() as u64 + 1;
                    world.open(id, &format!("/?channels={BOOK}"));
                    held.insert(id, (0, 0));
                }
                1 | 2 => {
                    let (next, to) = (newest + 1 + below(3) as u64, (amount + 1 + below(3)) % 4);
                    amounts.push((next, to));
                    let text = format!(r#"{{"prev_change_id":{newest},"change_id":{next},"amount":{to}}}"#);
                    world.live_text(BOOK, world.next - 1, &text);
                }
                3 if !asked.is_empty() => {
                    let from = asked.remove(0);
                    let before = amounts.iter().find(|(id, _)| *id == from).expect("a change that there was").1;
                    let reply = here(&world, world.next - 1, 0, "", "");
                    let text = format!(r#"{{"prev_change_id":{from},"change_id":{newest},"amount":{amount}}}"#);
                    let reply = match () {
                        () if below(4) == 0 => Reply { outcome: ReplyOutcome::Full, ..reply },
                        () if before == amount => reply,
                        () => Reply { first: text.into_bytes(), ..reply },
                    };
                    merged += u64::from(!reply.first.is_empty());
                    same += u64::from(reply.first.is_empty() && reply.outcome == ReplyOutcome::Done);
                    world.answered(ask(from), reply);
                }
                4 => world.now.steady_ns += 60_000_000,
                _ if !held.is_empty() => {
                    let id = 1 + below(held.len()) as u64;
                    let sent = world.read(id);
                    take_in(&mut held, id, sent, &mut read);
                }
                _ => {}
            }
            for ask in world.asks() {
                match ask {
                    VenueQuestion::Merged { change_id, .. } => asked.push(change_id),
                    VenueQuestion::Join { name } => {
                        let reply = book_reply(&world, &amounts);
                        world.answered(VenueQuestion::Join { name }, reply);
                    }
                    _ => {}
                }
            }
            let sent = std::mem::take(&mut world.sent.0);
            sent.into_iter().for_each(|(id, text)| take_in(&mut held, id, vec![text], &mut read));
            assert!(asked.len() <= 1, "one question at a time");
        }
    }
    assert!(merged > 200 && same > 50 && read > 4_000, "{merged} {same} {read}");
}

/// Returns the answer to a join of the book, which has the newest amount.
fn book_reply(world: &World, amounts: &[(u64, usize)]) -> Reply {
    let (newest, amount) = *amounts.last().unwrap();
    here(world, world.next - 1, 0, BOOK, &format!(r#"{{"change_id":{newest},"amount":{amount}}}"#))
}

fn take_in(held: &mut BTreeMap<u64, (u64, usize)>, id: u64, sent: Vec<String>, read: &mut u64) {
    let (holds, amount) = held.get_mut(&id).unwrap();
    for text in sent {
        assert!(!text.starts_with('!'), "no subscriber is closed");
        if text.contains("prev_change_id") {
            assert_eq!(number(&text, "prev_change_id"), *holds, "{text}");
            assert_ne!(number(&text, "amount"), *amount as u64, "a change changes something");
            *read += 1;
        }
        *holds = number(&text, "change_id");
        *amount = usize::try_from(number(&text, "amount")).unwrap();
    }
}

/// The delivery thread's side of one book: its messages, and each reader's position.
#[derive(Default)]
struct TestThread {
    log: Vec<(u64, String)>,
    /// Per reader: sequence read, whether it waits, and the sequence up to which nothing changed.
    readers: BTreeMap<u64, (u64, bool, u64)>,
    sent: Vec<(u64, String)>,
    answered: u64,
    last: u64,
}

impl ClientSink for TestThread {
    fn reply(&mut self, to: u64, text: &[u8]) {
        self.sent.push((to, String::from_utf8_lossy(text).into_owned()));
    }
    fn notify(&mut self, to: u64, text: &[u8]) {
        self.reply(to, text);
    }
    fn close(&mut self, _: u64, _: CloseCode, why: &str) {
        panic!("no subscriber is closed: {why}");
    }
    fn send_frames(&mut self, to: u64, frames: Vec<u8>) {
        messages(frames).into_iter().for_each(|text| self.sent.push((to, text)));
    }
    fn publish(&mut self, _: ChannelId, seq: u64, payload: &[u8]) {
        assert!(seq > self.last && seq > self.answered, "an answer leads behind what was sent");
        self.last = seq;
        self.log.push((seq, String::from_utf8_lossy(payload).into_owned()));
    }
    fn attach(&mut self, to: u64, _: ChannelId, attachment: Attachment) {
        assert!(!attachment.is_state && attachment.ring_start.is_some() == self.readers.is_empty());
        self.last = attachment.ring_start.unwrap_or(self.last);
        assert!(attachment.read_to >= self.last, "it has received everything");
        self.readers.insert(to, (self.last, false, 0));
    }
    fn catch_up(&mut self, to: u64, _: ChannelId, read: u64, how: CatchUp) {
        let reader = self.readers.get_mut(&to).unwrap();
        assert!(reader.1 && reader.0 == read, "it has asked");
        match how {
            CatchUp::Message(payload, seq) => {
                *reader = (seq, false, 0);
                self.answered = self.answered.max(seq);
                self.sent.push((to, String::from_utf8(payload).unwrap()));
            }
            CatchUp::Unchanged(seq) => {
                *reader = (read, true, seq);
                self.answered = self.answered.max(seq);
            }
            CatchUp::Frames(..) | CatchUp::Lost => {
                panic!("a subscriber lost a message or got one twice")
            }
        }
    }
}

/// The same test for attached readers, which fall behind at random, with answers that are ahead of
/// the bus.
#[test]
fn every_change_applies_to_the_attached_readers_book() {
    let (mut merged, mut same, mut read) = (0, 0, 0);
    for seed in 1..=200_u64 {
        let mut random = SplitMix64::new(seed);
        let mut below = |most: usize| random.index(most);
        let (mut world, mut thread) = (World::with_room(300 + below(3_000)), TestThread::default());
        let mut amounts = vec![(1, 0)];
        let mut held: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        let mut asked: Vec<u64> = Vec::new();
        // Batches that the bus has not delivered yet.
        let mut late: std::collections::VecDeque<Vec<u8>> = std::collections::VecDeque::new();
        for _ in 0..300 {
            let (newest, amount) = *amounts.last().unwrap();
            match below(9) {
                0 if held.len() < 6 => {
                    let id = held.len() as u64 + 1;
                    world.node.connected_delegated(id);
                    world.node.opened(id, &format!("/?channels={BOOK}"), world.now, &mut thread);
                    held.insert(id, (0, 0));
                }
                1 | 2 => {
                    let (next, to) = (newest + 1 + below(3) as u64, (amount + 1 + below(3)) % 4);
                    amounts.push((next, to));
                    let text = format!(r#"{{"prev_change_id":{newest},"change_id":{next},"amount":{to}}}"#);
                    let mut writer = BatchWriter::new(world.epoch, world.next);
                    let put = |out: &mut Vec<u8>| {
                        write_frame(out, Opcode::Text, text.as_bytes());
                        Ok::<(), ()>(())
                    };
                    writer.push(world.next - 1, BOOK, put).unwrap();
                    world.next = writer.next();
                    late.push_back(writer.finish());
                }
                3 | 4 => {
                    if let Some(batch) = late.pop_front() {
                        world.node.subscriptions.batch(batch, &mut thread);
                    }
                }
                5 if !asked.is_empty() => {
                    let from = asked.remove(0);
                    let before = amounts.iter().find(|(id, _)| *id == from).expect("a change that there was").1;
                    let reply = here(&world, world.next - 1, 0, "", "");
                    let text = format!(r#"{{"prev_change_id":{from},"change_id":{newest},"amount":{amount}}}"#);
                    let reply = if before == amount { reply } else { Reply { first: text.into_bytes(), ..reply } };
                    merged += u64::from(!reply.first.is_empty());
                    same += u64::from(reply.first.is_empty());
                    world.node.answered(&ask(from), Ok(reply), world.now, &mut thread);
                }
                _ if !thread.readers.is_empty() => {
                    let ids: Vec<u64> = thread.readers.keys().copied().collect();
                    let id = ids[below(ids.len())];
                    let (at, waits, nothing_until) = thread.readers[&id];
                    let next = thread.log.iter().find(|(seq, _)| *seq > at).cloned();
                    match next {
                        Some((seq, _)) if waits => {
                            let newest = thread.log.last().map_or(0, |(seq, _)| *seq);
                            if nothing_until > 0 && newest > nothing_until.max(seq) {
                                thread.readers.insert(id, (at, true, 0));
                                world.node.subscriptions.behind(
                                    id,
                                    world.node.subscriptions.channels.history.known(BOOK).unwrap(),
                                    at,
                                    &mut thread,
                                );
                            }
                        }
                        Some((_, _)) if below(4) == 0 => {
                            thread.readers.insert(id, (at, true, 0));
                            world.node.subscriptions.behind(
                                id,
                                world.node.subscriptions.channels.history.known(BOOK).unwrap(),
                                at,
                                &mut thread,
                            );
                        }
                        Some((seq, text)) => {
                            thread.readers.insert(id, (seq, false, 0));
                            take_in(&mut held, id, vec![text], &mut read);
                        }
                        None => {}
                    }
                }
                _ => {}
            }
            for ask in world.asks() {
                match ask {
                    VenueQuestion::Merged { change_id, .. } => asked.push(change_id),
                    VenueQuestion::Join { name } => {
                        let reply = book_reply(&world, &amounts);
                        world.node.answered(&VenueQuestion::Join { name }, Ok(reply), world.now, &mut thread);
                    }
                    VenueQuestion::From { .. } => world.node.subscriptions.follower.failed(world.now.steady_ns),
                    _ => {}
                }
            }
            let sent = std::mem::take(&mut thread.sent);
            sent.into_iter().for_each(|(id, text)| take_in(&mut held, id, vec![text], &mut read));
        }
    }
    assert!(merged > 200 && same > 50 && read > 2_000, "{merged} {same} {read}");
}
