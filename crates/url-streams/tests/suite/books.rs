//! A client that follows a dialect's rules always has the venue's book: the depth stream joined to
//! a REST snapshot taken at any time, and the dialects that begin with a whole book.

use pitwire_random::SplitMix64;
use std::collections::BTreeMap;

use crate::fixture::{StreamFixture, json};
use pitwire_model::{Lots, OrderId, Side};
use pitwire_url_streams::StreamId;
use serde_json::Value;

/// A client's book: both sides by price, in hundredths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Book {
    sides: [BTreeMap<u64, u64>; 2],
}

/// Parses "3199.99000000" as 319999. The tests trade whole shares at whole cents.
fn hundredths(text: &Value) -> u64 {
    let text = text.as_str().expect("a string");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let part = format!("{part:0<2}");
    assert!(part[2..].bytes().all(|byte| byte == b'0'), "{text}");
    format!("{whole}{}", &part[..2]).parse().expect("digits")
}

impl Book {
    fn set(&mut self, side: usize, price: &Value, amount: &Value) {
        match hundredths(amount) {
            0 => self.sides[side].remove(&hundredths(price)),
            amount => self.sides[side].insert(hundredths(price), amount),
        };
    }

    fn take(&mut self, message: &Value, keys: [&str; 2]) {
        for (side, key) in keys.into_iter().enumerate() {
            for level in message[key].as_array().expect("a list") {
                self.set(side, &level[0], &level[1]);
            }
        }
    }

    fn of(fixture: &StreamFixture) -> Book {
        let market = &fixture.engine.markets()[0];
        let side = |side| {
            let levels = market.book().levels(side);
            levels.map(|(price, lots)| (price.0.unsigned_abs(), lots.0 * 100)).collect()
        };
        Book { sides: [Side::Buy, Side::Sell].map(side) }
    }
}

/// A Binance client that uses the documented five steps.
struct Follower {
    stream: StreamId,
    book: Book,
    last: Option<u64>,
    /// Number of events since the snapshot.
    events: u64,
    kept: Vec<Value>,
}

impl Follower {
    fn receive(&mut self, fixture: &mut StreamFixture) {
        self.kept.extend(fixture.received(self.stream).iter().map(|text| json(text)));
    }

    fn snapshot(&mut self, fixture: &StreamFixture) {
        let snapshot = fixture.rest("/api/v3/depth?symbol=NPNZAR&limit=5000");
        self.book = Book::default();
        self.book.take(&snapshot, ["bids", "asks"]);
        self.last = snapshot["lastUpdateId"].as_u64();
        self.events = 0;
    }

    fn follow(&mut self) {
        let Some(mut last) = self.last else { return };
        for event in std::mem::take(&mut self.kept) {
            let [first, until] = ["U", "u"].map(|key| event[key].as_u64().expect("a number"));
            if until <= last {
                assert_eq!(self.events, 0, "an old event after the first");
                continue;
            }
            match self.events {
                0 => assert!(first <= last + 1, "the stream begins at {first}, the snapshot ends at {last}"),
                _ => assert_eq!(first, last + 1, "a hole"),
            }
            self.book.take(&event, ["b", "a"]);
            (last, self.events) = (until, self.events + 1);
        }
        self.last = Some(last);
    }
}

/// Does something at random: an order around a price, a cancel, or nothing.
fn happen(fixture: &mut StreamFixture, chance: &mut SplitMix64, live: &mut Vec<OrderId>) {
    match chance.below(10) {
        0..=5 => {
            let side = if chance.below(2) == 0 { Side::Buy } else { Side::Sell };
            let price = 100 + chance.below(10).cast_signed();
            live.push(fixture.enter(side, price, 1 + chance.below(5)));
        }
        6..=8 if !live.is_empty() => {
            let at = usize::try_from(chance.below(live.len() as u64)).unwrap_or(0);
            let order = live.swap_remove(at);
            fixture.cancel(order);
        }
        _ => {}
    }
}

