//! Reserves, margin and available funds. Sums are computed by hand. NPN_ZAR costs one cent for a
//! lot at a price of one tick.

use crate::common::rows::EnginePair;
use crate::common::world::{BTC, BTC_USDC, NPN, NPN_ZAR, PERPETUAL, ZAR};
use pitwire_engine::Balance;
use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Reject, Side, Ticks,
    TimeInForce,
};

const MEMBER: AccountId = AccountId(2);

/// (total, reserved) in ZAR cents and in shares.
fn member(engines: &EnginePair) -> [(i128, i128); 2] {
    engines.image();
    let account = engines.engine().account(MEMBER).expect("it was defined");
    let pair = |Balance { total, reserved }: Balance| (total, reserved);
    [pair(account.balance(ZAR)), pair(account.balance(NPN))]
}

/// A member of 100,000 cents and 100 shares; account 0 is the house.
#[test]
fn spot_orders_reserve_their_worst_case_cost() {
    let table = [
        // commands                                             then                       cents
        //                                                               shares
        ("a buy 100@1000 by 2", "-", (100_000, 100_000), (100, 0)),
        ("a buy 100@1001 by 2", "refused not_enough_funds", (100_000, 0), (100, 0)),
        ("a buy 60@1000 by 2, b buy 41@1000 by 2", "refused not_enough_funds", (100_000, 60_000), (100, 0)),
        ("a buy 60@1000 by 2, b buy 40@1000 by 2", "-", (100_000, 100_000), (100, 0)),
        ("a sell 100@1000 by 2", "-", (100_000, 0), (100, 100)),
        ("a sell 101@1000 by 2", "refused not_enough_funds", (100_000, 0), (100, 0)),
        ("a sell 101 market by 2", "refused not_enough_funds", (100_000, 0), (100, 0)),
        ("a sell 100 market by 2", "a 100 expires", (100_000, 0), (100, 0)),
        // A market buy needs the price of the offers that it meets. Other lots cost nothing.
        ("a buy 999 market by 2", "a 999 expires", (100_000, 0), (100, 0)),
        ("h sell 2@50000, a buy 999 market by 2", "h 2@50000, a 997 expires", (0, 0), (102, 0)),
        ("h sell 3@50000, a buy 999 market by 2", "refused not_enough_funds", (100_000, 0), (100, 0)),
        // Bought better than its limit: the difference was never spent.
        ("h sell 10@900, a buy 100@1000 by 2", "h 10@900", (91_000, 90_000), (110, 0)),
        // A resting order's reserve goes as it fills, at its own price.
        ("a buy 100@1000 by 2, h sell 40@1", "a 40@1000", (60_000, 60_000), (140, 0)),
        ("a sell 100@1000 by 2, h buy 40@9999", "a 40@1000", (140_000, 0), (60, 60)),
        ("a buy 100@1000 by 2, cancel a by 2", "a 100 cancelled", (100_000, 0), (100, 0)),
        ("a buy 100@1000 by 2 day, end day", "a 100 ends", (100_000, 0), (100, 0)),
        ("a buy 100@1000 by 2 ioc", "a 100 expires", (100_000, 0), (100, 0)),
        // An amend has its own reserve to spend.
        ("a buy 100@1000 by 2, amend a 50@2000 by 2", "a requeues 50", (100_000, 100_000), (100, 0)),
        ("a buy 100@1000 by 2, amend a 50@2001 by 2", "refused not_enough_funds", (100_000, 100_000), (100, 0)),
        ("a buy 100@1000 by 2, amend a 40@1000 by 2", "a keeps 40", (100_000, 40_000), (100, 0)),
        ("a sell 60@1000 by 2, amend a 100@1000 by 2", "a requeues 100", (100_000, 0), (100, 100)),
        ("a sell 60@1000 by 2, amend a 101@1000 by 2", "refused not_enough_funds", (100_000, 0), (100, 60)),
    ];
    for (commands, then, cents, shares) in table {
        let mut engines = EnginePair::new(100, 100);
        let outcome = engines.run(commands);
        assert_eq!((outcome.as_str(), member(&engines)), (then, [cents, shares]), "{commands}");
    }
}

