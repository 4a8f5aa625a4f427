//! Calls, batches and the cross: the one correct price, and the orders after it.

use super::*;

const INTRADAY: TradeKind = TradeKind::Call(Phase::IntradayCall);

/// A call with every kind of order: 16 lots sold at any price, an iceberg of 10, and a stop that
/// the price elects.
fn call() -> Stage {
    let mut stage = Stage::open(TradingRules::default());
    let waits = NewOrder { tif: TimeInForce::AnyCall, ..order(10, A, Buy, 101, 20) };
    stage.enter("parks", waits, vec![parked(10, A, 20)]);
    stage.session("begins", Phase::IntradayCall, vec![], vec![injected(10, A), level(Buy, 101, 20)]);
    stage.enter("sell", order(11, B, Sell, 100, 12), vec![level(Sell, 100, 12), indicative(101, 12, 8)]);
    stage.enter("market", market(12, C, Sell, 4), vec![indicative(101, 16, 4)]);
    stage.enter("stop", stop(13, A, Buy, 101, 3), vec![]);
    let iceberg = NewOrder { display: Some(Lots(2)), ..order(14, B, Sell, 101, 10) };
    stage.enter("iceberg", iceberg, vec![level(Sell, 101, 2), indicative(101, 20, -6)]);
    let uncross = vec![
        trade(1, 101, 4, (10, A, 16), (12, C, 0), Sell, INTRADAY),
        trade(2, 101, 12, (10, A, 4), (11, B, 0), Sell, INTRADAY),
        trade(3, 101, 4, (10, A, 0), (14, B, 6), Sell, INTRADAY),
        uncrossed(Phase::IntradayCall, 101, 20),
        refreshed(14, B, Sell, 101, 2),
        level(Buy, 101, 0),
        level(Sell, 100, 0),
        level(Sell, 101, 2),
        triggered(13, A, 101),
    ];
    let acts = vec![
        trade(4, 101, 2, (14, B, 4), (13, A, 1), Buy, PLAIN),
        refreshed(14, B, Sell, 101, 2),
        trade(5, 101, 1, (14, B, 3), (13, A, 0), Buy, PLAIN),
        level(Sell, 101, 1),
    ];
    stage.session("ends", Phase::Continuous, uncross, acts);
    stage
}

