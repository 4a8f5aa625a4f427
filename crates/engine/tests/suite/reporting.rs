//! Reported trades (rulebook 23): the balances afterwards, computed by hand, and what must not
//! change. Every command runs on both engines and under the auditor.

use crate::common::rows::EnginePair;
use crate::common::world::{BTC, HOUSE, NPN, NPN_ZAR, PERPETUAL, ZAR};
use pitwire_engine::Reporting;
use pitwire_model::{
    AccountId, Command, CurrencyId, Event, InstrumentId, KillScope, Label, Lots, NewOrder, OffBookTrade, OrderId,
    OrderType, Phase, Reject, ReportEnd, Seq, SessionReason, Side, Ticks, TimeInForce, TradeReport, VenueNanos,
};

const MEMBER: AccountId = AccountId(2);
const OTHER: AccountId = AccountId(3);
const THIRD: AccountId = AccountId(4);

/// MEMBER has bought 40 at 900 of OTHER, and says so.
fn block() -> TradeReport {
    TradeReport {
        instrument: NPN_ZAR,
        account: MEMBER,
        counterparty: OTHER,
        side: Side::Buy,
        price: Ticks(900),
        lots: Lots(40),
        label: Label::new("block 7").expect("short"),
    }
}

fn hours(engines: &mut EnginePair, instrument: InstrumentId, open: bool) -> Vec<Event> {
    let (reason, due, ends) = (SessionReason::Scheduled, VenueNanos(0), Some(VenueNanos(77)));
    engines.apply(Command::SetReporting { instrument, open, reason, due, ends })
}

fn open_engines(wealth: i128) -> EnginePair {
    let mut engines = EnginePair::new(100, wealth);
    let outcome = Event::ReportingChanged {
        instrument: NPN_ZAR,
        open: true,
        reason: SessionReason::Scheduled,
        ends: Some(VenueNanos(77)),
    };
    assert_eq!(hours(&mut engines, NPN_ZAR, true), [outcome]);
    engines
}

/// The number of a report that was taken.
fn reported(engines: &mut EnginePair, trade: &TradeReport) -> Seq {
    match &engines.apply(Command::ReportTrade(Box::new(trade.clone())))[..] {
        [Event::TradeReported { report, trade: outcome }] if **outcome == *trade => *report,
        events => panic!("{events:#?}"),
    }
}

fn refused(events: &[Event]) -> Option<Reject> {
    match events {
        [Event::CommandRefused { reason }] => Some(*reason),
        _ => None,
    }
}

fn answer(engines: &mut EnginePair, account: AccountId, report: Seq, confirm: bool) -> Vec<Event> {
    engines.apply(Command::AnswerReport { account, report, confirm })
}

fn total(engines: &EnginePair, account: AccountId, currency: CurrencyId) -> i128 {
    engines.engine().account(account).expect("defined").balance(currency).total
}

fn reporting(engines: &EnginePair) -> &Reporting {
    engines.engine().market(NPN_ZAR).expect("defined").reporting()
}

/// 40 shares at 900 cents are 36,000.
#[test]
fn confirmed_report_moves_money_and_leaves_the_book_unchanged() {
    let mut engines = open_engines(100);
    engines.run("a sell 5@1000 by 3, b buy 5@990 by 2, c sell 1@990 by 1");
    let before = engines.image();
    let report = reported(&mut engines, &block());
    assert_eq!((total(&engines, MEMBER, ZAR), total(&engines, OTHER, NPN)), (100_000 - 990, 100), "nothing yet");
    let made = OffBookTrade {
        instrument: NPN_ZAR,
        number: 1,
        price: Ticks(900),
        lots: Lots(40),
        report,
        buyer: MEMBER,
        seller: OTHER,
    };
    assert_eq!(answer(&mut engines, OTHER, report, true), [Event::OffBookTrade(Box::new(made))]);
    assert_eq!((total(&engines, MEMBER, ZAR), total(&engines, MEMBER, NPN)), (63_010, 141));
    assert_eq!((total(&engines, OTHER, ZAR), total(&engines, OTHER, NPN)), (136_000, 60));
    let after = engines.image();
    let (was, is) = (&before.markets[1], &after.markets[1]);
    assert_eq!(
        (is.trades, is.last, is.change_id, &is.orders),
        (was.trades, Some(Ticks(990)), was.change_id, &was.orders)
    );
    assert_eq!((&is.session, is.reporting.trades), (&was.session, 1));
    // Once.
    assert_eq!(refused(&answer(&mut engines, OTHER, report, true)), Some(Reject::UnknownReport));
}