#[test]
fn withdrawal_above_the_available_amount_is_refused() {
    let mut engines = EnginePair::new(100, 100);
    engines.run("a buy 60@1000 by 2");
    let most = 1_i128 << 100;
    for (units, refused) in [
        (-40_001, Some(Reject::NotEnoughFunds)),
        (-40_000, None),
        (-1, Some(Reject::NotEnoughFunds)),
        (most - 59_999, Some(Reject::AmountOverflow)),
        (most - 60_000, None),
        (i128::MIN, Some(Reject::AmountOverflow)),
        (i128::MAX, Some(Reject::AmountOverflow)),
    ] {
        let events = engines.apply(Command::Deposit { account: MEMBER, currency: ZAR, units });
        let outcome = match events[..] {
            [Event::CommandRefused { reason }] => Some(reason),
            [Event::Deposited { .. }] => None,
            _ => panic!("{events:?}"),
        };
        assert_eq!(outcome, refused, "{units}");
    }
    // A balance of nothing is where the most negative number has no counterpart.
    let events = engines.apply(Command::Deposit { account: AccountId(0), currency: ZAR, units: i128::MIN });
    assert_eq!(events, [Event::CommandRefused { reason: Reject::AmountOverflow }]);
}

fn limit(
    engines: &mut EnginePair,
    id: u64,
    account: AccountId,
    instrument: InstrumentId,
    side: Side,
    lots: u64,
    price: i64,
) -> Vec<Event> {
    engines.apply(Command::Enter(NewOrder {
        id: OrderId(id),
        account,
        instrument,
        side,
        order_type: OrderType::Limit { price: Ticks(price) },
        lots: Lots(lots),
        tif: TimeInForce::GoodTillCancel,
        label: Label::default(),
        ..NewOrder::PLAIN
    }))
}

fn refused_for_money(events: &[Event]) -> bool {
    matches!(events, [Event::Rejected { reason: Reject::NotEnoughFunds, .. }])
}

/// One lot at the mark of 1000 ticks is 2e9 / 1000 = 2,000,000 units; leverage 50 makes its margin
/// 40,000. A member of 2,000,000 units may therefore open 50 lots either way.
#[test]
fn perpetual_margin_covers_the_larger_side() {
    for (orders, refused) in [
        (&[(Side::Buy, 50, 1)][..], false),
        (&[(Side::Buy, 51, 1)], true),
        (&[(Side::Sell, 51, 9999)], true),
        (&[(Side::Buy, 50, 1), (Side::Buy, 1, 1)], true),
        // The other side adds nothing until it is the larger.
        (&[(Side::Buy, 50, 1), (Side::Sell, 50, 9999)], false),
        (&[(Side::Buy, 50, 1), (Side::Sell, 51, 9999)], true),
    ] {
        let mut engines = EnginePair::new(100, 100);
        let mut last = false;
        for (id, (side, lots, price)) in (1..).zip(orders) {
            last = refused_for_money(&limit(&mut engines, id, MEMBER, PERPETUAL, *side, *lots, *price));
        }
        assert_eq!(last, refused, "{orders:?}");
        engines.image();
    }
}

/// At a mark of 1003 one lot's margin is 2e9 / 50,150 = 39,880.36 units: 39,881.
#[test]
fn perpetual_margin_is_rounded_up() {
    for (units, refused) in [(39_880, true), (39_881, false)] {
        let mut engines = EnginePair::new(100, 100);
        limit(&mut engines, 1, AccountId(0), PERPETUAL, Side::Buy, 1, 1002);
        limit(&mut engines, 2, AccountId(0), PERPETUAL, Side::Sell, 1, 1005);
        // The index is 1000, and the own mid 1003 is within its band.
        engines.apply(Command::SampleIndex);
        engines.apply(Command::Deposit { account: MEMBER, currency: BTC, units: units - 2_000_000 });
        assert_eq!(refused_for_money(&limit(&mut engines, 3, MEMBER, PERPETUAL, Side::Buy, 1, 1)), refused, "{units}");
    }
}

/// At the mark of 1000 a lot is worth 2,000,000 units, at 500 twice that: who sells there loses
/// 2,000,000 at once, and may not owe what another could spend. A member of 2,000,000 units has
/// none left for the margin of 40,000.
#[test]
fn order_far_from_the_mark_must_cover_its_loss() {
    let loss_at = |price: i64| 2_000_000_000 / price - 2_000_000;
    for (side, lots, price, refused) in [
        (Side::Sell, 1, 500, true),
        (Side::Sell, 1, 1, true),
        (Side::Sell, 1, 999, false),
        // 2e9 / 505 - 2e6 = 1,960,396; with the margin 2,000,396 units: 396 too many. At 506 it
        // fits.
        (Side::Sell, 1, 505, true),
        (Side::Sell, 1, 506, false),
        // A buyer far below the mark gains, one far above it loses at most the lot's worth.
        (Side::Buy, 1, 1, false),
        (Side::Buy, 1, 4_000_000, true),
        // 40 lots: margin 1,600,000; at 1005 a loss of 8e7 - 79,601,990 = 398,010, at 1006 of
        // 477,138.
        (Side::Buy, 40, 1_005, false),
        (Side::Buy, 40, 1_006, true),
    ] {
        let mut engines = EnginePair::new(100, 100);
        let events = limit(&mut engines, 1, MEMBER, PERPETUAL, side, lots, price);
        assert_eq!(refused_for_money(&events), refused, "{side:?} {lots} at {price}, loss {}", loss_at(price));
        engines.image();
    }
}

