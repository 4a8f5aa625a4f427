//! A lagging reader of a merged book gets one change that combines all that it has missed, from its
//! own `change_id`.
//!
//! The test changes the book directly, so that it can compare the reader's book with an independent
//! model.

use pitwire_random::SplitMix64;
use std::collections::BTreeMap;

use crate::market::MarketFixture;
use pitwire_deribit::channels::{ChannelCursor, ChannelId, LagPolicy, MissedChange, Overrun};
use pitwire_model::{Event, InstrumentId, Lots, Side, Ticks};
use serde_json::Value;

const HERE: InstrumentId = InstrumentId(0);
type Book = [BTreeMap<i64, u64>; 2];

/// A venue with one book, and all earlier books by their `change_id`.
struct Market {
    fixture: MarketFixture,
    book: Book,
    change_id: u64,
    past: BTreeMap<u64, Book>,
}

impl Market {
    fn new() -> Self {
        let mut fixture = MarketFixture::new();
        fixture.publisher.release();
        let mut market = Market { fixture, book: Book::default(), change_id: 0, past: BTreeMap::new() };
        market.change(&[]);
        market
    }

    /// Publishes one command's changes of the book: side, price, new amount.
    fn change(&mut self, levels: &[(usize, i64, u64)]) {
        let mut events = Vec::new();
        for (side, price, lots) in levels {
            if *lots == 0 {
                self.book[*side].remove(price);
            } else {
                self.book[*side].insert(*price, *lots);
            }
            let side = [Side::Buy, Side::Sell][*side];
            events.push(Event::Level { instrument: HERE, side, price: Ticks(*price), lots: Lots(*lots) });
        }
        self.change_id += 1 + levels.len() as u64;
        events.push(Event::BookChanged { instrument: HERE, change_id: self.change_id });
        self.fixture.observe(&events);
        self.past.insert(self.change_id, self.book.clone());
    }

    fn change_at_random(&mut self, chance: &mut SplitMix64, levels: u64) {
        let levels: Vec<_> = (0..levels)
            .map(|_| {
                let side = usize::try_from(chance.below(2)).unwrap();
                let price = 1_000 + chance.below(60).cast_signed();
                // Few amounts, so that many levels return to an earlier amount.
                (side, price, chance.below(4))
            })
            .collect();
        self.change(&levels);
    }

    /// Changes the book back to an earlier one and publishes that.
    fn restore(&mut self, book: &Book) {
        let all = (0..2).flat_map(|side| (990..1_060).map(move |price| (side, price)));
        let undo: Vec<_> =
            all.map(|(side, price)| (side, price, book[side].get(&price).copied().unwrap_or(0))).collect();
        self.change(&undo);
        self.end_window();
        self.fixture.publisher.release();
    }

    fn end_window(&mut self) {
        self.fixture.at += 100_000_000;
        self.fixture.observe(&[Event::WindowClosed]);
    }

    fn second(&mut self) {
        self.fixture.at = (self.fixture.at / 1_000_000_000 + 1) * 1_000_000_000;
        self.fixture.observe(&[Event::WindowClosed]);
    }
}

struct Reader {
    feed: ChannelId,
    cursor: ChannelCursor,
    book: Book,
    change_id: u64,
    /// Number of messages received.
    message_count: u64,
}

impl Reader {
    fn join(market: &mut Market, name: &str) -> Self {
        let joined = market.fixture.subscribe(name).expect("of this venue");
        let (feed, cursor) = (joined.feed, joined.cursor);
        let mut reader = Reader { feed, cursor, book: Book::default(), change_id: 0, message_count: 0 };
        reader.take(&data(&joined.first.expect("a snapshot")));
        assert_eq!(market.fixture.publisher.lag(feed), LagPolicy::Ask);
        reader
    }

    /// Reads all messages. After each, checks that the reader's book equals the venue's book at
    /// that sequence number.
    fn read(&mut self, market: &Market) -> Result<(), Overrun> {
        let publisher = &market.fixture.publisher;
        let mut place = 0;
        while let Some(next) = publisher.peek(self.feed, &mut self.cursor)? {
            assert!(next >= place, "places in order");
            place = next;
            let held = self.change_id;
            let mut frame = Vec::new();
            publisher.read(self.feed, &mut self.cursor, &mut frame)?;
            let header = [2, 4, 10][usize::from(frame[1].saturating_sub(125).min(2))];
            let data = data(&frame[header..]);
            assert_eq!(data["prev_change_id"], held, "the chain broke");
            let before = self.book.clone();
            let changed = self.take(&data);
            assert_eq!(changed, differing(&before, &self.book), "exactly the levels that differ");
            assert!(changed > 0, "a change that changes nothing");
            assert_eq!(self.cursor.number(), self.change_id);
            assert_eq!(Some(&self.book), market.past.get(&self.change_id), "after {held}");
        }
        Ok(())
    }