/// Sells are the mirror image: who reports a sale delivers. Of the second trade the number is 2.
#[test]
fn reported_sale_is_confirmed_by_the_buyer() {
    let mut engines = open_engines(100);
    let first = reported(&mut engines, &block());
    let sale = TradeReport { side: Side::Sell, lots: Lots(10), ..block() };
    let second = reported(&mut engines, &sale);
    assert!(matches!(&answer(&mut engines, OTHER, second, true)[..], [Event::OffBookTrade(made)]
        if (made.number, made.buyer, made.seller) == (1, OTHER, MEMBER)));
    assert_eq!((total(&engines, MEMBER, ZAR), total(&engines, MEMBER, NPN)), (109_000, 90));
    assert!(matches!(&answer(&mut engines, OTHER, first, true)[..], [Event::OffBookTrade(made)] if made.number == 2));
}

/// Ten lots at 1001: the buyer's entry is ⌊2e9 × 10 / 1001⌋ = 19,980,019 units; no profit is paid
/// yet.
#[test]
fn reported_perpetual_trade_fills_both_sides() {
    let mut engines = EnginePair::new(100, 10_000);
    hours(&mut engines, PERPETUAL, true);
    let trade = TradeReport { instrument: PERPETUAL, price: Ticks(1001), lots: Lots(10), ..block() };
    let report = reported(&mut engines, &trade);
    answer(&mut engines, OTHER, report, true);
    let held = |account| {
        let held = engines.engine().account(account).expect("defined").position(PERPETUAL);
        (held.lots, held.entry_value, held.realized)
    };
    assert_eq!((held(MEMBER), held(OTHER)), ((10, 19_980_019, 0), (-10, 19_980_019, 0)));
    assert_eq!((total(&engines, MEMBER, BTC), total(&engines, OTHER, BTC)), (200_000_000, 200_000_000));
}