/// A position can always be closed, but not at any price: an absurd bid of a partner must not turn
/// a small long position into a large profit.
#[test]
fn position_cannot_be_closed_at_an_absurd_price() {
    for (price, refused) in [(999, false), (950, false), (500, true), (1, true)] {
        let mut engines = EnginePair::new(100, 100);
        limit(&mut engines, 1, AccountId(0), PERPETUAL, Side::Sell, 10, 1000);
        limit(&mut engines, 2, MEMBER, PERPETUAL, Side::Buy, 10, 1000);
        limit(&mut engines, 3, AccountId(0), PERPETUAL, Side::Buy, 10, price);
        let events = limit(&mut engines, 4, MEMBER, PERPETUAL, Side::Sell, 10, price);
        assert_eq!(refused_for_money(&events), refused, "{price}");
    }
}

#[test]
fn perpetual_profit_is_paid_in_the_settlement_currency() {
    let mut engines = EnginePair::new(100, 100);
    let house = AccountId(0);
    limit(&mut engines, 1, house, PERPETUAL, Side::Sell, 10, 1000);
    limit(&mut engines, 2, MEMBER, PERPETUAL, Side::Buy, 10, 1000);
    // Long 10 lots, bought for 2e9 · 10 / 1000.
    let held = engines.engine().account(MEMBER).expect("defined").position(PERPETUAL);
    assert_eq!((held.lots, held.entry_value, held.realized), (10, 20_000_000, 0));

    limit(&mut engines, 3, house, PERPETUAL, Side::Buy, 4, 1001);
    limit(&mut engines, 4, MEMBER, PERPETUAL, Side::Sell, 4, 1001);
    // Four tenths of 20,000,000 leave; they are worth ⌊8e9 / 1001⌋ = 7,992,007 now.
    let account = engines.engine().account(MEMBER).expect("defined");
    let held = account.position(PERPETUAL);
    assert_eq!((held.lots, held.entry_value, held.realized), (6, 12_000_000, 7_993));
    assert_eq!(account.balance(BTC).total, 2_000_000 + 7_993);
    let other = engines.engine().account(house).expect("defined").balance(BTC).total;
    assert_eq!(other, -7_993);

    limit(&mut engines, 5, house, PERPETUAL, Side::Buy, 10, 1001);
    limit(&mut engines, 6, MEMBER, PERPETUAL, Side::Sell, 10, 1001);
    // ⌊2e10 / 1001⌋ = 19,980,019; six tenths of it, 11,988,011, close the long, and the rest opens
    // a short.
    let held = engines.engine().account(MEMBER).expect("defined").position(PERPETUAL);
    assert_eq!((held.lots, held.entry_value, held.realized), (-4, 7_992_008, 7_993 + 11_989));
    engines.image();
}

#[test]
fn mark_stays_within_half_a_percent_of_the_index() {
    // index book        own book         index  mark
    for (bids_asks, own, index, mark) in [
        (None, None, 1000, 1000),
        (Some((1000, 1003)), None, 1001, 1000),
        (Some((2000, 2002)), None, 2001, 1991), // own mid 1000 is too low: 2001 - ⌊2001/200⌋
        (Some((400, 402)), None, 401, 403),
        (Some((1000, 1002)), Some((1002, 1005)), 1001, 1003),
        (Some((1000, 1002)), Some((1020, 1024)), 1001, 1006),
        (Some((100, 102)), Some((1, 3)), 101, 101), // half a percent of 101 is below one tick
    ] {
        let mut engines = EnginePair::new(100, 100);
        let mut id = 0;
        for (instrument, quotes) in [(BTC_USDC, bids_asks), (PERPETUAL, own)] {
            for (side, price) in quotes.into_iter().flat_map(|(bid, ask)| [(Side::Buy, bid), (Side::Sell, ask)]) {
                id += 1;
                limit(&mut engines, id, AccountId(0), instrument, side, 1, price);
            }
        }
        let events = engines.apply(Command::SampleIndex);
        let due = Event::IndexSampled { instrument: PERPETUAL, index: Ticks(index), mark: Ticks(mark) };
        assert_eq!(events, [due], "{bids_asks:?} {own:?}");
    }
}

#[test]
fn trade_with_the_own_account_changes_no_balance() {
    let mut engines = EnginePair::new(100, 100);
    assert_eq!(engines.run("a sell 10@500 by 2, b buy 10@500 by 2"), "a 10@500");
    assert_eq!(member(&engines), [(100_000, 0), (100, 0)]);
    assert_eq!(engines.engine().market(NPN_ZAR).expect("defined").trades().0, 1);
}
