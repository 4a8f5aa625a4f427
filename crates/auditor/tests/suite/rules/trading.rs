//! Continuous trading: hidden orders, filters, stops, tolerances, pro-rata shares.

use super::*;

/// Hidden orders that trade at their price, at an improved price, at their minimum and below it.
fn hiding() -> Stage {
    let rules = TradingRules { minimum_reserve: Some(Lots(2)), band_pct: Some(50), ..TradingRules::default() };
    let mut stage = Stage::open(rules);
    stage.rest(order(10, A, Sell, 105, 5));
    stage.rest(order(11, B, Buy, 100, 5));
    stage.enter("hides", hidden(12, C, Sell, 102, 6, 3), vec![]);
    let meets = vec![
        trade(1, 102, 4, (12, C, 2), (13, A, 0), Buy, PLAIN),
        cancelled(12, C, Sell, 102, 2, CancelReason::BelowMinimumExecution),
    ];
    stage.enter("meets", order(13, A, Buy, 103, 4), meets);
    let sells = vec![
        trade(2, 100, 5, (11, B, 0), (14, C, 1), Sell, PLAIN),
        level(Buy, 100, 0),
        cancelled(14, C, Sell, 98, 1, CancelReason::BelowMinimumExecution),
    ];
    stage.enter("sells", hidden(14, C, Sell, 98, 6, 2), sells);
    stage.rest(order(15, B, Buy, 100, 5));
    stage.enter("too few", hidden(16, C, Sell, 98, 10, 6), vec![]);
    let improves = vec![
        trade(3, 101, 8, (16, C, 2), (17, A, 0), Buy, PLAIN),
        cancelled(16, C, Sell, 98, 2, CancelReason::BelowMinimumExecution),
    ];
    stage.enter("improves", order(17, A, Buy, 101, 8), improves);
    let refuse = |reason| vec![Event::Rejected { order: OrderId(18), account: A, reason }];
    let mut refuses = |name, new: NewOrder, reason| stage.say(name, Command::Enter(new), refuse(reason));
    refuses("tiny", hidden(18, A, Buy, 99, 1, 1), Reject::QuantityBelowReserve);
    refuses("small minimum", hidden(18, A, Buy, 99, 5, 1), Reject::MinimumExecutionOutOfRange);
    refuses("large minimum", hidden(18, A, Buy, 99, 5, 6), Reject::MinimumExecutionOutOfRange);
    let at_once = NewOrder { tif: TimeInForce::ImmediateOrCancel, ..hidden(18, A, Buy, 99, 5, 5) };
    refuses("at once", at_once, Reject::TifNotAllowedForType);
    let for_good = NewOrder { tif: TimeInForce::GoodTillCancel, ..market(18, A, Buy, 1) };
    refuses("market for good", for_good, Reject::TifNotAllowedForType);
    let opening = NewOrder { tif: TimeInForce::OpeningCall, ..order(18, A, Buy, 99, 5) };
    refuses("opening", opening, Reject::TifNotAllowedInSession);
    refuses("far", order(18, A, Buy, 151, 5), Reject::PriceOutsideBand);
    let past = NewOrder { tif: TimeInForce::GoodTillDate { day: VenueDay(19_999) }, ..order(18, A, Buy, 99, 5) };
    refuses("past", past, Reject::ExpiryPassed);
    let late = NewOrder { tif: TimeInForce::GoodTillDate { day: VenueDay(20_091) }, ..order(18, A, Buy, 99, 5) };
    refuses("late", late, Reject::ExpiryTooFar);
    stage.session("call", Phase::ClosingCall, vec![], vec![]);
    let in_call = vec![Event::Rejected { order: OrderId(18), account: A, reason: Reject::TypeNotAllowedInSession }];
    stage.say("hides in a call", Command::Enter(hidden(18, A, Buy, 99, 5, 5)), in_call);
    stage
}

