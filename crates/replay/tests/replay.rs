//! Tapes with known outcomes.

use pitwire_model::{Lots, Side, Ticks, VenueNanos};
use pitwire_replay::{BinanceReader, OwnFill, OwnOrder, RecordedTape, Replay, read_lobster, read_own_orders};

/// Two buys at 100.00, one better offer, a partial cancel, a delete, and executions.
const MESSAGES: &str = "\
34200.000000001,1,11,50,1000000,1
34200.1,1,12,30,1000000,1
34200.2,1,21,40,1000200,-1
34200.3,2,11,10,1000000,1
34200.4,4,11,25,1000000,1
34200.5,4,11,15,1000000,1
34200.6,4,12,20,1000000,1
34200.7,5,0,7,1000100,-1
34200.8,4,21,40,1000200,-1
34200.9,3,12,10,1000000,1
";

fn own(at_ms: u64, side: Side, ticks: i64, lots: u64) -> OwnOrder {
    let at = VenueNanos(34_200_000_000_000 + at_ms * 1_000_000);
    OwnOrder { at, side, price: Some(Ticks(ticks)), lots: Lots(lots), cancel_at: None }
}

#[test]
fn a_tape_without_own_orders_gives_its_recorded_trades() {
    let tape = read_lobster(MESSAGES.as_bytes(), 100).unwrap();
    let report = Replay::run(&tape, &[], &mut |_, _| {}).unwrap();
    assert_eq!((report.recorded_trades, report.reproduced_trades, report.hidden_trades), (5, 4, 1));
    assert_eq!((report.other_trades, report.new_trades, report.unknown_orders), (0, 0, 0));
    assert!((report.reproduced_share - 0.8).abs() < 1e-12);
}

#[test]
fn an_own_order_takes_its_place_in_the_queue_and_displaces_the_orders_behind() {
    let tape = read_lobster(MESSAGES.as_bytes(), 100).unwrap();
    // Behind order 11 and before order 12: after 11 is filled, it takes the lots of 12.
    let report = Replay::run(&tape, &[own(50, Side::Buy, 10_000, 15)], &mut |_, _| {}).unwrap();
    let [fill] = &report.own_fills[..] else { panic!("{:?}", report.own_fills) };
    let expected =
        OwnFill { at_ns: 34_200_600_000_000, order: 0, side: "Buy", price_ticks: 10_000, lots: 15, is_maker: true };
    assert_eq!(*fill, expected);
    // The recorded taker of 20 lots gets 15 from the user and 5 from order 12.
    assert_eq!((report.reproduced_trades, report.other_trades, report.new_trades), (3, 1, 2));
    // Order 12 has 25 lots left instead of 10, and its delete still finds it.
    assert_eq!(report.unknown_orders, 0);
}

#[test]
fn an_own_order_that_crosses_trades_at_once() {
    let tape = read_lobster(MESSAGES.as_bytes(), 100).unwrap();
    let report = Replay::run(&tape, &[own(250, Side::Buy, 10_002, 40)], &mut |_, _| {}).unwrap();
    assert_eq!((report.own_fills[0].lots, report.own_fills[0].is_maker), (40, false));
    // Offer 21 is gone when its execution comes.
    assert_eq!((report.reproduced_trades, report.other_trades), (3, 1));
}

#[test]
fn an_own_order_is_cancelled_at_its_time() {
    let tape = read_lobster(MESSAGES.as_bytes(), 100).unwrap();
    let mut order = own(50, Side::Buy, 10_000, 15);
    order.cancel_at = Some(VenueNanos(34_200_550_000_000));
    let report = Replay::run(&tape, &[order], &mut |_, _| {}).unwrap();
    assert_eq!((report.own_fills.len(), report.reproduced_trades), (0, 4));
}

#[test]
fn replay_reports_each_step_in_the_end() {
    let tape = read_lobster(MESSAGES.as_bytes(), 100).unwrap();
    let mut reports = Vec::new();
    Replay::run(&tape, &[], &mut |done, total| reports.push((done, total))).unwrap();
    let steps = tape.steps.len() as u64;
    assert_eq!(reports, [(steps, steps)]);
}