#[test]
fn snapshot_at_any_time_joins_both_depth_streams() {
    for (target, tenths) in [("/ws/npnzar@depth@100ms", 1), ("/ws/npnzar@depth", 10)] {
        let (mut fixture, mut chance) = (StreamFixture::new(), SplitMix64::new(7));
        let (mut live, mut followers, mut joined) = (Vec::new(), Vec::<Follower>::new(), 0);
        for tenth in 1..600_u64 {
            for _ in 0..chance.below(8) {
                happen(&mut fixture, &mut chance, &mut live);
                if chance.below(40) == 0 {
                    let stream = fixture.join(target);
                    fixture.received(stream);
                    followers.push(Follower { stream, book: Book::default(), last: None, events: 0, kept: Vec::new() });
                    joined += 1;
                }
                for follower in &mut followers {
                    if follower.last.is_none() && chance.below(10) == 0 {
                        follower.snapshot(&fixture);
                    }
                }
            }
            fixture.window(tenth * 100);
            let emitted: Vec<Value> = match followers.first() {
                Some(one) => fixture.received(one.stream).iter().map(|text| json(text)).collect(),
                None => Vec::new(),
            };
            for follower in &mut followers {
                follower.kept.extend(emitted.iter().cloned());
                follower.follow();
                if follower.events > 0 && tenth % tenths == 0 {
                    assert_eq!(follower.book, Book::of(&fixture), "{target} at {tenth}");
                }
            }
            // All readers leave now and then. The numbers of a later reader continue without a gap.
            if tenth % 100 == 99 {
                followers.drain(..).for_each(|follower| fixture.streams.unlisten(follower.stream));
            }
        }
        assert!(joined > 30, "{joined} followers");
    }
}

/// One client (python-binance) starts again unless the first event begins right after its snapshot,
/// and then applies that event to the new one.
#[test]
fn snapshot_ends_with_a_window_while_depth_has_readers() {
    let (mut fixture, mut chance, mut live) = (StreamFixture::new(), SplitMix64::new(5), Vec::new());
    let [tenth, second] = ["/ws/npnzar@depth@100ms", "/ws/npnzar@depth"].map(|target| fixture.join(target));
    let mut expected: Option<(u64, Book)> = None;
    for at in 1..200_u64 {
        let mut snapshot = None;
        for _ in 0..chance.below(6) {
            happen(&mut fixture, &mut chance, &mut live);
            let body = fixture.rest("/api/v3/depth?symbol=NPNZAR&limit=5000");
            let mut book = Book::default();
            book.take(&body, ["bids", "asks"]);
            snapshot = Some((body["lastUpdateId"].as_u64().expect("a number"), book));
        }
        if let (Some(snapshot), Some(expected)) = (&snapshot, &expected) {
            assert_eq!(snapshot, expected, "{at}");
        }
        fixture.window(at * 100);
        let emitted: Vec<Value> = fixture.received(tenth).iter().map(|text| json(text)).collect();
        for (event, (last, _)) in emitted.iter().zip(&snapshot).filter(|_| expected.is_some()) {
            assert_eq!(event["U"].as_u64(), Some(last + 1));
        }
        let before = expected.take().map_or(0, |(last, _)| last);
        let last = emitted.last().and_then(|event| event["u"].as_u64()).unwrap_or(before);
        expected = (last > 0).then(|| (last, Book::of(&fixture)));
        if at % 10 == 0 {
            for event in fixture.received(second) {
                assert_eq!(json(&event)["u"].as_u64(), Some(last), "both cadences end together");
            }
        }
    }
    [tenth, second].into_iter().for_each(|stream| fixture.streams.unlisten(stream));
    fixture.enter(Side::Buy, 50, 1);
    let body = fixture.rest("/api/v3/depth?symbol=NPNZAR&limit=5000");
    assert_eq!(
        body["lastUpdateId"].as_u64(),
        Some(fixture.engine.markets()[0].change_id()),
        "without readers: the present"
    );
}

#[test]
fn level_that_returns_to_its_old_quantity_is_reported() {
    let mut fixture = StreamFixture::new();
    let order = fixture.enter(Side::Buy, 100, 5);
    let stream = fixture.join("/ws/npnzar@depth@100ms");
    fixture.window(100);
    fixture.received(stream);
    fixture.cancel(order);
    let mut follower = Follower { stream, book: Book::default(), last: None, events: 0, kept: Vec::new() };
    // The level disappears in between. At the end of the window it has its old quantity.
    follower.snapshot(&fixture);
    fixture.enter(Side::Buy, 100, 5);
    fixture.window(200);
    follower.receive(&mut fixture);
    follower.follow();
    assert_eq!(follower.book, Book::of(&fixture));
}

