//! State channels: a message is sent only when the state changes, contains the whole state, and new
//! subscribers get the same state.

use crate::market::{MarketFixture, Reader};
use pitwire_model::{
    AccountId, Command, InstrumentId, Lots, NewOrder, OrderId, OrderType, Phase, Side, Ticks, TimeInForce, VenueNanos,
};
use serde_json::{Value, json};

const HERE: InstrumentId = InstrumentId(0);

fn enter(fixture: &mut MarketFixture, side: Side, price: i64, lots: u64) {
    let order = NewOrder {
        id: OrderId(fixture.seq + 1),
        account: AccountId(0),
        instrument: HERE,
        side,
        order_type: OrderType::Limit { price: Ticks(price) },
        lots: Lots(lots),
        tif: TimeInForce::GoodTillCancel,
        self_match: Some(pitwire_model::SelfMatch::Allow),
        ..NewOrder::PLAIN
    };
    fixture.apply(Command::Enter(order));
}

fn window(fixture: &mut MarketFixture, ns: u64) {
    fixture.at += ns;
    fixture.apply(Command::CloseWindow);
}

#[test]
fn quote_is_sent_only_when_the_best_level_changes() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "quote.NPN_ZAR");
    let empty = reader.first.take().expect("the present");
    assert_eq!((&empty["best_bid_price"], &empty["best_ask_amount"]), (&json!(0.0), &json!(0.0)));
    enter(&mut fixture, Side::Buy, 100, 5);
    enter(&mut fixture, Side::Buy, 99, 5);
    enter(&mut fixture, Side::Buy, 100, 2);
    // A lagging reader of a state channel gets only the latest message, so read between changes.
    let received = reader.read(&mut fixture);
    assert_eq!(received.len(), 1);
    assert_eq!((&received[0]["best_bid_price"], &received[0]["best_bid_amount"]), (&json!(1.0), &json!(7.0)));
    enter(&mut fixture, Side::Buy, 98, 1);
    assert_eq!(reader.read(&mut fixture), Vec::<Value>::new());
    let joined = Reader::join(&mut fixture, "quote.NPN_ZAR").first.expect("the present");
    assert_eq!(joined["best_bid_amount"], json!(7.0));
}

#[test]
fn quote_channel_without_subscribers_restarts_from_current_state() {
    let mut fixture = MarketFixture::new();
    enter(&mut fixture, Side::Buy, 100, 5);
    let first = Reader::join(&mut fixture, "quote.NPN_ZAR");
    fixture.publisher.unsubscribe(first.feed);
    enter(&mut fixture, Side::Buy, 101, 1);
    let mut again = Reader::join(&mut fixture, "quote.NPN_ZAR");
    assert_eq!(again.first.take().expect("the present")["best_bid_price"], json!(1.01));
    // The quote returns to its value before all subscribers left. The new subscriber must still see
    // the change.
    enter(&mut fixture, Side::Sell, 101, 1);
    assert_eq!(again.read(&mut fixture)[0]["best_bid_price"], json!(1.0));
}

#[test]
fn depth_is_complete_grouped_and_sent_at_window_end() {
    let mut fixture = MarketFixture::new();
    for (price, lots) in [(100, 5), (101, 1), (199, 2)] {
        enter(&mut fixture, Side::Buy, price, lots);
    }
    enter(&mut fixture, Side::Sell, 201, 4);
    let mut reader = Reader::join(&mut fixture, "book.NPN_ZAR.1.10.100ms");
    let first = reader.first.take().expect("the present");
    assert_eq!((&first["bids"], &first["asks"]), (&json!([[1.0, 8.0]]), &json!([[3.0, 4.0]])));
    assert!(first.get("type").is_none() && first.get("prev_change_id").is_none());
    enter(&mut fixture, Side::Buy, 99, 3);
    assert_eq!(reader.read(&mut fixture), Vec::<Value>::new(), "not before the window ends");
    window(&mut fixture, 100_000_000);
    assert_eq!(reader.read(&mut fixture)[0]["bids"], json!([[1.0, 8.0], [0.0, 3.0]]));
    window(&mut fixture, 100_000_000);
    assert_eq!(reader.read(&mut fixture), Vec::<Value>::new(), "nothing has changed");
}

#[test]
fn candle_is_sent_with_trades_and_rolls_without_trades() {
    let mut fixture = MarketFixture::new();
    fixture.at = 60_000_000_000;
    let mut reader = Reader::join(&mut fixture, "chart.trades.NPN_ZAR.1");
    assert_eq!(reader.first, None, "nothing has traded");
    enter(&mut fixture, Side::Buy, 100, 5);
    assert_eq!(reader.read(&mut fixture), Vec::<Value>::new());
    enter(&mut fixture, Side::Sell, 100, 2);
    let received = reader.read(&mut fixture);
    assert_eq!(
        (&received[0]["tick"], &received[0]["volume"], &received[0]["cost"]),
        (&json!(60_000), &json!(2.0), &json!(2.0))
    );
    window(&mut fixture, 60_000_000_000);
    let rolled = reader.read(&mut fixture);
    assert_eq!((&rolled[0]["tick"], &rolled[0]["volume"]), (&json!(120_000), &json!(0.0)));
    assert_eq!(rolled[0]["open"], json!(1.0));
}

