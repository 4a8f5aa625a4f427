//! Sessions and auction calls in the public channels, from events written by hand.

use crate::market::{MarketFixture, Reader};
use pitwire_model::{
    AccountId, Derivation, Event, InstrumentId, Lots, OffBookTrade, OrderId, Phase, Reference, Seq, SessionReason,
    Side, Ticks, TradeKind, TradeSeq, VenueNanos,
};
use serde_json::{Value, json};

const HERE: InstrumentId = InstrumentId(0);
const MS: u64 = 1_000_000;

fn turn(from: Phase, to: Phase, reason: SessionReason, ends_ms: Option<u64>) -> Event {
    let ends = ends_ms.map(|ms| VenueNanos(ms * MS));
    Event::SessionChanged { instrument: HERE, from, to, reason, ends }
}

fn indicative(price: Option<i64>, volume: u64, imbalance: i64) -> Event {
    Event::Indicative { instrument: HERE, price: price.map(Ticks), volume: Lots(volume), imbalance }
}

fn level(side: Side, price: i64, lots: u64) -> Event {
    Event::Level { instrument: HERE, side, price: Ticks(price), lots: Lots(lots) }
}

fn changed(fixture: &mut MarketFixture) -> Event {
    fixture.changes += 1;
    Event::BookChanged { instrument: HERE, change_id: 1_000 + fixture.changes }
}

fn trade(seq: u64, price: i64, lots: u64, kind: TradeKind) -> Event {
    Event::Trade {
        instrument: HERE,
        trade_seq: TradeSeq(seq),
        price: Ticks(price),
        lots: Lots(lots),
        taker_side: Side::Buy,
        maker: OrderId(900),
        maker_account: AccountId(0),
        maker_open: Lots(0),
        taker: OrderId(901),
        taker_account: AccountId(0),
        taker_open: Lots(0),
        kind,
    }
}

#[track_caller]
fn fields(received: &Value, expected: &[(&str, Value)]) {
    for (field, value) in expected {
        assert_eq!(&received[*field], value, "{field} of {received}");
    }
}

#[test]
fn session_message_has_reason_and_end() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "session.NPN_ZAR");
    let first = reader.first.take().expect("the present");
    fields(&first, &[("session", json!("continuous")), ("state", json!("open")), ("match", json!("continuous"))]);
    assert_eq!(first.get("ends"), None, "the end is unknown");

    fixture.at = 5_000 * MS;
    let book = changed(&mut fixture);
    fixture.observe(&[turn(Phase::Continuous, Phase::IntradayCall, SessionReason::Scheduled, Some(35_000)), book]);
    // A second change follows before anyone reads the first. Neither may be lost.
    fixture.at = 6_000 * MS;
    fixture.observe(&[turn(Phase::IntradayCall, Phase::IntradayCall, SessionReason::Extended, Some(65_000))]);
    let received = reader.read(&mut fixture);
    assert_eq!(received.len(), 2, "{received:?}");
    fields(
        &received[0],
        &[
            ("timestamp", json!(5_000)),
            ("session", json!("intraday_auction")),
            ("previous_session", json!("continuous")),
            ("state", json!("open")),
            ("reason", json!("scheduled")),
            ("begins", json!(5_000)),
            ("ends", json!(35_000)),
            ("enter", json!(true)),
            ("match", json!("uncross")),
        ],
    );
    // An extension moves only the end.
    fields(
        &received[1],
        &[
            ("session", json!("intraday_auction")),
            ("previous_session", json!("continuous")),
            ("reason", json!("extended")),
            ("begins", json!(5_000)),
            ("ends", json!(65_000)),
        ],
    );
    fixture.observe(&[changed_only()]);
    assert_eq!(reader.read(&mut fixture), Vec::<Value>::new(), "the session is what it was");
    let joined = Reader::join(&mut fixture, "session.NPN_ZAR").first.expect("the present");
    assert_eq!(joined["ends"], json!(65_000));
}