#[test]
fn updates_apply_to_the_first_whole_book() {
    let (mut fixture, mut chance, mut live) = (StreamFixture::new(), SplitMix64::new(3), Vec::new());
    for _ in 0..50 {
        happen(&mut fixture, &mut chance, &mut live);
    }
    let bithumb = fixture.join("/message/realtime?subscribe=ORDERBOOK:NPN-ZAR");
    let one = fixture.join("/v1/marketdata/npnzar?bids=true&offers=true");
    let two = {
        let mut session = fixture.open("/v2/marketdata").session;
        let outcome = session.handle_message(
            r#"{"type":"subscribe","subscriptions":[{"name":"l2","symbols":["NPNZAR"]}]}"#,
            fixture.streams.directory(),
        );
        fixture.streams.listen(outcome.join[0], &fixture.engine).expect("of this venue")
    };
    let mut books: [Book; 3] = Default::default();
    let first = json(&fixture.first(bithumb).expect("a whole book"));
    assert_eq!((first["code"].as_str(), first["data"]["symbol"].as_str()), (Some("00006"), Some("NPN-ZAR")));
    let mut ver: u64 = first["data"]["ver"].as_str().expect("a string").parse().expect("digits");
    books[0].take(&first["data"], ["b", "s"]);
    let change = |book: &mut Book, event: &Value| {
        let side = usize::from(event["side"] == "ask");
        let before = book.sides[side].get(&hundredths(&event["price"])).copied().unwrap_or(0);
        book.set(side, &event["price"], &event["remaining"]);
        let delta = event["delta"].as_str().expect("a string");
        let (sign, digits) = delta.strip_prefix('-').map_or((1, delta), |digits| (-1, digits));
        let delta = sign * i64::try_from(hundredths(&digits.into())).expect("small");
        let now = i64::try_from(hundredths(&event["remaining"])).expect("small");
        assert_eq!(i64::try_from(before).expect("small") + delta, now, "{event}");
    };
    let first = json(&fixture.first(one).expect("a whole book"));
    first["events"].as_array().expect("a list").iter().for_each(|event| change(&mut books[1], event));
    let level2 = |book: &mut Book, message: &Value| {
        for level in message["changes"].as_array().expect("a list") {
            book.set(usize::from(level[0] == "sell"), &level[1], &level[2]);
        }
    };
    let first = json(&fixture.first(two).expect("a whole book"));
    assert!(first["trades"].is_array() && first["auction_events"].is_array());
    level2(&mut books[2], &first);
    for _ in 0..2_000 {
        happen(&mut fixture, &mut chance, &mut live);
        for text in fixture.received(bithumb) {
            let message = json(&text);
            ver += 1;
            assert_eq!((&message["code"], &message["data"]["ver"]), (&"00007".into(), &ver.to_string().into()));
            books[0].take(&message["data"], ["b", "s"]);
        }
        for text in fixture.received(one) {
            json(&text)["events"].as_array().expect("a list").iter().for_each(|event| change(&mut books[1], event));
        }
        for text in fixture.received(two) {
            let message = json(&text);
            if message["type"] == "l2_updates" {
                level2(&mut books[2], &message);
            }
        }
        for book in &books {
            assert_eq!(*book, Book::of(&fixture));
        }
    }
}

#[test]
fn best_prices_and_partial_books_are_written_when_they_change() {
    let mut fixture = StreamFixture::new();
    let (touch, five) = (fixture.join("/ws/npnzar@bookTicker"), fixture.join("/ws/npnzar@depth5@100ms"));
    fixture.enter(Side::Buy, 100, 5);
    let deep = fixture.enter(Side::Buy, 90, 5);
    fixture.enter(Side::Sell, 110, 2);
    let received: Vec<Value> = fixture.received(touch).iter().map(|text| json(text)).collect();
    let emitted: Vec<_> =
        received.iter().map(|message| (hundredths(&message["b"]), hundredths(&message["A"]))).collect();
    assert_eq!(emitted, [(100, 0), (100, 200)], "a level below the best is not the touch");
    fixture.window(100);
    let book = json(&fixture.received(five)[0]);
    assert_eq!((book["bids"].as_array().map(Vec::len), book["asks"].as_array().map(Vec::len)), (Some(2), Some(1)));
    fixture.window(200);
    assert_eq!(fixture.received(five), [""; 0], "nothing has changed");
    fixture.cancel(deep);
    fixture.window(300);
    assert_eq!((fixture.received(five).len(), fixture.received(touch).len()), (1, 0));
    let market = &fixture.engine.markets()[0];
    assert_eq!(market.best(Side::Buy).map(|(_, lots)| lots), Some(Lots(5)));
}