/// The candle changes without a command, because an idle market has none.
#[test]
fn candle_of_idle_market_rolls_with_the_clock() {
    let mut fixture = MarketFixture::new();
    fixture.at = 60_000_000_000;
    let [mut minute, mut three] = [1, 3].map(|n| Reader::join(&mut fixture, &format!("chart.trades.NPN_ZAR.{n}")));
    enter(&mut fixture, Side::Buy, 103, 5);
    enter(&mut fixture, Side::Sell, 103, 2);
    assert_eq!((minute.read(&mut fixture).len(), three.read(&mut fixture).len()), (1, 1));
    let ticks = |received: Vec<Value>| -> Vec<(Value, Value, Value)> {
        received
            .iter()
            .map(|candle| (candle["tick"].clone(), candle["close"].clone(), candle["volume"].clone()))
            .collect()
    };
    let flat = |tick: u64| (json!(tick), json!(1.03), json!(0.0));
    for (at, in_three) in [(120_000, vec![]), (180_000, vec![flat(180_000)])] {
        fixture.publisher.turn_minute(VenueNanos(at * 1_000_000), &fixture.engine, &fixture.views);
        assert_eq!(ticks(minute.read(&mut fixture)), [flat(at)]);
        assert_eq!(ticks(three.read(&mut fixture)), in_three);
    }
    // The minute has already been published, so the first command in it sends nothing again.
    fixture.at = 180_000_000_000;
    window(&mut fixture, 0);
    assert_eq!(ticks(minute.read(&mut fixture)), []);
    assert!(fixture.publisher.has_candles());
    [minute, three].into_iter().for_each(|reader| fixture.publisher.unsubscribe(reader.feed));
    assert!(!fixture.publisher.has_candles());
}

#[test]
fn trades_across_instruments_are_sent_once_in_order() {
    let mut fixture = MarketFixture::new();
    let mut raw = Reader::join(&mut fixture, "trades.any.any.raw");
    let mut merged = Reader::join(&mut fixture, "trades.spot.ZAR.100ms");
    enter(&mut fixture, Side::Buy, 100, 1);
    enter(&mut fixture, Side::Buy, 99, 1);
    enter(&mut fixture, Side::Sell, 99, 2);
    let seqs = |received: &[Value]| -> Vec<Vec<u64>> {
        let of =
            |list: &Value| list.as_array().expect("a list").iter().filter_map(|t| t["trade_seq"].as_u64()).collect();
        received.iter().map(of).collect()
    };
    assert_eq!(seqs(&raw.read(&mut fixture)), [[1, 2]]);
    enter(&mut fixture, Side::Buy, 100, 1);
    enter(&mut fixture, Side::Sell, 100, 1);
    assert_eq!(seqs(&raw.read(&mut fixture)), [[3]]);
    assert_eq!(merged.read(&mut fixture), Vec::<Value>::new());
    window(&mut fixture, 100_000_000);
    assert_eq!(seqs(&merged.read(&mut fixture)), [[1, 2, 3]]);
}

#[test]
fn instrument_states_use_the_protocols_words() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "instrument.state.any.any");
    fixture.apply(Command::SetPhase { instrument: HERE, phase: Phase::Halted });
    fixture.apply(Command::SetPhase { instrument: HERE, phase: Phase::Continuous });
    let received = reader.read(&mut fixture);
    let words: Vec<_> = received.iter().map(|state| state["state"].clone()).collect();
    assert_eq!(words, [json!("closed"), json!("started")]);
}

#[test]
fn drop_copy_has_both_sides_of_a_trade_and_no_number_gaps() {
    let mut fixture = MarketFixture::new();
    let mut reader = Reader::join(&mut fixture, "drop_copy.any");
    assert!(fixture.subscribe("drop_copy.unknown").is_none());
    enter(&mut fixture, Side::Buy, 100, 5);
    enter(&mut fixture, Side::Sell, 100, 2);
    fixture.apply(Command::Cancel { account: AccountId(0), order: OrderId(fixture.seq - 1) });
    let received = reader.read(&mut fixture);
    let line = |copy: &Value| format!("{} {} {}", copy["index"], copy["type"].as_str().unwrap_or(""), copy["order_id"]);
    let buy = fixture.seq - 2;
    assert_eq!(
        received.iter().map(line).collect::<Vec<_>>(),
        [
            format!("0 accepted \"{buy}\""),
            format!("0 accepted \"{}\"", buy + 1),
            format!("1 trade \"{}\"", buy + 1),
            format!("2 trade \"{buy}\""),
            format!("0 cancelled \"{buy}\""),
        ]
    );
    assert_eq!((&received[2]["liquidity"], &received[2]["open_amount"]), (&json!("T"), &json!(0.0)));
    assert_eq!((&received[3]["liquidity"], &received[3]["open_amount"]), (&json!("M"), &json!(3.0)));
    assert_eq!(received[4]["cancel_reason"], json!("user_request"));
    assert!(received.windows(2).all(|pair| pair[0]["sequence"].as_u64() <= pair[1]["sequence"].as_u64()));
}