#[test]
fn call_uncrosses_at_one_correct_price() {
    judge(
        call,
        &[
            ("two prices in one uncross", "ends", |all| at_price(nth(all, 1), 100), M6, "the uncross price is 101"),
            ("a fill beyond a limit", "ends", |all| at_price(nth(all, 1), 102), M1, "worse than the limit of order 10"),
            ("a trade too few", "ends", |all| _ = all.remove(2), M6, "must trade 4 at 101"),
            (
                "a trade too many",
                "ends",
                |all| all.insert(3, trade(4, 101, 1, (14, B, 5), (13, A, 2), Buy, INTRADAY)),
                M6,
                "exceeds the uncross",
            ),
            ("less than there was", "ends", |all| of_lots(nth(all, 1), 11), M6, "12 were available"),
            ("a priced order before a market order", "ends", |all| all.swap(0, 1), F1, "follows trade 0"),
            (
                "and numbered as if it were right",
                "ends",
                |all| all[0] = trade(1, 101, 12, (10, A, 8), (11, B, 0), Sell, INTRADAY),
                M2,
                "order 12 must trade, but order 11 did",
            ),
            (
                "published as a trade of another session",
                "ends",
                |all| of_kind(nth(all, 0), PLAIN),
                M8,
                "is published as Continuous",
            ),
            ("a volume that was not", "ends", |all| of_lots(&mut all[3], 19), M6, "the uncross was published as"),
            ("an iceberg that shows no more", "ends", |all| _ = all.remove(4), F2, "was published as 2 and shows 0"),
            (
                "a level that shows all",
                "ends",
                |all| all[7] = level(Sell, 101, 6),
                F2,
                "was published as 6 and shows 2",
            ),
            ("a stop that sleeps", "ends", |all| _ = all.remove(8), M5, "101 has reached its stop price 101"),
            (
                "a stop inside the uncross",
                "ends",
                |all| {
                    let elected = all.remove(8);
                    all.insert(1, elected);
                },
                M5,
                "order 13 was elected before",
            ),
            ("a stop elected twice", "ends", |all| all.insert(14, triggered(13, A, 101)), M7, "does not belong"),
            (
                "an outlook that is wrong",
                "market",
                |all| all[1] = indicative(101, 16, 5),
                M6,
                "indicative values were published as",
            ),
            ("no outlook", "sell", |all| _ = all.remove(2), M6, "and were not published"),
            ("an outlook published again", "stop", |all| all.push(indicative(101, 16, 4)), F1, "without a change"),
            ("an iceberg known by its outlook alone", "iceberg", |all| all[1] = level(Sell, 101, 10), F2, "shows 2"),
            (
                "trading goes on in a call",
                "stop",
                |all| all.push(trade(1, 101, 3, (11, B, 9), (13, A, 0), Buy, PLAIN)),
                M8,
                "does not belong",
            ),
            (
                "an order for a call that trades before it",
                "parks",
                |all| all[1] = level(Buy, 101, 20),
                M5,
                "must be parked",
            ),
            ("an order for a call that misses it", "begins", |all| _ = all.drain(1..3), M5, "must be injected"),
            (
                "a session that was not asked for",
                "begins",
                |all| {
                    if let Event::SessionChanged { to, .. } = &mut all[0] {
                        *to = Phase::ClosingCall;
                    }
                },
                M8,
                "must go from continuous to intraday_auction",
            ),
            ("a change that has no number", "begins", |all| _ = all.pop(), F1, "without a change number"),
        ],
    );
}

/// A call without a price. Its market order, its call order and an order past its time expire, and
/// an order for all calls is parked.
fn leftovers() -> Stage {
    let mut stage = Stage::open(TradingRules::default());
    stage.session("", Phase::OpeningCall, vec![], vec![]);
    stage.enter("", market(10, A, Buy, 10), vec![]);
    stage.rest(NewOrder { tif: TimeInForce::OpeningCall, ..order(11, B, Buy, 100, 10) });
    let waits = NewOrder { tif: TimeInForce::AnyCall, ..order(12, C, Buy, 100, 7) };
    stage.enter("", waits, vec![level(Buy, 100, 17)]);
    let at = VenueNanos(stage.now() + 5 * SECOND);
    stage.rest(NewOrder { tif: TimeInForce::GoodTillTime { at }, ..order(13, A, Buy, 99, 1) });
    stage.rest(order(14, A, Buy, 98, 1));
    stage.pass(10);
    stage.say("time passes", Command::PassTime, vec![]);
    let ends = vec![
        cancelled(10, A, Buy, 0, 10, CancelReason::CallEnded),
        cancelled(11, B, Buy, 100, 10, CancelReason::CallEnded),
        level(Buy, 100, 7),
        cancelled(13, A, Buy, 99, 1, CancelReason::TimeReached),
        level(Buy, 99, 0),
        parked(12, C, 7),
        level(Buy, 100, 0),
    ];
    stage.session("ends", Phase::Continuous, ends, vec![]);
    stage
}