#[test]
fn hidden_orders_keep_minimum_price_and_secrecy() {
    judge(
        hiding,
        &[
            (
                "not at the hidden price",
                "meets",
                |all| at_price(nth(all, 0), 103),
                M1,
                "hidden order 12 trades at 102 here",
            ),
            ("not improved", "improves", |all| at_price(nth(all, 0), 98), M1, "hidden order 16 trades at 101 here"),
            (
                "a visible order before a better hidden one",
                "meets",
                |all| all[1] = trade(1, 102, 4, (10, A, 1), (13, A, 0), Buy, PLAIN),
                M2,
                "passes over a better price",
            ),
            ("a remainder below its minimum stays", "meets", |all| drop_cancel(all, 12), M5, "order 12 must be"),
            ("the incoming one's too", "sells", |all| drop_cancel(all, 14), M5, "order 14 must be cancelled"),
            (
                "gone for another reason",
                "meets",
                |all| for_reason(&mut all[2], CancelReason::ImmediateRemainder),
                M5,
                "the reason is BelowMinimumExecution",
            ),
            (
                "less than its minimum",
                "too few",
                |all| all.push(trade(3, 100, 5, (15, B, 0), (16, C, 5), Sell, PLAIN)),
                M5,
                "minimum 6",
            ),
            (
                "a hidden order in the public book",
                "hides",
                |all| all.push(level(Sell, 102, 6)),
                F2,
                "was published as 6 and shows 0",
            ),
            (
                "a hidden order by a change number",
                "hides",
                |all| all.push(Event::BookChanged { instrument: MARKET, change_id: 4 }),
                F1,
                "without a change",
            ),
            (
                "an order that could trade rests",
                "meets",
                |all| {
                    all.truncate(1);
                    all.push(level(Buy, 103, 4));
                },
                M3,
                "left with a bid of 103 and an offer of 102",
            ),
            ("refused for another reason", "tiny", |all| refused(all, Reject::QuantityOutOfRange), M5, "reserve"),
            ("nothing wrong with the minimum", "small minimum", |all| refused(all, Reject::NotOpen), M5, "minimum"),
            ("nor with a large one", "large minimum", |all| refused(all, Reject::BookFull), M5, "minimum_execution"),
            ("table A", "at once", |all| refused(all, Reject::TifNotAllowedInSession), M5, "tif_not_allowed_for_type"),
            ("table A again", "market for good", |all| refused(all, Reject::NotOpen), M5, "tif_not_allowed_for_type"),
            ("table B, time in force", "opening", |all| refused(all, Reject::NoAuctionScheduled), M5, "in_session"),
            (
                "table B, type",
                "hides in a call",
                |all| refused(all, Reject::NotOpen),
                M5,
                "type_not_allowed_in_session",
            ),
            ("the band", "far", |all| refused(all, Reject::PriceOutOfRange), M5, "price_outside_band"),
            ("a date that is over", "past", |all| refused(all, Reject::ExpiryTooFar), M5, "expiry_passed"),
            ("a date beyond ninety days", "late", |all| refused(all, Reject::ExpiryPassed), M5, "expiry_too_far"),
            (
                "taken in spite of the table",
                "opening",
                |all| {
                    let (order, account, instrument, side) = (OrderId(18), A, MARKET, Buy);
                    let (order_type, lots) = (pitwire_model::OrderType::Limit { price: Ticks(99) }, Lots(5));
                    let (tif, display) = (TimeInForce::OpeningCall, None);
                    all[0] = Event::Accepted { order, account, instrument, side, order_type, lots, tif, display };
                },
                M5,
                "was accepted, but must be refused: tif_not_allowed_in_session",
            ),
        ],
    );
}

/// A hidden bid that needs five lots. Three and four are offered, and only the timer filters them.
fn filtering() -> Stage {
    let mut stage = Stage::open(TradingRules::default());
    stage.enter("", hidden(10, A, Buy, 103, 5, 5), vec![]);
    stage.rest(order(11, B, Sell, 102, 3));
    stage.enter("second", order(12, C, Sell, 103, 4), vec![level(Sell, 103, 4)]);
    let trades = vec![
        trade(1, 103, 3, (10, A, 2), (11, B, 0), Sell, TradeKind::Filter),
        trade(2, 103, 2, (10, A, 0), (12, C, 2), Sell, TradeKind::Filter),
        level(Sell, 102, 0),
        level(Sell, 103, 2),
    ];
    stage.add("timer", Command::FilterHidden { instrument: MARKET }, trades);
    stage
}