fn changed_only() -> Event {
    Event::BookChanged { instrument: HERE, change_id: 5_000 }
}

#[test]
fn breach_is_sent_only_with_the_call_it_causes() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "session.NPN_ZAR");
    fixture.at = 1_000 * MS;
    let breached = Event::Breached {
        instrument: HERE,
        price: Ticks(111),
        reference: Ticks(100),
        against: Reference::Dynamic,
        bps: 1_000,
    };
    let book = changed(&mut fixture);
    let call = turn(Phase::Continuous, Phase::VolatilityCall, SessionReason::Breaker, Some(301_000));
    fixture.observe(&[breached, call, book]);
    let received = reader.read(&mut fixture);
    assert_eq!(received[0]["breach"], json!({"price": 1.11, "reference_price": 1.0, "timestamp": 1_000}));
    fields(&received[0], &[("session", json!("volatility_auction")), ("reason", json!("breaker"))]);
    fixture.at = 301_000 * MS;
    let book = changed(&mut fixture);
    fixture.observe(&[turn(Phase::VolatilityCall, Phase::Continuous, SessionReason::Scheduled, None), book]);
    assert_eq!(reader.read(&mut fixture)[0].get("breach"), None);
}

#[test]
fn call_is_sent_on_each_change_and_at_its_uncross() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "auction.NPN_ZAR");
    assert_eq!(reader.first.take().expect("the present")["type"], "result");
    let book = changed(&mut fixture);
    fixture.observe(&[turn(Phase::Continuous, Phase::ClosingCall, SessionReason::Scheduled, Some(9_000)), book]);
    for (price, volume, imbalance) in [(None, 0, 0), (Some(101), 7, 3), (Some(101), 7, 3), (Some(102), 9, -4)] {
        let book = changed(&mut fixture);
        fixture.observe(&[indicative(price, volume, imbalance), book]);
    }
    let received = reader.read(&mut fixture);
    // The start of the call, (none, 0, 0) as its first state, and two changes. Repetitions are not
    // sent.
    assert_eq!(received.len(), 4, "{received:?}");
    fields(
        &received[0],
        &[("type", json!("indicative")), ("indicative_volume", json!(0.0)), ("session_ends", json!(9_000))],
    );
    assert_eq!(received[0].get("indicative_price"), None, "no price, no field");
    fields(
        &received[2],
        &[
            ("indicative_price", json!(1.01)),
            ("indicative_volume", json!(7.0)),
            ("imbalance", json!(3.0)),
            ("imbalance_side", json!("buy")),
        ],
    );
    fields(&received[3], &[("imbalance", json!(-4.0)), ("imbalance_side", json!("sell"))]);

    fixture.at = 9_000 * MS;
    let kind = TradeKind::Call(Phase::ClosingCall);
    let uncrossed = Event::Uncrossed { instrument: HERE, call: Phase::ClosingCall, price: Ticks(102), volume: Lots(9) };
    let next = turn(Phase::ClosingCall, Phase::ClosingPricePublication, SessionReason::Scheduled, None);
    let close = Event::ClosingPriceSet { instrument: HERE, price: Ticks(102), derivation: Derivation::ClosingAuction };
    let book = changed(&mut fixture);
    let mut trades = Reader::join(&mut fixture, "trades.NPN_ZAR.raw");
    let mut session = Reader::join(&mut fixture, "session.NPN_ZAR");
    fixture.observe(&[trade(1, 102, 5, kind), trade(2, 102, 4, kind), uncrossed, next, close, book]);
    let received = reader.read(&mut fixture);
    fields(
        &received[0],
        &[
            ("type", json!("result")),
            ("session", json!("closing_price_publication")),
            ("uncross", json!({"session": "closing_auction", "price": 1.02, "volume": 9.0, "timestamp": 9_000})),
        ],
    );
    assert_eq!(received[0].get("indicative_volume"), None, "nothing is indicated any more");
    let trades = trades.read(&mut fixture);
    assert_eq!(trades.len(), 1, "one message for one command: {trades:?}");
    assert_eq!(trades[0].as_array().map(Vec::len), Some(2));
    assert_eq!(trades[0][0]["auction"], "closing_auction");
    let received = session.read(&mut fixture);
    assert_eq!(received.len(), 1, "session and closing price are one state: {received:?}");
    fields(&received[0], &[("closing_price", json!(1.02)), ("closing_price_derivation", json!("closing_auction"))]);
}