#[test]
fn end_of_a_call_expires_and_parks_orders() {
    judge(
        leftovers,
        &[
            ("a market order outlives its call", "ends", |all| drop_cancel(all, 10), M5, "order 11 was cancelled"),
            (
                "for no reason of a call",
                "ends",
                |all| for_reason(&mut all[0], CancelReason::DayEnded),
                M5,
                "is CallEnded",
            ),
            ("an order for one call outlives it", "ends", |all| _ = all.drain(1..3), M5, "order 13 was cancelled"),
            ("an order outlives its time", "ends", |all| _ = all.drain(3..5), M5, "order 13 must be cancelled"),
            ("out of order of number", "ends", |all| all.swap(0, 1), M5, "out of order"),
            (
                "an order for all calls that stays",
                "ends",
                |all| _ = all.drain(5..7),
                M5,
                "order 12 (gfa) must be parked",
            ),
            ("parked with less than it has", "ends", |all| all[5] = parked(12, C, 6), M5, "must be parked with 7"),
            (
                "a day order that goes too",
                "ends",
                |all| all.insert(3, cancelled(14, A, Buy, 98, 1, CancelReason::CallEnded)),
                M5,
                "order 13 must be cancelled",
            ),
            (
                "a time that is up, inside a call",
                "time passes",
                |all| all.push(cancelled(13, A, Buy, 99, 1, CancelReason::TimeReached)),
                M4,
                "does not belong",
            ),
        ],
    );
}

/// A closing call that breaches, continues as a volatility call, and still gives the closing price.
fn closing_call() -> Stage {
    let mut rules = TradingRules::default();
    rules.tolerances[5] = Tolerance { static_bps: Some(200), dynamic_bps: None };
    let mut stage = Stage::open(rules);
    stage.session("", Phase::ClosingCall, vec![], vec![]);
    stage.rest(order(10, B, Sell, 105, 5));
    stage.enter("", order(11, A, Buy, 105, 5), vec![level(Buy, 105, 5), indicative(105, 5, 0)]);
    let (instrument, to, reason) = (MARKET, Phase::ClosingPricePublication, SessionReason::Scheduled);
    let breach = vec![breached(105, 100, Reference::Static, 200), broke(Phase::ClosingCall), indicative(105, 5, 0)];
    let due = VenueNanos(stage.now());
    stage.add("breach", Command::ChangeSession { instrument, to, reason, due, ends: None }, breach);
    stage.is_now(Phase::VolatilityCall);
    let uncross = vec![
        trade(1, 105, 5, (10, B, 0), (11, A, 0), Buy, VOLATILITY),
        uncrossed(Phase::VolatilityCall, 105, 5),
        level(Buy, 105, 0),
        level(Sell, 105, 0),
    ];
    stage.session("closes", to, uncross, vec![closing(105, Derivation::ClosingAuction)]);
    stage
}

#[test]
fn breaching_call_continues_as_volatility_call() {
    judge(
        closing_call,
        &[
            (
                "uncrossed in spite of it",
                "breach",
                |all| all[0] = trade(1, 105, 5, (10, B, 0), (11, A, 0), Buy, TradeKind::Call(Phase::ClosingCall)),
                M8,
                "105 breaches a tolerance",
            ),
            ("no word of what it would be", "breach", |all| _ = all.remove(2), M6, "were not published"),
            ("of the last trade", "closes", |all| all[5] = closing(105, Derivation::LastTrade), M6, "closing price"),
            ("no closing price", "closes", |all| _ = all.remove(5), M6, "the closing price was published as None"),
        ],
    );
}

/// Two trades at 100 and 103 give 101.5, which closes at 102. The cross trades there.
fn close_and_cross() -> Stage {
    let mut stage = Stage::open(TradingRules::default());
    let waits = NewOrder { tif: TimeInForce::ClosingCross, ..order(9, A, Buy, 102, 3) };
    stage.enter("", waits, vec![parked(9, A, 3)]);
    for (number, price) in [(10, 100), (12, 103)] {
        stage.rest(order(number, B, Sell, price, 1));
        let meets = vec![
            trade(number / 2 - 4, price, 1, (number, B, 0), (number + 1, A, 0), Buy, PLAIN),
            level(Sell, price, 0),
        ];
        stage.enter("", order(number + 1, A, Buy, price, 1), meets);
    }
    stage.session("publishes", Phase::ClosingPricePublication, vec![], vec![closing(102, Derivation::Vwap)]);
    stage.session("crosses", Phase::ClosingPriceCross, vec![], vec![injected(9, A), level(Buy, 102, 3)]);
    let meets = vec![trade(3, 102, 2, (9, A, 1), (20, B, 0), Sell, TradeKind::Cross), level(Buy, 102, 1)];
    stage.enter("sells", market(20, B, Sell, 2), meets);
    let ends = vec![cancelled(9, A, Buy, 102, 1, CancelReason::CrossEnded), level(Buy, 102, 0)];
    stage.session("ends", Phase::PostClose, ends, vec![]);
    stage
}