    fn take(&mut self, data: &Value) -> usize {
        // Prices are in hundredths, amounts are whole numbers.
        let number = |value: &Value, scale: f64| format!("{:.0}", value.as_f64().unwrap() * scale);
        let key = |value: &Value| number(value, 100.0).parse::<i64>().unwrap();
        self.message_count += 1;
        self.change_id = data["change_id"].as_u64().unwrap();
        let mut changed = 0;
        for (side, name) in self.book.iter_mut().zip(["bids", "asks"]) {
            let levels = data[name].as_array().unwrap();
            changed += levels.len();
            let prices: Vec<i64> = levels.iter().map(|level| key(&level[1])).collect();
            let is_best_first = if name == "bids" { |w: &[i64]| w[0] > w[1] } else { |w: &[i64]| w[0] < w[1] };
            assert!(prices.windows(2).all(is_best_first), "best first: {prices:?}");
            for (level, price) in levels.iter().zip(prices) {
                let amount = number(&level[2], 1.0).parse::<u64>().unwrap();
                match level[0].as_str().unwrap() {
                    "new" => assert_eq!(side.insert(price, amount), None, "new on a level that is there"),
                    "change" => assert!(side.insert(price, amount).is_some(), "change of a level that is not there"),
                    "delete" => assert!(amount == 0 && side.remove(&price).is_some(), "delete of no level"),
                    other => panic!("{other}"),
                }
            }
        }
        changed
    }
}

fn differing(before: &Book, after: &Book) -> usize {
    let mut count = 0;
    for (before, after) in before.iter().zip(after) {
        count += before.keys().filter(|price| before.get(price) != after.get(price)).count();
        count += after.keys().filter(|price| !before.contains_key(price)).count();
    }
    count
}

fn data(text: &[u8]) -> Value {
    serde_json::from_slice::<Value>(text).expect("JSON")["params"]["data"].clone()
}

/// Publishes enough windows with many levels to overwrite a whole ring.
fn run_over(market: &mut Market, chance: &mut SplitMix64) {
    for _ in 0..400 {
        market.change_at_random(chance, 60);
        market.end_window();
        market.fixture.publisher.release();
    }
}

#[test]
fn stalled_reader_holds_the_venues_book_at_every_number() {
    let seed = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut chance = SplitMix64::new(seed);
    let mut market = Market::new();
    let names = ["book.NPN_ZAR.100ms", "book.NPN_ZAR.agg2"];
    let mut readers: Vec<(u64, Reader)> = Vec::new();
    let (mut merged, mut gone) = (0, 0);
    for window in 0..10_000_u64 {
        for _ in 0..chance.below(4) {
            let levels = 1 + chance.below(30);
            market.change_at_random(&mut chance, levels);
        }
        market.end_window();
        // Sometimes messages are published but not released yet.
        if chance.below(3) > 0 {
            market.fixture.publisher.release();
        }
        if readers.len() < 12 && chance.below(20) == 0 {
            let name = names[usize::try_from(chance.below(2)).unwrap()];
            readers.push((window, Reader::join(&mut market, name)));
        }
        readers.retain_mut(|(until, reader)| {
            if *until > window {
                return true;
            }
            // Readers are mostly prompt, often overrun, and sometimes away for longer than the
            // history.
            *until = window
                + match chance.below(40) {
                    0 => chance.below(8_000),
                    1..=9 => chance.below(2_500),
                    _ => chance.below(5),
                };
            let (message_count, behind) = (reader.message_count, reader.change_id);
            let is_in_reach = reader.read(&market).is_ok();
            let leapt = market.past.range(behind..=reader.change_id).count() > 500;
            merged += u64::from(is_in_reach && leapt && reader.message_count == message_count + 1);
            gone += u64::from(!is_in_reach);
            is_in_reach
        });
    }
    assert!(merged > 20, "seed {seed}: only {merged} received a sum");
    assert!(gone > 0, "seed {seed}: no subscriber was too far behind");
}

#[test]
fn reader_with_unchanged_book_gets_no_message() {
    let mut chance = SplitMix64::new(1);
    let mut market = Market::new();
    market.change(&[(0, 990, 5), (1, 1_010, 5)]);
    let mut reader = Reader::join(&mut market, "book.NPN_ZAR.100ms");
    let before = market.book.clone();
    run_over(&mut market, &mut chance);
    market.restore(&before);
    assert_eq!(market.book, before);
    let (held, message_count) = (reader.change_id, reader.message_count);
    reader.read(&market).unwrap();
    assert_eq!((reader.change_id, reader.message_count), (held, message_count), "nothing to tell");
    // Published, but not released yet.
    market.change(&[(0, 990, 6)]);
    market.end_window();
    reader.read(&market).unwrap();
    assert_eq!(reader.message_count, message_count);
    market.fixture.publisher.release();
    reader.read(&market).unwrap();
    assert_eq!(
        (reader.change_id, reader.message_count),
        (market.change_id, message_count + 1),
        "one change, from what it held"
    );
    market.change(&[(1, 1_011, 6)]);
    market.end_window();
    market.fixture.publisher.release();
    reader.read(&market).unwrap();
    assert_eq!((reader.change_id, reader.message_count), (market.change_id, message_count + 2), "in step again");
}

