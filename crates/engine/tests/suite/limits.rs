//! Limits of orders, as tables: quantity, notional, collar, open orders, credit. Sums are computed
//! by hand. NPN_ZAR costs one cent for a lot at a price of one tick; it starts
//! at 1000 ticks.

use crate::common;
use crate::common::rows::{EnginePair, check};
use crate::common::world::{BTC_USDC, NPN_ZAR, PERPETUAL, ZAR};
use pitwire_model::{
    AccountId, AccountSettings, Command, Event, InstrumentId, InstrumentLimits, Lots, MatchGroup, NewOrder, OrderId,
    OrderType, Reject, Side, Throttle, Ticks,
};

#[test]
fn order_above_the_quantity_limit_is_refused() {
    check(
        "
        limit lots 9                | x buy 9@100                  | -                             | x 9@100  | -
        limit lots 9                | x buy 10@100                 | refused quantity_above_limit  | -        | -
        limit lots 9                | x buy 10@100 ioc             | refused quantity_above_limit  | -        | -
        limit lots 9                | x sell 10 market             | refused quantity_above_limit  | -        | -
        limit notional 900          | x buy 9@100                  | -                             | x 9@100  | -
        limit notional 900          | x buy 9@101                  | refused notional_above_limit  | -        | -
        limit notional 900          | x sell 901@1                 | refused notional_above_limit  | -        | -
        limit lots 9 notional 900   | x buy 10@1000                | refused quantity_above_limit  | -        | -
        a buy 20@100, limit lots 9  | -                            | -                             | a 20@100 | -
        a buy 5@100, limit lots 9   | amend a 9@100                | a requeues 9                  | a 9@100  | -
        a buy 5@100, limit lots 9   | amend a 10@100               | refused quantity_above_limit  | a 5@100  | -
        a buy 20@100, limit lots 9  | amend a 20@101               | refused quantity_above_limit  | a 20@100 | -
        a buy 20@100, limit lots 9  | amend a 15@100               | a keeps 15                    | a 15@100 | -
        a buy 20@100, limit lots 9  | replace a 15@100             | a requeues 15                 | a 15@100 | -
        a buy 20@100, limit notional 900 | amend a 15@100          | a keeps 15                    | a 15@100 | -
        a buy 20@100, x sell 12@100, limit lots 9 | amend a 20@101 | a requeues 8                  | a 8@101  | -
        limit lots 9, limit         | x buy 10@100                 | -                             | x 10@100 | -
        limit lots 9, halt          | x buy 10@100                 | refused not_open              | -        | -",
    );
}