#[test]
fn closing_price_is_derived_and_used_by_the_cross() {
    judge(
        close_and_cross,
        &[
            ("rounded down", "publishes", |all| at_price(&mut all[1], 101), M6, "the closing price was published as"),
            (
                "the last trade's",
                "publishes",
                |all| all[1] = closing(103, Derivation::LastTrade),
                M6,
                "(Ticks(102), Vwap)",
            ),
            ("crossed elsewhere", "sells", |all| at_price(nth(all, 0), 101), M1, "rests at 102"),
            ("published as continuous", "sells", |all| of_kind(nth(all, 0), PLAIN), M8, "is Cross"),
            (
                "no order crosses",
                "sells",
                |all| all[1] = cancelled(20, B, Sell, 0, 2, CancelReason::ImmediateRemainder),
                M5,
                "could still trade",
            ),
            ("an order outlives the cross", "ends", |all| _ = all.drain(0..2), M5, "order 9 must be cancelled"),
            ("an order misses the cross", "crosses", |all| _ = all.drain(1..3), M5, "must be injected"),
        ],
    );
}

/// A batch: no trade on entry, one price at its end.
fn batch() -> Stage {
    let rules = TradingRules { allocation: Allocation::FrequentBatch, ..TradingRules::default() };
    let mut stage = Stage::open(rules);
    stage.rest(order(10, B, Sell, 100, 10));
    stage.enter("enters", order(11, A, Buy, 101, 10), vec![level(Buy, 101, 10), indicative(100, 10, 0)]);
    let at_once = NewOrder { tif: TimeInForce::ImmediateOrCancel, ..order(12, C, Buy, 99, 2) };
    stage.enter("", at_once, vec![level(Buy, 99, 2)]);
    let nothing = Event::Indicative { instrument: MARKET, price: None, volume: Lots::ZERO, imbalance: 0 };
    let ends = vec![
        trade(1, 100, 10, (10, B, 0), (11, A, 0), Buy, TradeKind::Call(Phase::Continuous)),
        uncrossed(Phase::Continuous, 100, 10),
        level(Buy, 101, 0),
        level(Sell, 100, 0),
        cancelled(12, C, Buy, 99, 2, CancelReason::ImmediateRemainder),
        level(Buy, 99, 0),
        nothing,
    ];
    stage.add("batch", Command::RunBatch { instrument: MARKET }, ends);
    let whole = NewOrder { tif: TimeInForce::FillOrKill, ..order(13, C, Buy, 99, 2) };
    let no = vec![Event::Rejected { order: OrderId(13), account: C, reason: Reject::TifNotAllowedInSession }];
    stage.say("whole", Command::Enter(whole), no);
    stage
}

#[test]
fn batch_orders_trade_at_the_end_of_the_batch() {
    judge(
        batch,
        &[
            (
                "a trade on entry",
                "enters",
                |all| all[1] = trade(1, 100, 10, (10, B, 0), (11, A, 0), Buy, PLAIN),
                M6,
                "indicative values",
            ),
            ("a worse price", "batch", |all| at_price(nth(all, 0), 101), M6, "the uncross price is 100"),
            ("no batch", "batch", Vec::clear, M6, "must trade 10 at 100"),
            ("at once, and still there", "batch", |all| _ = all.drain(4..6), M5, "order 12 must be cancelled"),
            ("refused for another reason", "whole", |all| refused(all, Reject::TifNotAllowedForType), M5, "in_session"),
            ("unanswered", "whole", Vec::clear, S1, "neither accepted nor refused"),
        ],
    );
}