/// A turn merges a bounded amount even if many readers lag together, and the host learns that there
/// is more.
#[test]
fn many_lagging_readers_are_served_over_several_turns() {
    let mut chance = SplitMix64::new(2);
    let mut market = Market::new();
    let mut readers: Vec<Reader> = (0..1_000).map(|_| Reader::join(&mut market, "book.NPN_ZAR.100ms")).collect();
    run_over(&mut market, &mut chance);
    let levels = market.book.iter().map(BTreeMap::len).sum::<usize>();
    assert!(levels > 50, "{levels}");
    let mut turns = 0;
    loop {
        turns += 1;
        let before = readers.iter().filter(|reader| reader.message_count > 1).count();
        readers.iter_mut().for_each(|reader| reader.read(&market).unwrap());
        let served = readers.iter().filter(|reader| reader.message_count > 1).count() - before;
        assert!((1..=600).contains(&served), "{served} in one turn");
        if !market.fixture.publisher.has_put_off() {
            break;
        }
        assert!(market.fixture.publisher.release(), "the host asks them again");
    }
    assert!(turns > 1);
    assert!(!market.fixture.publisher.release(), "and then it rests");
    assert!(readers.iter().all(|reader| reader.change_id == market.change_id && reader.message_count == 2));
}

#[test]
fn handed_off_reader_gets_merged_change_by_number() {
    let mut chance = SplitMix64::new(3);
    let mut market = Market::new();
    let mut reader = Reader::join(&mut market, "book.NPN_ZAR.agg2");
    let feed = reader.feed;
    let start = reader.change_id;
    assert_eq!(market.fixture.publisher.merged(feed, start), MissedChange::Same);
    assert_eq!(market.fixture.publisher.merged(feed, start - 1), MissedChange::Gone, "before there was a listener");
    for _ in 0..5 {
        market.change_at_random(&mut chance, 40);
        market.second();
        market.fixture.publisher.release();
    }
    market.change_at_random(&mut chance, 40);
    let MissedChange::Change(payload) = market.fixture.publisher.merged(feed, start) else { panic!("there is a sum") };
    let text: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!((&text["method"], &text["params"]["channel"]), (&"subscription".into(), &"book.NPN_ZAR.agg2".into()));
    reader.take(&data(&payload));
    assert_eq!(reader.change_id, market.fixture.publisher.published_id(feed));
    assert_eq!(Some(&reader.book), market.past.get(&reader.change_id));
    let raw = market.fixture.subscribe("book.NPN_ZAR.raw").unwrap().feed;
    assert_eq!(market.fixture.publisher.merged(raw, start), MissedChange::Gone, "raw readers are closed");
    assert_eq!(market.fixture.publisher.lag(raw), LagPolicy::Close);
}

/// A delivery thread needs the starting number of a handed-off reader, and later one combined
/// change.
#[test]
fn handed_off_reader_starts_at_book_number_and_merges_in_turn() {
    let mut chance = SplitMix64::new(4);
    let mut market = Market::new();
    let mut reader = Reader::join(&mut market, "book.NPN_ZAR.100ms");
    let (feed, start) = (reader.feed, reader.change_id);
    run_over(&mut market, &mut chance);
    assert!(!market.fixture.publisher.is_at_end(feed, reader.cursor));
    reader.read(&market).unwrap();
    assert!(market.fixture.publisher.is_at_end(feed, reader.cursor));
    // The next message continues from the reader's number. Only the first hand-off returns that
    // number.
    assert_eq!(market.fixture.publisher.add_remote(feed), Some(reader.change_id));
    assert_eq!(market.fixture.publisher.add_remote(feed), None);
    market.fixture.publisher.take_back(feed);
    market.fixture.publisher.take_back(feed);
    let trades = market.fixture.subscribe("trades.NPN_ZAR.100ms").unwrap().feed;
    assert_eq!(market.fixture.publisher.add_remote(trades), None, "trades have no chain of numbers");
    // Different numbers, same content: the reader's book is current, but under an earlier
    // `change_id`.
    let before = market.book.clone();
    run_over(&mut market, &mut chance);
    market.restore(&before);
    let held = reader.change_id;
    reader.read(&market).unwrap();
    assert_eq!((reader.change_id, market.fixture.publisher.published_id(feed)), (held, market.change_id));
    assert!(
        !market.fixture.publisher.is_at_end(feed, reader.cursor),
        "what comes next does not lead on from what it has"
    );
    // A turn merges a bounded amount, and the host learns that there is more.
    let answers: Vec<_> = (0..1_000).map_while(|_| market.fixture.publisher.merged_in_turn(feed, start)).collect();
    assert!((1..=600).contains(&answers.len()), "{} in one turn", answers.len());
    assert!(answers.iter().all(|answer| *answer == market.fixture.publisher.merged(feed, start)));
    assert!(market.fixture.publisher.has_put_off() && market.fixture.publisher.release());
    assert!(market.fixture.publisher.merged_in_turn(feed, held) == Some(MissedChange::Same));
}