#[test]
fn orders_from_before_the_tape_are_counted() {
    let text = "1,1,5,10,1000000,1\n2,4,99,10,1000000,1\n3,3,98,10,1000000,1\n";
    let report = Replay::run(&read_lobster(text.as_bytes(), 100).unwrap(), &[], &mut |_, _| {}).unwrap();
    assert_eq!((report.recorded_trades, report.reproduced_trades, report.unknown_orders), (1, 0, 2));
}

#[test]
fn malformed_tapes_and_orders_are_refused_with_their_line() {
    for (text, expected) in [
        ("soon,1,1,1,100,1\n", "line 1: the time is \"soon\""),
        ("2,1,1,1,100,1\n1,1,1,1,100,1\n", "line 2: the time \"1\" is before"),
        ("1,9,1,1,100,1\n", "the type is 9"),
        ("1,1,1,0,100,1\n", "the size is \"0\""),
        ("1,1,1,1,150,1\n", "150 is no multiple of the tick 100"),
        ("1,1,1,1,100,2\n", "the direction is 2"),
        ("1,1,1,1,x,1\n", "the price is \"x\""),
    ] {
        let failure = read_lobster(text.as_bytes(), 100).unwrap_err().to_string();
        assert!(failure.contains(expected), "{expected}: {failure}");
    }
    let head = "TimeNs,Side,PriceTicks,VolumeLots\n";
    assert_eq!(read_own_orders(format!("{head}9,Sell,,3\n5,Buy,7,1\n").as_bytes()).unwrap().len(), 2);
    for (row, expected) in [
        ("5,Long,7,1", "Side is \"Long\""),
        ("5,Buy,7,0", "VolumeLots is 0"),
        ("5,Buy,0,1", "PriceTicks is 0, expected 1 to"),
        ("x,Buy,7,1", "line 2: TimeNs is \"x\", expected a whole number"),
        ("5,Buy,nan,1", "PriceTicks is \"nan\""),
        ("5,Buy,7,99999999999999999999", "VolumeLots is \"99999999999999999999\""),
        ("5,Buy,7", "line 2: the row has 3 fields, expected 4"),
    ] {
        let failure = read_own_orders(format!("{head}{row}\n").as_bytes()).unwrap_err().to_string();
        assert!(failure.contains(expected), "{expected}: {failure}");
    }
    for (head, expected) in [
        ("TimeNs,Side,PriceTicks,VolumeLots,Unit\n", "line 1: unknown column \"Unit\""),
        ("TimeMs,Side,PriceTicks,VolumeLots\n", "line 1: unknown column \"TimeMs\""),
        ("TimeNs,Side,VolumeLots\n", "line 1: no column PriceTicks"),
        ("", "line 1: no column TimeNs"),
    ] {
        let failure = read_own_orders(head.as_bytes()).unwrap_err().to_string();
        assert!(failure.contains(expected), "{expected}: {failure}");
    }
    assert!(Replay::run(&read_lobster("".as_bytes(), 100).unwrap(), &[], &mut |_, _| {}).is_err());
}