#[test]
fn curves_sum_to_indicative_volume_at_its_price() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "auction.NPN_ZAR.100ms");
    let book = changed(&mut fixture);
    fixture.observe(&[turn(Phase::Continuous, Phase::OpeningCall, SessionReason::Scheduled, None), book]);
    // Bids 105 x 4, 103 x 6; offers 102 x 5, 104 x 9; market orders: 3 to buy, none to sell. At 103
    // buyers want 3 + 4 + 6 = 13, sellers give 5: volume 5, imbalance 8.
    let book = changed(&mut fixture);
    fixture.observe(&[
        level(Side::Buy, 105, 4),
        level(Side::Buy, 103, 6),
        level(Side::Sell, 102, 5),
        level(Side::Sell, 104, 9),
        indicative(Some(103), 5, 8),
        book,
    ]);
    assert_eq!(reader.read(&mut fixture), Vec::<Value>::new(), "not before the window ends");
    fixture.at = 100 * MS;
    fixture.observe(&[Event::WindowClosed]);
    let received = reader.read(&mut fixture);
    assert_eq!(
        received[0]["curves"],
        json!({
            "beside_buy": 3.0, "beside_sell": 0.0,
            "buy": [[1.05, 7.0], [1.03, 13.0]],
            "sell": [[1.02, 5.0], [1.04, 14.0]],
        })
    );
    fixture.at = 200 * MS;
    fixture.observe(&[Event::WindowClosed]);
    assert_eq!(reader.read(&mut fixture), Vec::<Value>::new(), "nothing has changed");
}

#[test]
fn ticker_has_session_end_and_indicative_result() {
    let mut fixture = MarketFixture::new();
    let mut ticker = Reader::join(&mut fixture, "ticker.NPN_ZAR.raw");
    let plain = ticker.first.take().expect("the present");
    for absent in ["session_ends", "indicative_price", "indicative_volume", "imbalance", "closing_price"] {
        assert_eq!(plain.get(absent), None, "{absent} of a market that knows none");
    }
    let book = changed(&mut fixture);
    let call = turn(Phase::Continuous, Phase::IntradayCall, SessionReason::Scheduled, Some(30_000));
    fixture.observe(&[call, indicative(Some(99), 2, 0), book]);
    let received = ticker.read(&mut fixture).pop().expect("a ticker");
    fields(
        &received,
        &[
            ("session_ends", json!(30_000)),
            ("indicative_price", json!(0.99)),
            ("indicative_volume", json!(2.0)),
            ("imbalance", json!(0.0)),
            ("imbalance_side", json!("none")),
        ],
    );
}

/// The book message of a command carries the last `change_id` of that command, regardless of a
/// session change in between.
#[test]
fn session_change_within_command_does_not_split_book_message() {
    let mut fixture = MarketFixture::new();
    let mut book = Reader::join(&mut fixture, "book.NPN_ZAR.raw");
    let first = book.first.take().expect("a snapshot")["change_id"].clone();
    let last = changed(&mut fixture);
    fixture.observe(&[
        level(Side::Buy, 90, 1),
        turn(Phase::Continuous, Phase::Pause, SessionReason::Operator, None),
        level(Side::Buy, 91, 1),
        last,
    ]);
    let received = book.read(&mut fixture);
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!((&received[0]["prev_change_id"], &received[0]["change_id"]), (&first, &json!(1_001)));
    assert_eq!(received[0]["bids"], json!([["new", 0.91, 1.0], ["new", 0.9, 1.0]]));
}

