//! A subscriber of a book channel, on any interval and from any moment on, reconstructs the
//! engine's public book, and every change is legal.

use pitwire_random::SplitMix64;
use std::collections::BTreeMap;

use crate::market::MarketFixture;
use pitwire_deribit::channels::{ChannelCursor, ChannelId, PublicChannels};
use pitwire_deribit::codec::Interval;
use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, Command, Decimal, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Side, Ticks, TimeInForce,
};
use serde_json::Value;

fn join(fixture: &mut MarketFixture, name: &str) -> Reader {
    let subscribed = fixture.subscribe(name).expect("of this venue");
    let mut reader = Reader { feed: subscribed.feed, cursor: subscribed.cursor, ..Reader::default() };
    if let Some(first) = subscribed.first {
        reader.take(&serde_json::from_slice(&first).expect("JSON"));
    }
    reader
}

#[derive(Default)]
struct Reader {
    feed: ChannelId,
    cursor: ChannelCursor,
    sides: [BTreeMap<String, String>; 2],
    change_id: u64,
    messages: u64,
    trades: Vec<u64>,
}

impl Reader {
    fn read(&mut self, publisher: &PublicChannels) {
        while publisher.peek(self.feed, &mut self.cursor).expect("never overrun").is_some() {
            let mut frame = Vec::new();
            publisher.read(self.feed, &mut self.cursor, &mut frame).expect("it was there");
            // The header of a frame has two, four or ten bytes, depending on the payload length.
            let header = [2, 4, 10][usize::from(frame[1].saturating_sub(125).min(2))];
            self.take(&serde_json::from_slice(&frame[header..]).expect("JSON"));
        }
    }

    fn take(&mut self, message: &Value) {
        let data = &message["params"]["data"];
        self.messages += 1;
        if let Some(trades) = data.as_array() {
            self.trades.extend(trades.iter().map(|trade| trade["trade_seq"].as_u64().expect("a number")));
            return;
        }
        match data.get("prev_change_id") {
            None => assert_eq!(data["type"], "snapshot"),
            Some(previous) => assert_eq!(previous.as_u64(), Some(self.change_id), "the chain broke"),
        }
        self.change_id = data["change_id"].as_u64().expect("a number");
        let mut changed = 0;
        for (side, key) in self.sides.iter_mut().zip(["bids", "asks"]) {
            for level in data[key].as_array().expect("a list") {
                changed += 1;
                let (price, amount) = (level[1].to_string(), level[2].to_string());
                let before = match level[0].as_str() {
                    Some("delete") => side.remove(&price),
                    _ => side.insert(price.clone(), amount),
                };
                let is_new = level[0] == "new";
                assert_eq!(before.is_none(), is_new, "{} of {price} which was {before:?}", level[0]);
            }
        }
        assert!(changed > 0 || data["type"] == "snapshot", "a change that changes nothing");
    }

    fn agrees(&self, engine: &Engine) {
        let market = &engine.markets()[0];
        for (mine, side) in self.sides.iter().zip([Side::Buy, Side::Sell]) {
            let theirs: BTreeMap<String, String> = market
                .book()
                .levels(side)
                .map(|(price, lots)| (number(market.spec.price(price)), number(market.spec.amount(lots))))
                .collect();
            assert_eq!(*mine, theirs, "{side:?}");
        }
    }
}

/// Formats a number as the JSON reader prints it, without trailing zeros.
fn number(value: Decimal) -> String {
    let text = value.to_string();
    let value: f64 = text.parse().expect("a number");
    Value::from(value).to_string()
}

#[test]
fn every_subscriber_reconstructs_the_engines_book() {
    let mut fixture = MarketFixture::new();
    let mut source = SplitMix64::new(11);
    let mut random = move |below: u64| source.below(below);
    let mut readers: Vec<(Interval, Reader)> = Vec::new();
    let mut tape = join(&mut fixture, "trades.NPN_ZAR.100ms");
    let mut live = Vec::new();
    for step in 0..6_000_u64 {
        if step % 60 == 7 {
            // Subscribers also leave: a channel without subscribers must start afresh for the next
            // one.
            if readers.len() > 1 {
                let (_, left) = readers.remove(0);
                fixture.publisher.unsubscribe(left.feed);
            }
            let interval = Interval::ALL[usize::try_from(random(3)).unwrap_or(0)];
            let reader = join(&mut fixture, &format!("book.NPN_ZAR.{}", interval.name()));
            if interval == Interval::Raw {
                reader.agrees(&fixture.engine);
                assert_eq!(reader.change_id, fixture.engine.markets()[0].change_id(), "the number REST gives it");
            }
            readers.push((interval, reader));
        }
        let command = match random(10) {
            0..=5 => {
                let limit = OrderType::Limit { price: Ticks(i64::try_from(95 + random(11)).unwrap_or(100)) };
                live.push(OrderId(fixture.seq + 1));
                Command::Enter(NewOrder {
                    id: OrderId(fixture.seq + 1),
                    account: AccountId(0),
                    instrument: InstrumentId(0),
                    side: if random(2) == 0 { Side::Buy } else { Side::Sell },
                    order_type: if random(8) == 0 { OrderType::Market } else { limit },
                    lots: Lots(1 + random(5)),
                    tif: TimeInForce::Day,
                    label: Label::default(),
                    ..NewOrder::PLAIN
                })
            }
            6..=8 if !live.is_empty() => {
                let at = usize::try_from(random(live.len() as u64)).unwrap_or(0);
                Command::Cancel { account: AccountId(0), order: live.swap_remove(at) }
            }
            _ => {
                fixture.at += 100_000_000;
                Command::CloseWindow
            }
        };
        let is_window = command == Command::CloseWindow;
        let is_second = fixture.at.is_multiple_of(1_000_000_000);
        fixture.apply(command);
        fixture.publisher.release();
        for (interval, reader) in &mut readers {
            reader.read(&fixture.publisher);
            let is_current = match interval {
                Interval::Raw => true,
                Interval::Ms100 => is_window,
                Interval::Agg2 => is_window && is_second,
            };
            if is_current {
                reader.agrees(&fixture.engine);
            }
        }
        tape.read(&fixture.publisher);
    }
    fixture.at += 1_000_000_000;
    fixture.apply(Command::CloseWindow);
    fixture.publisher.release();
    tape.read(&fixture.publisher);
    let all: Vec<u64> = (1..=fixture.engine.markets()[0].trades().0).collect();
    assert_eq!(tape.trades, all, "each trade once, in order");
    assert!(all.len() > 500 && tape.messages > 100);
}