fn depth(first: u64, last: u64, bids: &str, asks: &str) -> String {
    format!(r#"{{"e":"depthUpdate","E":1,"s":"BTCUSDC","U":{first},"u":{last},"b":[{bids}],"a":[{asks}]}}"#)
}

fn trade(price: &str, quantity: &str, is_buyer_maker: bool) -> String {
    format!(
        r#"{{"stream":"x","data":{{"e":"trade","s":"BTCUSDC","t":1,"p":"{price}","q":"{quantity}","m":{is_buyer_maker}}}}}"#
    )
}

/// Messages a millisecond apart.
fn binance(messages: &[String], symbol: Option<&str>) -> Result<RecordedTape, pitwire_failure::Failure> {
    let mut reader = BinanceReader::new(symbol);
    for (number, text) in (0..).zip(messages) {
        reader.message(VenueNanos(34_200_000_000_000 + number * 1_000_000), text.as_bytes())?;
    }
    reader.tape()
}

fn binance_messages() -> [String; 7] {
    [
        depth(1, 5, r#"["100.10","2.0"],["100.00","5.0"]"#, r#"["100.30","1.5"]"#),
        trade("100.10", "0.5", true),
        // The level has grown by 1 behind the 1.5 that are left.
        depth(6, 8, r#"["100.10","2.5"]"#, ""),
        trade("100.10", "2.5", true),
        // The bid at 100.10 is gone, and the next one was cancelled: 4 of 5 are left.
        depth(9, 12, r#"["100.10","0"],["100.00","4.0"]"#, ""),
        trade("100.00", "1.0", true),
        // Before the first depth, or hidden: no level has it.
        trade("100.35", "1.0", false),
    ]
}

#[test]
fn trades_and_depth_in_the_form_of_binance_give_their_trades() {
    let tape = binance(&binance_messages(), None).unwrap();
    let report = Replay::run(&tape, &[], &mut |_, _| {}).unwrap();
    // The second trade takes two made orders, and the better offer goes before the last trade.
    assert_eq!((report.recorded_trades, report.reproduced_trades, report.hidden_trades), (5, 4, 1));
    assert_eq!((report.other_trades, report.new_trades, report.unknown_orders, report.unsupported), (0, 0, 0, 0));
    assert_eq!(report.units, Some(["0.01".to_owned(), "0.1".to_owned()]));
}

#[test]
fn an_own_order_displaces_made_orders_of_depth() {
    let tape = binance(&binance_messages(), Some("btcusdc")).unwrap();
    // Behind the first order of the level and before the one that grows it.
    let at = VenueNanos(34_200_001_500_000);
    let own = OwnOrder { at, side: Side::Buy, price: Some(Ticks(10_010)), lots: Lots(4), cancel_at: None };
    let report = Replay::run(&tape, &[own], &mut |_, _| {}).unwrap();
    let fills: Vec<(u64, u64, bool)> =
        report.own_fills.iter().map(|fill| (fill.at_ns, fill.lots, fill.is_maker)).collect();
    assert_eq!(fills, [(34_200_003_000_000, 4, true)]);
    assert!(report.reproduced_trades < 4, "{report:?}");
}

#[test]
fn messages_that_cannot_be_replayed_are_refused_or_counted() {
    let gap = [depth(1, 5, r#"["1.5","2"]"#, ""), depth(8, 9, r#"["1.5","3"]"#, "")];
    assert_eq!(binance(&gap, None).unwrap().unsupported, 1);
    let other = trade("1.5", "2", true).replace("BTCUSDC", "ETHUSDC");
    for (messages, symbol, expected) in [
        (vec![], None, "it has no trade and no depth"),
        (vec!["{".into()], None, "message 1:"),
        (vec![trade("x", "2", true)], None, r#"message 1 (trade): the field "p" is "x", expected a number"#),
        (vec![trade("1", "2", true).replace("\"q\"", "\"Q\"")], None, r#"it has no field "q", expected a number"#),
        (vec![trade("1", "2", true).replace("true", "1")], None, r#"the field "m" is 1, expected true or false"#),
        (vec![depth(1, 5, "1.5", "")], None, r#"message 1 (depthUpdate): "b" has the level 1.5, expected levels"#),
        (vec![depth(1, 5, r#"["1.5"]"#, "")], None, r#""b" has the level ["1.5"]"#),
        (vec![depth(1, 5, "", "").replace("\"U\":1", "\"U\":-1")], None, r#"the field "U" is -1"#),
        (vec![trade("0", "2", true)], None, "the price 0 is not 1 to"),
        (vec![trade("1.5", "99999999999", true)], None, "99999999999 has more than"),
        (vec![trade("1.5", "2", true), other.clone()], None, "several symbols"),
        (vec![other], Some("BTCUSDC"), "no trade and no depth of \"BTCUSDC\""),
    ] {
        let failure = binance(&messages, symbol).unwrap_err().to_string();
        assert!(failure.contains(expected), "{expected}: {failure}");
    }
}