/// MEMBER of 2,000,000 units is long ten lots from the mark of 1000, where a lot is worth 2,000,000
/// and its margin is 40,000: margin 400,000, free 1,600,000. It then reports a trade with a house
/// account.
#[test]
fn reported_perpetual_trade_cannot_use_needed_margin() {
    let table = [
        // rests in the book   reported             refused  total afterwards, lots
        // Turned round: short ten afterwards, so the margin stays, and 1,600,000 are there to lose.
        // ⌊4e10 / 953⌋ = 41,972,717, a loss of 1,972,717, fits into the whole and leaves no margin.
        (None, (Side::Sell, 20, 953), true, 2_000_000, 10),
        // ⌊4e10 / 961⌋ = 41,623,309 is too much too; ⌊4e10 / 962⌋ = 41,580,041 fits, half of it
        // realized.
        (None, (Side::Sell, 20, 961), true, 2_000_000, 10),
        (None, (Side::Sell, 20, 962), false, 2_000_000 - 790_020, -10),
        // One lot too many costs margin: at the mark 400,000 + 1,600,000 are margin for 50 short,
        // not for 51.
        (None, (Side::Sell, 60, 1000), false, 2_000_000, -50),
        (None, (Side::Sell, 61, 1000), true, 2_000_000, 10),
        // A resting sale of ten keeps the margin of ten: ⌊2e10 / 910⌋ = 21,978,021 is a loss of
        // 1,978,021.
        (Some((Side::Sell, 10)), (Side::Sell, 10, 910), true, 2_000_000, 10),
        // ⌊2e10 / 925⌋ = 21,621,621 is too much; ⌊2e10 / 926⌋ = 21,598,272 leaves the 400,000.
        (Some((Side::Sell, 10)), (Side::Sell, 10, 925), true, 2_000_000, 10),
        (Some((Side::Sell, 10)), (Side::Sell, 10, 926), false, 2_000_000 - 1_598_272, 0),
        // So does a resting bid for ten: margin of twenty before, of ten afterwards.
        (Some((Side::Buy, 10)), (Side::Sell, 10, 925), true, 2_000_000, 10),
        (Some((Side::Buy, 10)), (Side::Sell, 10, 926), false, 2_000_000 - 1_598_272, 0),
        // With nothing resting all of it may go, and no more: ⌊2e10 / 909⌋ = 22,002,200.
        (None, (Side::Sell, 10, 910), false, 2_000_000 - 1_978_021, 0),
        (None, (Side::Sell, 10, 909), true, 2_000_000, 10),
    ];
    for (resting, (side, lots, price), is_refused, units, held) in table {
        let mut engines = EnginePair::new(100, 100);
        hours(&mut engines, PERPETUAL, true);
        let partner = HOUSE[0];
        let report = |side, lots, price| TradeReport {
            instrument: PERPETUAL,
            counterparty: partner,
            side,
            price: Ticks(price),
            lots: Lots(lots),
            ..block()
        };
        let first = reported(&mut engines, &report(Side::Buy, 10, 1000));
        assert!(matches!(answer(&mut engines, partner, first, true)[..], [Event::OffBookTrade(_)]));
        if let Some((side, lots)) = resting {
            let price = if side == Side::Sell { 1000 } else { 900 };
            engines.apply(Command::Enter(NewOrder {
                id: OrderId(1),
                account: MEMBER,
                instrument: PERPETUAL,
                side,
                order_type: OrderType::Limit { price: Ticks(price) },
                lots: Lots(lots),
                tif: TimeInForce::GoodTillCancel,
                ..NewOrder::PLAIN
            }));
        }
        let second = reported(&mut engines, &report(side, lots, price));
        let outcome = refused(&answer(&mut engines, partner, second, true));
        let case = format!("{resting:?}, {side:?} {lots} at {price}");
        assert_eq!(outcome, is_refused.then_some(Reject::NotEnoughFunds), "{case}");
        let position = engines.engine().account(MEMBER).expect("defined").position(PERPETUAL);
        assert_eq!((total(&engines, MEMBER, BTC), position.lots), (units, held), "{case}");
        assert!(engines.engine().available(MEMBER, BTC) >= 0, "{case}");
    }
}

/// Whatever the book's session: a halt, a call, after the close. Bands, collars and limits are the
/// book's own.
#[test]
fn sessions_and_limits_of_the_book_do_not_bind() {
    let mut engines = open_engines(100_000);
    engines.run("limit lots 9 notional 900 collar 500");
    for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Deleted) {
        let (instrument, reason, due) = (NPN_ZAR, SessionReason::Scheduled, VenueNanos(0));
        engines.apply(Command::ChangeSession { instrument, to: phase, reason, due, ends: None });
        let report = reported(&mut engines, &block());
        let events = answer(&mut engines, OTHER, report, true);
        assert!(matches!(events[..], [Event::OffBookTrade(_)]), "{}: {events:?}", phase.name());
    }
    assert_eq!(reporting(&engines).trades, 15);
}