/// Offers of 2 at 100 and 5 at 200: ten lots at any price are 2 × 100 + 5 × 200 = 1,200.
#[test]
fn market_order_counts_at_displayed_prices() {
    const OFFERS: &str = "a sell 2@100, b sell 20@200 show 5";
    check(&format!("
        {OFFERS}, limit notional 1200 | x buy 7 market    | a 2@100, b 5@200, b shows 5               | - | b 5+10@200
        {OFFERS}, limit notional 1199 | x buy 7 market    | refused notional_above_limit              | - | a 2@100, b 5+15@200
        {OFFERS}, limit notional 1200 | x buy 10 market   | a 2@100, b 5@200, b shows 5, b 3@200      | - | b 2+10@200
        {OFFERS}, limit notional 1    | x sell 999 market | x 999 expires                             | - | a 2@100, b 5+15@200
        {OFFERS}, limit notional 1    | x sell 1@1        | -                                         | - | x 1@1, a 2@100, b 5+15@200"));
}

/// Offers beyond the collar's edge of 1050 need no funds: 2 × 1050 = 2,100.
#[test]
fn market_order_counts_up_to_the_collar() {
    const OFFERS: &str = "a sell 2@1050, b sell 2@2000";
    check(&format!("
        {OFFERS}, limit collar 500 notional 2100 | x buy 4 market | a 2@1050, x 2 expires        | - | b 2@2000
        {OFFERS}, limit collar 500 notional 2099 | x buy 4 market | refused notional_above_limit | - | a 2@1050, b 2@2000"));
}

/// From a reference of 1000: 5 % up is 1050; 1 basis point of it is 0.1 tick, so ⌊1000.1⌋ and
/// ⌈999.9⌉. After a trade at 333, 1 % is 3.33 ticks: ⌊336.33⌋ = 336 and ⌈329.67⌉ = 330.
#[test]
fn collar_bounds_prices_on_the_bad_side() {
    check(
        "
        limit collar 500                  | x buy 1@1050   | -                          | x 1@1050 | -
        limit collar 500                  | x buy 1@1051   | refused price_above_collar | -        | -
        limit collar 500                  | x sell 1@950   | -                          | -        | x 1@950
        limit collar 500                  | x sell 1@949   | refused price_below_collar | -        | -
        limit collar 500                  | x buy 1@1      | -                          | x 1@1    | -
        limit collar 500                  | x sell 1@99999 | -                          | -        | x 1@99999
        limit collar 1                    | x buy 1@1000   | -                          | x 1@1000 | -
        limit collar 1                    | x buy 1@1001   | refused price_above_collar | -        | -
        limit collar 1                    | x sell 1@1000  | -                          | -        | x 1@1000
        limit collar 1                    | x sell 1@999   | refused price_below_collar | -        | -
        limit collar 0                    | x sell 1@1000  | -                          | -        | x 1@1000
        limit collar 9999                 | x sell 1@1     | -                          | -        | x 1@1
        a buy 1@333, b sell 1@333, limit collar 100 | x buy 1@336  | -                          | x 1@336 | -
        a buy 1@333, b sell 1@333, limit collar 100 | x buy 1@337  | refused price_above_collar | - | -
        a buy 1@333, b sell 1@333, limit collar 100 | x sell 1@330 | -                          | - | x 1@330
        a buy 1@333, b sell 1@333, limit collar 100 | x sell 1@329 | refused price_below_collar | - | -
        a buy 1@1, b sell 1@1, limit collar 9999    | x sell 1@1   | -                          | - | x 1@1
        a sell 1@1060, limit collar 500   | x buy 1@1070 reprice | refused price_above_collar | - | a 1@1060
        a sell 1@1040, limit collar 500   | x buy 1@1070 reprice | -                      | x 1@1039 | a 1@1040
        a buy 1@1000, limit collar 500    | amend a 1@1051 | refused price_above_collar | a 1@1000 | -
        a buy 3@2000, limit collar 500    | amend a 2@2000 | a keeps 2                  | a 2@2000 | -",
    );
}

#[test]
fn a_market_order_trades_inside_the_collar_and_expires_at_its_edge() {
    const OFFERS: &str = "a sell 2@1050, b sell 2@1051, limit collar 500";
    const BIDS: &str = "a buy 2@950, b buy 2@949, limit collar 500";
    check(&format!(
        "
        {OFFERS} | x buy 3 market      | a 2@1050, x 1 expires | - | b 2@1051
        {OFFERS} | x buy 2 market      | a 2@1050              | - | b 2@1051
        {OFFERS} | x buy 3 market fok  | x 3 killed            | - | a 2@1050, b 2@1051
        {OFFERS} | x buy 2 market fok  | a 2@1050              | - | b 2@1051
        {BIDS}   | x sell 3 market     | a 2@950, x 1 expires  | b 2@949 | -
        a sell 2@4294967295, b buy 1@4294967294, c sell 1@4294967294, limit collar 500 | x buy 2 market | a 2@4294967295 | - | -"
    ));
}

/// A perpetual counts in settlement units: 2e9 · lots / price. Ten lots at 1001 are ⌊2e10 / 1001⌋ =
/// 19,980,019.
#[test]
fn inverse_notional_is_rounded_down() {
    for (most, price, refused) in [(19_980_019, 1001, false), (19_980_018, 1001, true), (20_000_000, 1000, false)] {
        let mut engines = EnginePair::new(100, 100);
        limit_to(&mut engines, PERPETUAL, InstrumentLimits { max_notional_units: Some(most), ..Default::default() });
        let order = limit(1, AccountId(0), PERPETUAL, Side::Buy, 10, price);
        assert_eq!(rejected(&engines.apply(order)), refused.then_some(Reject::NotionalAboveLimit), "{most} at {price}");
    }
    // A market order counts whole at the worst visible price it reaches: 10 · 2e9 / 1001, though 4
    // trade at 1000.
    for (most, refused) in [(19_980_018, true), (19_980_019, false)] {
        let mut engines = EnginePair::new(100, 100);
        engines.apply(limit(1, AccountId(0), PERPETUAL, Side::Sell, 4, 1000));
        engines.apply(limit(2, AccountId(0), PERPETUAL, Side::Sell, 4, 1001));
        limit_to(&mut engines, PERPETUAL, InstrumentLimits { max_notional_units: Some(most), ..Default::default() });
        let events = engines.apply(market(3, AccountId(1), PERPETUAL, Side::Buy, 10));
        assert_eq!(rejected(&events), refused.then_some(Reject::NotionalAboveLimit), "{most}");
    }
}

#[test]
fn invalid_limits_are_refused() {
    let none = InstrumentLimits::default();
    for limits in [
        InstrumentLimits { max_lots: Some(Lots(0)), ..none },
        InstrumentLimits { max_notional_units: Some(0), ..none },
        InstrumentLimits { max_notional_units: Some(-1), ..none },
        InstrumentLimits { collar_bps: Some(10_000), ..none },
    ] {
        let mut engines = EnginePair::new(100, 100);
        assert_eq!(limit_to(&mut engines, NPN_ZAR, limits), [refused(Reject::BadDefinition)]);
        let mut spec = common::world::instrument(BTC_USDC, 10);
        (spec.id, spec.name, spec.limits) = (InstrumentId(3), "NEW".to_owned(), limits);
        assert_eq!(engines.apply(Command::AddInstrument(Box::new(spec))), [refused(Reject::BadDefinition)]);
    }
    let mut engines = EnginePair::new(100, 100);
    assert_eq!(limit_to(&mut engines, InstrumentId(9), none), [refused(Reject::UnknownInstrument)]);
    for throttle in [Throttle { executions: 0, window_ns: 5 }, Throttle { executions: 5, window_ns: 0 }] {
        let settings = AccountSettings { throttle: Some(throttle), ..Default::default() };
        let events = engines.apply(Command::SetAccount { account: AccountId(0), settings });
        assert_eq!(events, [refused(Reject::BadDefinition)]);
        let mut spec = common::world::account(6, "new", pitwire_model::Credit::Limited);
        spec.settings = settings;
        assert_eq!(engines.apply(Command::AddAccount(spec)), [refused(Reject::BadDefinition)]);
    }
    let settings = AccountSettings::default();
    let events = engines.apply(Command::SetAccount { account: AccountId(9), settings });
    assert_eq!(events, [refused(Reject::UnknownAccount)]);
}

#[test]
fn order_above_the_open_order_limit_is_refused() {
    const TWO: &str = "set account 0 open 2, a buy 5@100, b buy 5@99";
    check(&format!(
        "
        {TWO} | x buy 1@98                         | refused too_many_open_orders | a 5@100, b 5@99 | -
        {TWO} | x buy 1@98 by 1                    | -                            | a 5@100, b 5@99, x 1@98 | -
        {TWO} | x buy 1@98 ioc                     | x 1 expires                  | a 5@100, b 5@99 | -
        {TWO} | x sell 1 market                    | a 1@100                      | a 4@100, b 5@99 | -
        {TWO} | cancel b, x buy 1@98               | b 5 cancelled                | a 5@100, x 1@98 | -
        {TWO} | y sell 5@100 by 1, x buy 1@98      | a 5@100                      | b 5@99, x 1@98  | -
        {TWO} | y sell 4@100 by 1, x buy 1@98      | a 4@100, refused too_many_open_orders | a 1@100, b 5@99 | -
        {TWO} | amend a 6@101, replace b 1@1       | a requeues 6, b requeues 1   | a 6@101, b 1@1  | -
        {TWO} | amend a 6@101, x buy 1@98          | a requeues 6, refused too_many_open_orders | a 6@101, b 5@99 | -
        {TWO} | set account 0, x buy 1@98          | -                            | a 5@100, b 5@99, x 1@98 | -
        {TWO} | set account 0 open 1, cancel a, x buy 1@98 | a 5 cancelled, refused too_many_open_orders | b 5@99 | -
        set account 0 open 1, a sell 5@100 guarded | x buy 6@100 guarded | refused too_many_open_orders | - | a 5@100
        set account 0 open 0                       | x buy 6@100         | refused too_many_open_orders | - | -
        set account 0 open 1, a sell 5@100 guarded by 0, b sell 5@99 guarded by 1, set account 1 open 1 | c buy 1@100 guarded by 1 ioc, d buy 1@1 by 1 | b 5 meets itself, a 1@100 | d 1@1 | a 4@100"
    ));
}

/// A member has 100,000 cents and a credit line of 50,000. Its orders may reserve 150,000, and it
/// may withdraw the rest of both.
#[test]
fn credit_line_can_be_spent() {
    let member = AccountId(2);
    let line = |units| Command::SetCreditLine { account: member, currency: ZAR, units };
    for (units, lots, refusal) in [(0, 101, true), (50_000, 150, false), (50_000, 151, true)] {
        let mut engines = EnginePair::new(100, 100);
        assert_eq!(engines.apply(line(units)), [Event::CreditLineSet { account: member, currency: ZAR, units }]);
        let events = engines.apply(limit(1, member, NPN_ZAR, Side::Buy, lots, 1000));
        assert_eq!(rejected(&events), refusal.then_some(Reject::NotEnoughFunds), "{units} {lots}");
        engines.image();
    }
    let mut engines = EnginePair::new(100, 100);
    engines.apply(line(50_000));
    engines.apply(limit(1, member, NPN_ZAR, Side::Buy, 120, 1000));
    engines.apply(limit(2, AccountId(0), NPN_ZAR, Side::Sell, 120, 1000));
    let account = engines.engine().account(member).expect("defined");
    assert_eq!((account.balance(ZAR).total, account.credit_line(ZAR)), (-20_000, 50_000));
    assert_eq!(engines.engine().available(member, ZAR), 30_000);
    engines.apply(line(0));
    assert_eq!(engines.engine().available(member, ZAR), -20_000);
    for (command, reason) in [
        (line(-1), Reject::BadDefinition),
        (line((1 << 100) + 1), Reject::AmountOverflow),
        (Command::SetCreditLine { account: AccountId(9), currency: ZAR, units: -1 }, Reject::UnknownAccount),
        (
            Command::SetCreditLine { account: member, currency: pitwire_model::CurrencyId(9), units: -1 },
            Reject::UnknownCurrency,
        ),
    ] {
        assert_eq!(engines.apply(command), [refused(reason)]);
    }
}

/// The member's own offer would be cancelled, so the order needs funds for the offers behind it:
/// ten lots at 1000 for a member with 10,000 cents.
#[test]
fn market_order_pays_for_lots_behind_its_own_orders() {
    for (price, due) in [(1000, None), (1001, Some(Reject::NotEnoughFunds))] {
        let mut engines = EnginePair::new(100, 10);
        let member = AccountId(2);
        engines.apply(limit(1, member, NPN_ZAR, Side::Sell, 10, 1));
        engines.apply(limit(2, AccountId(0), NPN_ZAR, Side::Sell, 10, price));
        assert_eq!(rejected(&engines.apply(market(3, member, NPN_ZAR, Side::Buy, 10))), due, "{price}");
        assert!(engines.engine().available(member, ZAR) >= 0);
        engines.image();
    }
}

fn limit(id: u64, account: AccountId, instrument: InstrumentId, side: Side, lots: u64, price: i64) -> Command {
    let order_type = OrderType::Limit { price: Ticks(price) };
    let id = OrderId(id);
    Command::Enter(NewOrder { id, account, instrument, side, lots: Lots(lots), order_type, ..NewOrder::PLAIN })
}

fn market(id: u64, account: AccountId, instrument: InstrumentId, side: Side, lots: u64) -> Command {
    let match_group = MatchGroup::Account;
    let id = OrderId(id);
    Command::Enter(NewOrder { id, account, instrument, side, lots: Lots(lots), match_group, ..NewOrder::PLAIN })
}

fn limit_to(engines: &mut EnginePair, instrument: InstrumentId, limits: InstrumentLimits) -> Vec<Event> {
    engines.apply(Command::SetInstrumentLimits { instrument, limits })
}

fn rejected(events: &[Event]) -> Option<Reject> {
    match events {
        [Event::Rejected { reason, .. }] => Some(*reason),
        _ => None,
    }
}

fn refused(reason: Reject) -> Event {
    Event::CommandRefused { reason }
}