#[test]
fn filter_trades_only_when_required() {
    judge(
        filtering,
        &[
            ("what could trade is left", "timer", Vec::clear, M3, "must trade 3 at 103"),
            ("two prices", "timer", |all| at_price(nth(all, 1), 102), M1, "worse than the limit of order 12"),
            ("at the offer", "timer", |all| at_price(nth(all, 0), 102), M6, "the uncross price is 103"),
            ("published as a meeting", "timer", |all| of_kind(nth(all, 0), PLAIN), M8, "is Filter"),
            (
                "a later order first",
                "timer",
                |all| all[0] = trade(1, 103, 3, (10, A, 2), (12, C, 1), Sell, TradeKind::Filter),
                M2,
                "order 11 must trade",
            ),
            (
                "nothing moved the touch",
                "second",
                |all| all.insert(2, trade(1, 103, 3, (10, A, 2), (11, B, 0), Sell, TradeKind::Filter)),
                M8,
                "does not belong",
            ),
        ],
    );
}

/// Two stops. The trade of the first one reaches the second.
fn cascading() -> Stage {
    let mut stage = Stage::open(TradingRules::default());
    stage.rest(order(10, B, Sell, 100, 5));
    let first = vec![trade(1, 100, 1, (10, B, 4), (11, A, 0), Buy, PLAIN), level(Sell, 100, 4)];
    stage.enter("", order(11, A, Buy, 100, 1), first);
    stage.enter("far", stop(12, C, Buy, 102, 2), vec![]);
    stage.enter("", stop(13, C, Buy, 101, 1), vec![]);
    stage.rest(order(14, B, Sell, 101, 1));
    stage.rest(order(15, B, Sell, 102, 9));
    let cascade = vec![
        trade(2, 100, 4, (10, B, 0), (16, A, 1), Buy, PLAIN),
        level(Sell, 100, 0),
        trade(3, 101, 1, (14, B, 0), (16, A, 0), Buy, PLAIN),
        level(Sell, 101, 0),
        triggered(13, C, 101),
        trade(4, 102, 1, (15, B, 8), (13, C, 0), Buy, PLAIN),
        level(Sell, 102, 8),
        triggered(12, C, 102),
        trade(5, 102, 2, (15, B, 6), (12, C, 0), Buy, PLAIN),
        level(Sell, 102, 6),
    ];
    stage.enter("cascade", order(16, A, Buy, 101, 5), cascade);
    stage
}

#[test]
fn stops_are_elected_once_after_the_trade_that_reached_them() {
    judge(
        cascading,
        &[
            ("a cascade that stops early", "cascade", |all| _ = all.drain(8..11), M5, "order 12 must be elected"),
            ("a stop that acts unelected", "cascade", |all| _ = all.remove(5), M5, "order 13 must be elected"),
            ("a stop before the execution has ended", "cascade", |all| all.swap(3, 5), M5, "elected before order 16"),
            (
                "a stop not reached",
                "cascade",
                |all| all[5] = triggered(12, C, 101),
                M5,
                "but order 13 with stop price 101",
            ),
            ("by another price", "cascade", |all| all[5] = triggered(13, C, 102), M5, "was elected at 101"),
            ("elected by nothing", "far", |all| all.push(triggered(12, C, 100)), M5, "does not belong"),
            ("elected again", "cascade", |all| all.insert(11, triggered(13, C, 102)), M7, "does not belong"),
            (
                "a stop at its stop price, not the book's",
                "cascade",
                |all| at_price(&mut all[6], 101),
                M1,
                "worse than the limit of order 15",
            ),
        ],
    );
}

/// A price ten percent from the static reference breaches: the order rests and a call begins.
fn breaching() -> Stage {
    let mut rules = TradingRules::default();
    rules.tolerances[0] = Tolerance { static_bps: Some(1_000), dynamic_bps: None };
    let mut stage = Stage::open(rules);
    stage.rest(order(10, B, Sell, 109, 5));
    stage.rest(order(11, B, Sell, 110, 5));
    let breach = vec![
        trade(1, 109, 5, (10, B, 0), (12, A, 3), Buy, PLAIN),
        level(Sell, 109, 0),
        breached(110, 100, Reference::Static, 1_000),
        level(Buy, 111, 3),
        broke(Phase::Continuous),
        indicative(110, 3, -2),
    ];
    stage.enter("breach", order(12, A, Buy, 111, 8), breach);
    stage.is_now(Phase::VolatilityCall);
    let uncross = vec![
        trade(2, 110, 3, (11, B, 2), (12, A, 0), Buy, VOLATILITY),
        uncrossed(Phase::VolatilityCall, 110, 3),
        level(Buy, 111, 0),
        level(Sell, 110, 2),
    ];
    stage.session("resumes", Phase::Continuous, uncross, vec![]);
    stage
}