#[test]
fn only_the_counterparty_confirms_and_both_may_end_a_report() {
    let mut engines = open_engines(100);
    let ended =
        |report, end| [Event::ReportEnded { report, instrument: NPN_ZAR, account: MEMBER, counterparty: OTHER, end }];
    let report = reported(&mut engines, &block());
    assert_eq!(refused(&answer(&mut engines, MEMBER, report, true)), Some(Reject::OwnReport));
    for stranger in [THIRD, HOUSE[0]] {
        assert_eq!(refused(&answer(&mut engines, stranger, report, true)), Some(Reject::UnknownReport));
        assert_eq!(refused(&answer(&mut engines, stranger, report, false)), Some(Reject::UnknownReport));
    }
    assert_eq!(refused(&answer(&mut engines, AccountId(90), report, false)), Some(Reject::UnknownAccount));
    assert_eq!(answer(&mut engines, MEMBER, report, false), ended(report, ReportEnd::Withdrawn));
    let report = reported(&mut engines, &block());
    assert_eq!(answer(&mut engines, OTHER, report, false), ended(report, ReportEnd::Declined));
    assert_eq!(refused(&answer(&mut engines, OTHER, report, true)), Some(Reject::UnknownReport));
}

/// Each alone; where two are broken, the first is the answer.
#[test]
fn report_is_refused_for_the_first_violated_rule() {
    let mut engines = open_engines(100);
    let unknown = AccountId(90);
    for (wrong, reason) in [
        (TradeReport { instrument: InstrumentId(9), counterparty: unknown, ..block() }, Reject::UnknownInstrument),
        (TradeReport { counterparty: unknown, lots: Lots(0), ..block() }, Reject::UnknownAccount),
        (TradeReport { account: unknown, ..block() }, Reject::UnknownAccount),
        (TradeReport { instrument: PERPETUAL, lots: Lots(0), ..block() }, Reject::ReportingClosed),
        (TradeReport { lots: Lots(0), price: Ticks(0), ..block() }, Reject::QuantityOutOfRange),
        (TradeReport { lots: Lots(1 << 32), ..block() }, Reject::QuantityOutOfRange),
        (TradeReport { price: Ticks(0), counterparty: MEMBER, ..block() }, Reject::PriceOutOfRange),
        (TradeReport { price: Ticks(1 << 32), ..block() }, Reject::PriceOutOfRange),
        (TradeReport { counterparty: MEMBER, ..block() }, Reject::BadDefinition),
    ] {
        let before = engines.image();
        assert_eq!(refused(&engines.apply(Command::ReportTrade(Box::new(wrong.clone())))), Some(reason), "{wrong:?}");
        assert_eq!(engines.image(), before, "a refused command changes nothing");
    }
    for _ in 0..TradeReport::MOST_WAITING {
        reported(&mut engines, &block());
    }
    assert_eq!(refused(&engines.apply(Command::ReportTrade(Box::new(block())))), Some(Reject::TooManyReports));
    // The other party has its own sixteen.
    reported(&mut engines, &TradeReport { account: OTHER, counterparty: MEMBER, ..block() });
}

/// The buyer's cash is judged first, and goods set aside for an order are not free.
#[test]
fn both_parties_need_available_funds() {
    let mut engines = open_engines(100);
    let report = reported(&mut engines, &TradeReport { lots: Lots(101), ..block() });
    engines.run("a sell 60@2000 by 3");
    let before = engines.image();
    assert_eq!(refused(&answer(&mut engines, OTHER, report, true)), Some(Reject::NotEnoughFunds));
    assert_eq!(engines.image(), before, "and the report waits on");
    let fits = reported(&mut engines, &block());
    assert!(matches!(answer(&mut engines, OTHER, fits, true)[..], [Event::OffBookTrade(_)]), "40 are free");
    // House accounts are never asked.
    let trade = TradeReport { account: HOUSE[0], counterparty: HOUSE[1], lots: Lots(1_000_000), ..block() };
    let report = reported(&mut engines, &trade);
    assert!(matches!(answer(&mut engines, HOUSE[1], report, true)[..], [Event::OffBookTrade(_)]));
    assert_eq!(total(&engines, HOUSE[0], NPN), 1_000_000);
}

