//! Short honest runs after the rulebook's examples, and each promise broken in them once, found and called by its name.

mod stage;

use pitwire_audit::{Auditor, Offence, Promise};
use pitwire_model::{
    Allocation, CancelReason, Command, Derivation, Event, Lots, NewOrder, OrderId, Phase, Reference, Reject,
    SessionReason, Side, Ticks, TimeInForce, Tolerance, TradeKind, TradingRules, VenueDay, VenueNanos,
};
use stage::*;

use Promise::{F1, F2, M1, M2, M3, M4, M5, M6, M7, M8, M11, S1};
use Side::{Buy, Sell};

const INTRADAY: TradeKind = TradeKind::Call(Phase::IntradayCall);
const VOLATILITY: TradeKind = TradeKind::Call(Phase::VolatilityCall);
const PLAIN: TradeKind = TradeKind::Continuous;

fn audit(run: &[Step]) -> Result<(), Offence> {
    let mut auditor = Auditor::new();
    for (_, stamped, events) in run {
        auditor.observe(stamped, events)?;
    }
    auditor.reckon()
}

/// What is planted, in which step, how, and the promise it breaks with words of the sentence.
type Planted = (&'static str, &'static str, fn(&mut Vec<Event>), Promise, &'static str);

fn judge(run: fn() -> Stage, planted: &[Planted]) {
    assert_eq!(audit(&run().steps), Ok(()), "an honest run");
    let mut missed = Vec::new();
    for (what, step, plant, promise, words) in planted {
        let mut steps = run().steps;
        let at = steps.iter().position(|(name, ..)| name == step).unwrap_or_else(|| panic!("no step is called {step}"));
        plant(&mut steps[at].2);
        match audit(&steps) {
            Err(offence) if offence.promise == *promise && offence.sentence.contains(words) => {}
            other => missed.push(format!("{what}: {other:?}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The nth trade of a step.
fn nth(events: &mut [Event], number: usize) -> &mut Event {
    let mut trades = events.iter_mut().filter(|event| matches!(event, Event::Trade { .. }));
    trades.nth(number).expect("a trade")
}

fn at_price(event: &mut Event, to: i64) {
    if let Event::Trade { price, .. } | Event::ClosingPriceSet { price, .. } | Event::Breached { price, .. } = event {
        *price = Ticks(to);
    }
}

fn of_kind(event: &mut Event, to: TradeKind) {
    if let Event::Trade { kind, .. } = event {
        *kind = to;
    }
}

fn of_lots(event: &mut Event, to: u64) {
    if let Event::Trade { lots, .. } | Event::Uncrossed { volume: lots, .. } = event {
        *lots = Lots(to);
    }
}

fn for_reason(event: &mut Event, to: CancelReason) {
    if let Event::Cancelled { reason, .. } = event {
        *reason = to;
    }
}

fn drop_cancel(events: &mut Vec<Event>, id: u64) {
    events.retain(|event| !matches!(event, Event::Cancelled { order, .. } if order.0 == id));
}

fn refused(events: &mut [Event], to: Reject) {
    if let Event::Rejected { reason, .. } = &mut events[0] {
        *reason = to;
    }
}

/// A call of every kind of order: 16 lots sold at any price, 10 by an iceberg; a stop that its price elects.
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
fn a_call_has_one_price_and_the_right_one() {
    judge(
        call,
        &[
            ("two prices in one uncross", "ends", |all| at_price(nth(all, 1), 100), M6, "the one price is 101"),
            ("a fill beyond a limit", "ends", |all| at_price(nth(all, 1), 102), M1, "worse than the limit of order 10"),
            ("a trade too few", "ends", |all| _ = all.remove(2), M6, "were to trade 4 at 101"),
            (
                "a trade too many",
                "ends",
                |all| all.insert(3, trade(4, 101, 1, (14, B, 5), (13, A, 2), Buy, INTRADAY)),
                M6,
                "more than the price allows",
            ),
            ("less than there was", "ends", |all| of_lots(nth(all, 1), 11), M6, "12 were to be had"),
            ("a priced order before a market order", "ends", |all| all.swap(0, 1), F1, "follows trade 0"),
            (
                "and numbered as if it were right",
                "ends",
                |all| all[0] = trade(1, 101, 12, (10, A, 8), (11, B, 0), Sell, INTRADAY),
                M2,
                "order 12 was to trade, and order 11 did",
            ),
            (
                "told as a trade of another session",
                "ends",
                |all| of_kind(nth(all, 0), PLAIN),
                M8,
                "is told as Continuous",
            ),
            ("a volume that was not", "ends", |all| of_lots(&mut all[3], 19), M6, "the uncross was told as"),
            ("an iceberg that shows no more", "ends", |all| _ = all.remove(4), F2, "was told as 2 and shows 0"),
            ("a level that shows all", "ends", |all| all[7] = level(Sell, 101, 6), F2, "was told as 6 and shows 2"),
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
            ("an outlook that is wrong", "market", |all| all[1] = indicative(101, 16, 5), M6, "outlook was told as"),
            ("no outlook", "sell", |all| _ = all.remove(2), M6, "and was not told"),
            ("an outlook told again", "stop", |all| all.push(indicative(101, 16, 4)), F1, "had not changed"),
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
                "to be parked",
            ),
            ("an order for a call that misses it", "begins", |all| _ = all.drain(1..3), M5, "was to be injected"),
            (
                "a session that was not asked for",
                "begins",
                |all| {
                    if let Event::SessionChanged { to, .. } = &mut all[0] {
                        *to = Phase::ClosingCall;
                    }
                },
                M8,
                "was to go from continuous to intraday_auction",
            ),
            ("a change that has no number", "begins", |all| _ = all.pop(), F1, "no change number"),
        ],
    );
}

/// A call without a price: its market order, the order for it alone and one whose time is up expire, one for all calls is
/// set aside.
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
fn what_a_call_leaves_goes_its_way() {
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
            ("an order outlives its time", "ends", |all| _ = all.drain(3..5), M5, "order 13 was to be cancelled"),
            ("out of order of number", "ends", |all| all.swap(0, 1), M5, "out of order"),
            (
                "an order for all calls that stays",
                "ends",
                |all| _ = all.drain(5..7),
                M5,
                "order 12 (gfa) was to be parked",
            ),
            ("parked with less than it has", "ends", |all| all[5] = parked(12, C, 6), M5, "to be parked with 7"),
            (
                "a day order that goes too",
                "ends",
                |all| all.insert(3, cancelled(14, A, Buy, 98, 1, CancelReason::CallEnded)),
                M5,
                "order 13 was to be cancelled",
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

/// Hidden orders met at their price, at an improved one, by their minimum and below it.
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
fn hidden_orders_keep_their_minimum_their_price_and_their_secret() {
    judge(
        hiding,
        &[
            (
                "not at the hidden price",
                "meets",
                |all| at_price(nth(all, 0), 103),
                M1,
                "hidden order 12 gives 102 here",
            ),
            ("not improved", "improves", |all| at_price(nth(all, 0), 98), M1, "hidden order 16 gives 101 here"),
            (
                "a visible order before a better hidden one",
                "meets",
                |all| all[1] = trade(1, 102, 4, (10, A, 1), (13, A, 0), Buy, PLAIN),
                M2,
                "passes over a better price",
            ),
            ("a remainder below its minimum stays", "meets", |all| drop_cancel(all, 12), M5, "order 12 was to be"),
            ("the incoming one's too", "sells", |all| drop_cancel(all, 14), M5, "order 14 was to be cancelled"),
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
                "was told as 6 and shows 0",
            ),
            (
                "a hidden order by a change number",
                "hides",
                |all| all.push(Event::BookChanged { instrument: MARKET, change_id: 4 }),
                F1,
                "had not changed",
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
                "was accepted and was to be refused: tif_not_allowed_in_session",
            ),
        ],
    );
}

/// A hidden bid that needs five lots; three and four are offered, and nothing moves the best of them but the timer.
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
    stage.tell("timer", Command::FilterHidden { instrument: MARKET }, trades);
    stage
}

#[test]
fn a_filter_trades_when_it_must_and_not_else() {
    judge(
        filtering,
        &[
            ("what could trade is left", "timer", Vec::clear, M3, "were to trade 3 at 103"),
            ("two prices", "timer", |all| at_price(nth(all, 1), 102), M1, "worse than the limit of order 12"),
            ("at the offer", "timer", |all| at_price(nth(all, 0), 102), M6, "the one price is 103"),
            ("told as a meeting", "timer", |all| of_kind(nth(all, 0), PLAIN), M8, "is Filter"),
            (
                "a later order first",
                "timer",
                |all| all[0] = trade(1, 103, 3, (10, A, 2), (12, C, 1), Sell, TradeKind::Filter),
                M2,
                "order 11 was to trade",
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

/// Two stops, the second reached by what the first trades.
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
fn stops_are_elected_at_their_price_after_what_reached_it_and_once() {
    judge(
        cascading,
        &[
            ("a cascade that stops early", "cascade", |all| _ = all.drain(8..11), M5, "order 12 was to be elected"),
            ("a stop that acts unelected", "cascade", |all| _ = all.remove(5), M5, "order 13 was to be elected"),
            ("a stop before the execution has ended", "cascade", |all| all.swap(3, 5), M5, "elected before order 16"),
            ("a stop not reached", "cascade", |all| all[5] = triggered(12, C, 101), M5, "order 13 was to be, at 101"),
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

/// A tenth from the static reference is too far: the order rests, a call begins.
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
fn nothing_executes_beyond_a_tolerance() {
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
            ("a breach not told", "breach", |all| _ = all.remove(3), M8, "was not told"),
            (
                "of another reference",
                "breach",
                |all| all[3] = breached(110, 101, Reference::Static, 1_000),
                M8,
                "not so",
            ),
            ("of another tolerance", "breach", |all| all[3] = breached(110, 100, Reference::Static, 900), M8, "not so"),
            (
                "against another reference",
                "breach",
                |all| all[3] = breached(110, 100, Reference::Dynamic, 1_000),
                M8,
                "not so",
            ),
            ("by another price", "breach", |all| at_price(&mut all[3], 111), M8, "it is 110 that breaches"),
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
            ("no call follows", "breach", |all| _ = all.drain(5..7), M8, "was to go from continuous to volatility"),
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
            ("the call's price again too far", "resumes", |all| _ = all.drain(0..4), M6, "were to trade 3 at 110"),
        ],
    );
}

/// A closing call that breaches, goes on as a volatility call, and gives the closing price all the same.
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
    stage.tell("breach", Command::ChangeSession { instrument, to, reason, due, ends: None }, breach);
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
fn a_call_that_breaches_goes_on() {
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
            ("no word of what it would be", "breach", |all| _ = all.remove(2), M6, "was not told"),
            ("of the last trade", "closes", |all| all[5] = closing(105, Derivation::LastTrade), M6, "closing price"),
            ("no closing price", "closes", |all| _ = all.remove(5), M6, "the closing price was told as None"),
        ],
    );
}

/// Two trades at 100 and 103 make 101.5, which closes at 102; the cross trades there.
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
fn the_close_is_derived_and_crossed_at() {
    judge(
        close_and_cross,
        &[
            ("rounded down", "publishes", |all| at_price(&mut all[1], 101), M6, "the closing price was told as"),
            (
                "the last trade's",
                "publishes",
                |all| all[1] = closing(103, Derivation::LastTrade),
                M6,
                "(Ticks(102), Vwap)",
            ),
            ("crossed elsewhere", "sells", |all| at_price(nth(all, 0), 101), M1, "rests at 102"),
            ("told as continuous", "sells", |all| of_kind(nth(all, 0), PLAIN), M8, "is Cross"),
            (
                "nobody meets",
                "sells",
                |all| all[1] = cancelled(20, B, Sell, 0, 2, CancelReason::ImmediateRemainder),
                M5,
                "could still trade",
            ),
            ("an order outlives the cross", "ends", |all| _ = all.drain(0..2), M5, "order 9 was to be cancelled"),
            ("an order misses the cross", "crosses", |all| _ = all.drain(1..3), M5, "was to be injected"),
        ],
    );
}

/// One order of each time in force that a day's end, a time or ninety days end.
fn living() -> Stage {
    let mut stage = Stage::open(TradingRules::default());
    stage.rest(NewOrder { tif: TimeInForce::GoodTillDate { day: TODAY }, ..order(10, A, Buy, 90, 1) });
    stage.rest(NewOrder { tif: TimeInForce::GoodTillCancel, ..order(11, A, Buy, 91, 1) });
    stage.rest(order(12, A, Buy, 92, 1));
    let at = VenueNanos(stage.now() + 60 * SECOND);
    stage.rest(NewOrder { tif: TimeInForce::GoodTillTime { at }, ..order(13, A, Buy, 93, 1) });
    let waits = NewOrder { tif: TimeInForce::AnyCall, ..order(14, A, Buy, 94, 1) };
    stage.enter("", waits, vec![parked(14, A, 1)]);
    stage.say("before", Command::PassTime, vec![]);
    stage.pass(100);
    let due = vec![cancelled(13, A, Buy, 93, 1, CancelReason::TimeReached), level(Buy, 93, 0)];
    stage.tell("time", Command::PassTime, due);
    let ended = vec![
        cancelled(10, A, Buy, 90, 1, CancelReason::DateReached),
        level(Buy, 90, 0),
        cancelled(12, A, Buy, 92, 1, CancelReason::DayEnded),
        level(Buy, 92, 0),
    ];
    stage.tell("day", Command::EndDay, ended);
    if let Some((_, _, events)) = stage.steps.last_mut() {
        events.push(Event::DayEnded);
    }
    let (day, closes) = (VenueDay(TODAY.0 + 89), VenueNanos(200_000 * SECOND));
    stage.say("", Command::BeginDay { day, closes }, vec![Event::DayBegun { day }]);
    stage.say("eighty-nine", Command::EndDay, vec![Event::DayEnded]);
    let day = VenueDay(TODAY.0 + 90);
    stage.say("", Command::BeginDay { day, closes }, vec![Event::DayBegun { day }]);
    let old = vec![cancelled(11, A, Buy, 91, 1, CancelReason::NinetyDays), level(Buy, 91, 0)];
    stage.tell("ninety", Command::EndDay, old);
    if let Some((_, _, events)) = stage.steps.last_mut() {
        events.push(Event::DayEnded);
    }
    stage
}

#[test]
fn no_expiry_is_missed_and_none_comes_early() {
    judge(
        living,
        &[
            ("a time missed", "time", Vec::clear, M5, "order 13 was to be cancelled"),
            (
                "a time too early",
                "before",
                |all| all.push(cancelled(13, A, Buy, 93, 1, CancelReason::TimeReached)),
                M4,
                "does not belong",
            ),
            ("a time for a day", "time", |all| for_reason(&mut all[0], CancelReason::DayEnded), M5, "is TimeReached"),
            ("a date missed", "day", |all| _ = all.drain(0..2), M5, "order 10 was to be cancelled"),
            ("a day for a date", "day", |all| for_reason(&mut all[0], CancelReason::DayEnded), M5, "is DateReached"),
            ("a day order that stays", "day", |all| _ = all.drain(2..4), M5, "order 12 was to be cancelled"),
            (
                "an order for all calls that goes with the day",
                "day",
                |all| all.insert(4, cancelled(14, A, Buy, 94, 1, CancelReason::DayEnded)),
                M4,
                "does not belong",
            ),
            (
                "ninety days after eighty-nine",
                "eighty-nine",
                |all| all.insert(0, cancelled(11, A, Buy, 91, 1, CancelReason::NinetyDays)),
                M5,
                "this day's end does not end it",
            ),
            ("ninety days missed", "ninety", |all| _ = all.drain(0..3), M5, "order 11 was to be cancelled"),
            ("a day that does not end", "ninety", |all| _ = all.pop(), M5, "the day was to end and did not"),
        ],
    );
}

/// Ten lots among three orders of ten: four, three, three.
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
fn shares_are_in_proportion_and_nobody_trades_with_himself() {
    judge(
        sharing,
        &[
            (
                "by time alone",
                "shares",
                |all| all[1] = trade(1, 100, 10, (10, A, 0), (13, C, 0), Sell, PLAIN),
                M4,
                "4 were to be had",
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
            ("an own order that stays", "own", |all| _ = all.remove(1), M11, "order 11 was to be cancelled"),
        ],
    );
}

/// A batch: nothing on entry, one price at its end.
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
    stage.tell("batch", Command::RunBatch { instrument: MARKET }, ends);
    let whole = NewOrder { tif: TimeInForce::FillOrKill, ..order(13, C, Buy, 99, 2) };
    let no = vec![Event::Rejected { order: OrderId(13), account: C, reason: Reject::TifNotAllowedInSession }];
    stage.say("whole", Command::Enter(whole), no);
    stage
}

#[test]
fn a_batch_waits_for_its_end() {
    judge(
        batch,
        &[
            (
                "a trade on entry",
                "enters",
                |all| all[1] = trade(1, 100, 10, (10, B, 0), (11, A, 0), Buy, PLAIN),
                M6,
                "outlook",
            ),
            ("a worse price", "batch", |all| at_price(nth(all, 0), 101), M6, "the one price is 100"),
            ("no batch", "batch", Vec::clear, M6, "were to trade 10 at 100"),
            ("at once, and still there", "batch", |all| _ = all.drain(4..6), M5, "order 12 was to be cancelled"),
            ("refused for another reason", "whole", |all| refused(all, Reject::TifNotAllowedForType), M5, "in_session"),
            ("unanswered", "whole", Vec::clear, S1, "neither accepted nor refused"),
        ],
    );
}

/// What the timetable forgot, of an honest engine.
#[test]
fn a_timetable_is_held_to_its_word_when_asked() {
    let punctual = |run: &[Step]| {
        let mut auditor = Auditor::new().with_timetable();
        run.iter().try_for_each(|(_, stamped, events)| auditor.observe(stamped, events))
    };
    let open = || Stage::open(TradingRules::default());
    // The stage opens out of a closed market with an opening call to come.
    let offence = punctual(&open().steps).expect_err("no opening call");
    assert!(offence.promise == M8 && offence.sentence.contains("opening call is still to come"), "{offence}");

    let after = |then: fn(&mut Stage)| {
        let mut stage = open();
        let opened = stage.steps.len();
        then(&mut stage);
        let mut auditor = Auditor::new();
        for (_, stamped, events) in &stage.steps[..opened] {
            auditor.observe(stamped, events).expect("an honest engine");
        }
        let mut auditor = auditor.with_timetable();
        stage.steps[opened..].iter().try_for_each(|(_, stamped, events)| auditor.observe(stamped, events))
    };
    let kept = after(|stage| {
        let at = VenueNanos(stage.now() + 60 * SECOND);
        stage.rest(NewOrder { tif: TimeInForce::GoodTillTime { at }, ..order(10, A, Buy, 93, 1) });
        stage.pass(100);
        let due = vec![cancelled(10, A, Buy, 93, 1, CancelReason::TimeReached), level(Buy, 93, 0)];
        stage.tell("", Command::PassTime, due);
        stage.rest(order(11, A, Buy, 94, 1));
    });
    assert_eq!(kept, Ok(()));
    let forgotten = after(|stage| {
        let at = VenueNanos(stage.now() + 60 * SECOND);
        stage.rest(NewOrder { tif: TimeInForce::GoodTillTime { at }, ..order(10, A, Buy, 93, 1) });
        stage.pass(100);
        stage.rest(order(11, A, Buy, 94, 1));
    });
    let offence = forgotten.expect_err("a time that nobody told");
    assert!(offence.promise == M5 && offence.sentence.contains("order 10 was good till"), "{offence}");

    let early = after(|stage| {
        stage.session("", Phase::IntradayCall, vec![], vec![]);
        let (instrument, ends, phase) = (MARKET, VenueNanos(stage.now() + 60 * SECOND), Phase::IntradayCall);
        let reason = SessionReason::Extended;
        let moved = Event::SessionChanged { instrument, from: phase, to: phase, reason, ends: Some(ends) };
        stage.tell("", Command::ExtendSession { instrument, ends }, vec![moved]);
        stage.session("", Phase::Continuous, vec![], vec![]);
    });
    let offence = early.expect_err("a call left before its end");
    assert!(offence.promise == M8 && offence.sentence.contains("intraday_auction of instrument 0 ended"), "{offence}");
}