#[test]
fn no_trade_violates_a_tolerance() {
    judge(
        breaching,
        &[
            (
                "a trade at the tolerance",
                "breach",
                |all| all[3] = trade(2, 110, 3, (11, B, 2), (12, A, 0), Buy, PLAIN),
                M8,
                "110 breaches a tolerance",
            ),
            ("a breach not published", "breach", |all| _ = all.remove(3), M8, "was not published"),
            (
                "of another reference",
                "breach",
                |all| all[3] = breached(110, 101, Reference::Static, 1_000),
                M8,
                "which is wrong",
            ),
            (
                "of another tolerance",
                "breach",
                |all| all[3] = breached(110, 100, Reference::Static, 900),
                M8,
                "which is wrong",
            ),
            (
                "against another reference",
                "breach",
                |all| all[3] = breached(110, 100, Reference::Dynamic, 1_000),
                M8,
                "which is wrong",
            ),
            ("by another price", "breach", |all| at_price(&mut all[3], 111), M8, "but 110 breaches"),
            (
                "a breach that is none",
                "breach",
                |all| {
                    all.drain(1..3);
                    at_price(&mut all[1], 109);
                },
                M8,
                "breaches nothing",
            ),
            ("no call follows", "breach", |all| _ = all.drain(5..7), M8, "must go from continuous to volatility"),
            (
                "trading goes on after it",
                "breach",
                |all| all.insert(4, trade(2, 110, 3, (11, B, 2), (12, A, 0), Buy, PLAIN)),
                M8,
                "after a breach",
            ),
            (
                "what may rest expires",
                "breach",
                |all| all[4] = cancelled(12, A, Buy, 111, 3, CancelReason::Breaker),
                M5,
                "should rest",
            ),
            ("the call's price again too far", "resumes", |all| _ = all.drain(0..4), M6, "must trade 3 at 110"),
        ],
    );
}

/// Ten lots for three orders of ten: four, three, three.
fn sharing() -> Stage {
    let rules = TradingRules { allocation: Allocation::ProRata, ..TradingRules::default() };
    let mut stage = Stage::open(rules);
    stage.rest(order(10, A, Buy, 100, 10));
    stage.enter("", order(11, B, Buy, 100, 10), vec![level(Buy, 100, 20)]);
    stage.enter("", order(12, A, Buy, 100, 10), vec![level(Buy, 100, 30)]);
    let shared = vec![
        trade(1, 100, 4, (10, A, 6), (13, C, 6), Sell, PLAIN),
        trade(2, 100, 3, (11, B, 7), (13, C, 3), Sell, PLAIN),
        trade(3, 100, 3, (12, A, 7), (13, C, 0), Sell, PLAIN),
        level(Buy, 100, 20),
    ];
    stage.enter("shares", order(13, C, Sell, 100, 10), shared);
    stage.enter(
        "own",
        order(14, B, Sell, 100, 2),
        vec![
            cancelled(11, B, Buy, 100, 7, CancelReason::SelfMatch),
            trade(4, 100, 1, (10, A, 5), (14, B, 1), Sell, PLAIN),
            trade(5, 100, 1, (12, A, 6), (14, B, 0), Sell, PLAIN),
            level(Buy, 100, 11),
        ],
    );
    stage
}

#[test]
fn pro_rata_shares_exclude_own_orders() {
    judge(
        sharing,
        &[
            (
                "by time alone",
                "shares",
                |all| all[1] = trade(1, 100, 10, (10, A, 0), (13, C, 0), Sell, PLAIN),
                M4,
                "4 were available",
            ),
            (
                "the odd lot to another",
                "shares",
                |all| all[1] = trade(1, 100, 3, (10, A, 7), (13, C, 7), Sell, PLAIN),
                M4,
                "4 were",
            ),
            (
                "lots from nowhere",
                "shares",
                |all| all[1] = trade(1, 100, 4, (10, A, 7), (13, C, 6), Sell, PLAIN),
                M4,
                "does not leave",
            ),
            (
                "with oneself",
                "own",
                |all| all[1] = trade(4, 100, 1, (11, B, 6), (14, B, 1), Sell, PLAIN),
                M11,
                "of the same member",
            ),
            ("an own order that stays", "own", |all| _ = all.remove(1), M11, "order 11 must be cancelled"),
        ],
    );
}