/// A kill between report and confirmation prevents the trade, but not its withdrawal.
#[test]
fn blocked_parties_cannot_report_or_confirm() {
    let mut engines = open_engines(100);
    let report = reported(&mut engines, &block());
    for (scope, party) in
        [(KillScope::Account(MEMBER), "reporter"), (KillScope::Account(OTHER), "other"), (KillScope::Venue, "all")]
    {
        engines.apply(Command::Kill { scope, reason: Label::NONE });
        assert_eq!(refused(&answer(&mut engines, OTHER, report, true)), Some(Reject::Killed), "{party}");
        // A reporter does not learn whether the counterparty is blocked.
        let outcome = refused(&engines.apply(Command::ReportTrade(Box::new(block()))));
        assert_eq!(outcome, Some(Reject::Killed).filter(|_| party != "other"), "{party}");
        engines.apply(Command::Lift { scope });
    }
    engines.apply(Command::CloseAccount { account: MEMBER });
    assert_eq!(refused(&answer(&mut engines, OTHER, report, true)), Some(Reject::AccountClosed));
    assert!(matches!(
        answer(&mut engines, OTHER, report, false)[..],
        [Event::ReportEnded { end: ReportEnd::Declined, .. }]
    ));
}

#[test]
fn waiting_reports_end_with_the_hours_the_day_or_the_instrument() {
    let waiting = |engines: &mut EnginePair| [(); 3].map(|()| reported(engines, &block()));
    let ends = |events: &[Event], reports: [Seq; 3], reason: SessionReason| {
        let over = |event: &Event| match event {
            Event::ReportEnded { report, end: ReportEnd::HoursEnded, .. } => Some(*report),
            _ => None,
        };
        assert_eq!(events.iter().filter_map(over).collect::<Vec<_>>(), reports, "by number");
        let shut = Event::ReportingChanged { instrument: NPN_ZAR, open: false, reason, ends: None };
        assert!(events.contains(&shut), "{events:?}");
    };
    let mut engines = open_engines(100);
    let reports = waiting(&mut engines);
    ends(&hours(&mut engines, NPN_ZAR, false), reports, SessionReason::Scheduled);
    assert_eq!(refused(&hours(&mut engines, NPN_ZAR, false)), Some(Reject::SessionNotAllowed), "closed already");
    hours(&mut engines, NPN_ZAR, true);
    assert_eq!(refused(&hours(&mut engines, NPN_ZAR, true)), Some(Reject::SessionNotAllowed), "open already");
    let reports = waiting(&mut engines);
    ends(&engines.apply(Command::EndDay), reports, SessionReason::Scheduled);
    hours(&mut engines, NPN_ZAR, true);
    let reports = waiting(&mut engines);
    ends(&engines.apply(Command::DeleteInstrument { instrument: NPN_ZAR }), reports, SessionReason::Operator);
    assert_eq!(refused(&hours(&mut engines, NPN_ZAR, true)), Some(Reject::InstrumentDeleted));
    assert_eq!(refused(&engines.apply(Command::ReportTrade(Box::new(block())))), Some(Reject::InstrumentDeleted));
}

/// A restart ends sessions, and no report.
#[test]
fn report_survives_an_epoch_and_an_image() {
    let mut engines = open_engines(100);
    let report = reported(&mut engines, &block());
    engines.run("start epoch 2");
    let image = engines.image();
    let again = pitwire_engine::Engine::from_image(image.clone()).expect("its own image");
    assert_eq!((again.image(), again.report(report)), (image, Some(&block())));
    assert_eq!(again.reports_of(OTHER).map(|(number, _)| number).collect::<Vec<_>>(), [report]);
    assert_eq!(again.reports_of(THIRD).count(), 0);
}
