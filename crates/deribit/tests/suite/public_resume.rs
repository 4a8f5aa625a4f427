//! A subscriber that resumes with a number gets the messages between it and its new cursor, once,
//! or the reason for a refusal.

use crate::market::{MarketFixture, Reader};
use pitwire_deribit::channels::ChannelId;
use pitwire_deribit::codec::{Channel, ResumeReason};
use pitwire_model::{AccountId, Command, InstrumentId, Lots, NewOrder, OrderId, OrderType, Side, Ticks, TimeInForce};
use serde_json::Value;

const ROOM: usize = 1 << 20;

fn order(fixture: &mut MarketFixture, side: Side, price: i64) {
    fixture.apply(Command::Enter(NewOrder {
        id: OrderId(fixture.seq + 1),
        account: AccountId(0),
        instrument: InstrumentId(0),
        side,
        lots: Lots(1),
        order_type: OrderType::Limit { price: Ticks(price) },
        tif: TimeInForce::Day,
        ..NewOrder::PLAIN
    }));
}

/// Makes one more trade. The tape numbers trades from 1.
fn trade(fixture: &mut MarketFixture) {
    order(fixture, Side::Buy, 100);
    order(fixture, Side::Sell, 100);
}

fn end_window(fixture: &mut MarketFixture) {
    fixture.at += 100_000_000;
    fixture.apply(Command::CloseWindow);
}

fn missed(
    fixture: &MarketFixture,
    name: &str,
    feed: ChannelId,
    number: u64,
    room: usize,
) -> Result<Vec<Value>, ResumeReason> {
    let channel = Channel::parse(name).expect("a channel");
    let missed = fixture.publisher.missed(feed, &channel, number, room, (&fixture.engine, &fixture.views))?;
    Ok(missed
        .iter()
        .map(|text| serde_json::from_slice::<Value>(text).expect("JSON")["params"]["data"].clone())
        .collect())
}

fn numbers(received: &[Value]) -> Vec<u64> {
    let trades = received.iter().flat_map(|data| data.as_array().expect("a list"));
    trades.map(|trade| trade["trade_seq"].as_u64().expect("a number")).collect()
}

#[test]
fn trades_of_open_window_are_sent_at_its_end() {
    let name = "trades.NPN_ZAR.100ms";
    let mut fixture = MarketFixture::new();
    let mut first = Reader::join(&mut fixture, name);
    (0..3).for_each(|_| trade(&mut fixture));
    end_window(&mut fixture);
    (0..2).for_each(|_| trade(&mut fixture));
    // Five trades exist, and three of them have been published.
    let mut back = Reader::join(&mut fixture, name);
    let channel = Channel::parse(name).expect("a channel");
    assert_eq!(fixture.publisher.number(back.feed, &channel, &fixture.engine, &fixture.views), Some(3));
    assert_eq!(numbers(&missed(&fixture, name, back.feed, 1, ROOM).unwrap()), [2, 3]);
    assert_eq!(missed(&fixture, name, back.feed, 3, ROOM), Ok(vec![]));
    assert_eq!(missed(&fixture, name, back.feed, 4, ROOM), Err(ResumeReason::Unknown));
    end_window(&mut fixture);
    assert_eq!(numbers(&back.read(&mut fixture)), [4, 5]);
    assert_eq!(numbers(&first.read(&mut fixture)), [1, 2, 3, 4, 5]);
}

#[test]
fn missed_trades_come_in_messages_of_100_within_limit() {
    let name = "trades.NPN_ZAR.raw";
    let mut fixture = MarketFixture::new();
    (0..10_005).for_each(|_| trade(&mut fixture));
    // The channel has never had a subscriber.
    let back = Reader::join(&mut fixture, name);
    let received = missed(&fixture, name, back.feed, 9_755, ROOM).unwrap();
    assert_eq!(received.iter().map(|data| data.as_array().unwrap().len()).collect::<Vec<_>>(), [100, 100, 50]);
    assert_eq!(numbers(&received), (9_756..=10_005).collect::<Vec<u64>>());
    // The tape keeps 10,000 trades.
    assert_eq!(missed(&fixture, name, back.feed, 4, ROOM), Err(ResumeReason::TooOld));
    assert_eq!(missed(&fixture, name, back.feed, 5, ROOM), Err(ResumeReason::TooMuch));
    assert_eq!(missed(&fixture, name, back.feed, 9_755, 1_000), Err(ResumeReason::TooMuch));
    assert_eq!(missed(&fixture, name, back.feed, u64::MAX, ROOM), Err(ResumeReason::Unknown));
}

#[test]
fn held_book_channel_can_be_resumed_from_its_ring() {
    for (name, is_window) in [("book.NPN_ZAR.raw", false), ("book.NPN_ZAR.100ms", true)] {
        let mut fixture = MarketFixture::new();
        let reader = Reader::join(&mut fixture, name);
        let start = reader.first.as_ref().unwrap()["change_id"].as_u64().unwrap();
        fixture.publisher.hold(reader.feed);
        fixture.publisher.unsubscribe(reader.feed);
        for price in 1..=4 {
            order(&mut fixture, Side::Buy, price);
            if is_window {
                end_window(&mut fixture);
            }
        }
        let back = Reader::join(&mut fixture, name);
        let received = missed(&fixture, name, back.feed, start, ROOM).unwrap();
        let prices: Vec<_> = received.iter().map(|data| data["bids"][0][1].as_f64().unwrap()).collect();
        assert_eq!(prices, [0.01, 0.02, 0.03, 0.04], "{name}");
        let mut chain = start;
        for data in &received {
            assert_eq!(data["prev_change_id"].as_u64(), Some(chain));
            chain = data["change_id"].as_u64().unwrap();
        }
        assert_eq!(back.first.unwrap()["change_id"].as_u64(), Some(chain), "it ends where a joiner begins");
        assert_eq!(missed(&fixture, name, back.feed, start, 50), Err(ResumeReason::TooMuch));
        assert_eq!(missed(&fixture, name, back.feed, chain + 1, ROOM), Err(ResumeReason::Unknown));
        // All subscribers leave, and the book changes.
        fixture.publisher.unsubscribe(back.feed);
        fixture.publisher.unsubscribe(back.feed);
        order(&mut fixture, Side::Buy, 5);
        let late = Reader::join(&mut fixture, name);
        assert_eq!(missed(&fixture, name, late.feed, chain, ROOM), Err(ResumeReason::TooOld));
        assert_eq!(missed(&fixture, name, late.feed, start, ROOM), Err(ResumeReason::TooOld));
    }
}