#[test]
fn state_is_sent_when_order_entry_starts_or_stops() {
    let mut fixture = MarketFixture::new();
    let mut states = Reader::join(&mut fixture, "instrument.state.any.any");
    for (from, to) in [
        (Phase::Continuous, Phase::ClosingCall),
        (Phase::ClosingCall, Phase::ClosingPricePublication),
        (Phase::ClosingPricePublication, Phase::ClosingPriceCross),
        (Phase::ClosingPriceCross, Phase::PostClose),
        (Phase::PostClose, Phase::StartOfTrading),
        (Phase::StartOfTrading, Phase::OpeningCall),
        (Phase::OpeningCall, Phase::Halted),
        (Phase::Halted, Phase::HaltAndClose),
        (Phase::HaltAndClose, Phase::Pause),
    ] {
        fixture.observe(&[turn(from, to, SessionReason::Scheduled, None)]);
    }
    let words: Vec<Value> = states.read(&mut fixture).iter().map(|received| received["state"].clone()).collect();
    assert_eq!(words, ["closed", "started", "closed", "started", "closed", "started"]);
}

/// Off-book trades have a separate channel. Plain clients of `trades` and `ticker` do not see them.
#[test]
fn off_book_trades_have_their_own_channel() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "off_book.NPN_ZAR");
    assert_eq!(reader.first.take().expect("the present")["trade_reporting"], "closed");
    let mut others = ["trades.NPN_ZAR.raw", "ticker.NPN_ZAR.raw", "session.NPN_ZAR", "quote.NPN_ZAR"]
        .map(|name| Reader::join(&mut fixture, name));
    let mut copies = Reader::join(&mut fixture, "drop_copy.any");
    fixture.at = 5_000 * MS;
    let (reason, ends) = (SessionReason::Scheduled, Some(VenueNanos(9_000 * MS)));
    fixture.observe(&[Event::ReportingChanged { instrument: HERE, open: true, reason, ends }]);
    let made = |number| OffBookTrade {
        instrument: HERE,
        number,
        price: Ticks(101),
        lots: Lots(40),
        report: Seq(77),
        buyer: AccountId(0),
        seller: AccountId(0),
    };
    // Two equal trades count as two.
    for number in [1, 2] {
        fixture.observe(&[Event::OffBookTrade(Box::new(made(number)))]);
    }
    let received = reader.read(&mut fixture);
    assert_eq!(received.len(), 3, "{received:?}");
    fields(&received[0], &[("trade_reporting", json!("open")), ("ends", json!(9_000))]);
    assert_eq!(received[0].get("last_trade"), None);
    assert_eq!(
        received[2]["last_trade"],
        json!({"off_book_seq": 2, "timestamp": 5_000, "price": 1.01, "amount": 40.0})
    );
    // 2 x 40 at 1.01.
    assert_eq!(received[2]["day"], json!({"volume": 80.0, "turnover": 80.8, "trades": 2}));
    for other in &mut others {
        assert_eq!(other.read(&mut fixture), Vec::<Value>::new());
    }
    let copied = copies.read(&mut fixture);
    let kinds: Vec<(&Value, &Value)> = copied.iter().map(|copy| (&copy["type"], &copy["direction"])).collect();
    let (kind, buy, sell) = (&json!("off_book_trade"), &json!("buy"), &json!("sell"));
    assert_eq!(kinds, [(kind, buy), (kind, sell), (kind, buy), (kind, sell)]);
    fixture.observe(&[Event::DayEnded]);
    fixture.observe(&[Event::ReportingChanged { instrument: HERE, open: false, reason, ends: None }]);
    let received = reader.read(&mut fixture);
    assert_eq!((&received[0]["day"]["trades"], &received[0]["trade_reporting"]), (&json!(0), &json!("closed")));
}
