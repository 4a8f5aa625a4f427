//! Commands that were journaled under an earlier rule version replay unchanged, although later
//! versions treat some orders differently. The auditor agrees if it follows the same version, and
//! disagrees otherwise.

use crate::common::world::{MEMBERS, NPN_ZAR, Stamper, apply, opening_commands};
use pitwire_auditor::Auditor;
use pitwire_engine::{Engine, RULE_VERSION};
use pitwire_model::{
    CancelReason, Command, Event, Lots, NewOrder, OrderId, OrderType, Phase, PostOnly, Reject, Side, Ticks, TimeInForce,
};

struct RuleWorld {
    engine: Engine,
    auditor: Auditor,
    stamper: Stamper,
}

impl RuleWorld {
    fn under(rules: u16) -> RuleWorld {
        let mut pair = RuleWorld { engine: Engine::new(), auditor: Auditor::new(), stamper: Stamper::default() };
        pair.follow(rules);
        for command in opening_commands(10, 100) {
            pair.apply(command);
        }
        let bid = limit(Side::Buy, TimeInForce::GoodTillCancel);
        pair.apply(Command::Enter(NewOrder { id: OrderId(1), ..bid }));
        pair
    }

    fn follow(&mut self, rules: u16) {
        self.engine.follow(rules);
        self.auditor.set_rule_version(rules);
    }

    fn apply(&mut self, command: Command) -> Vec<Event> {
        let stamped = self.stamper.stamp(command);
        let events = apply(&mut self.engine, &stamped);
        self.auditor.observe(&stamped, &events).unwrap_or_else(|offence| panic!("{offence}: {events:?}"));
        events
    }

    fn enter(&mut self, order: NewOrder) -> Vec<Event> {
        self.apply(Command::Enter(order))
    }
}

fn limit(side: Side, tif: TimeInForce) -> NewOrder {
    let (id, account) = (OrderId(2), MEMBERS[usize::from(side == Side::Sell)]);
    let order_type = OrderType::Limit { price: Ticks(100) };
    NewOrder { id, account, instrument: NPN_ZAR, side, order_type, lots: Lots(3), tif, ..NewOrder::PLAIN }
}

fn market_gtc() -> NewOrder {
    let order = limit(Side::Sell, TimeInForce::GoodTillCancel);
    NewOrder { order_type: OrderType::Market, lots: Lots(5), ..order }
}

fn refused(events: &[Event]) -> Option<Reject> {
    match events {
        [Event::Rejected { reason, .. }] => Some(*reason),
        _ => None,
    }
}

#[test]
fn gtc_market_order_of_version_1_replays_unchanged() {
    let mut first = RuleWorld::under(1);
    let events = first.enter(market_gtc());
    let tif = TimeInForce::GoodTillCancel;
    assert!(matches!(events[0], Event::Accepted { tif: of, order_type: OrderType::Market, .. } if of == tif));
    assert!(matches!(events[1], Event::Trade { lots: Lots(3), taker_open: Lots(2), .. }));
    let reason = CancelReason::ImmediateRemainder;
    let expired = |event: &Event| matches!(event, Event::Cancelled { open: Lots(2), reason: of, .. } if *of == reason);
    assert!(events.iter().any(expired), "{events:?}");
    assert_eq!(refused(&RuleWorld::under(RULE_VERSION).enter(market_gtc())), Some(Reject::TifNotAllowedForType));
}

#[test]
fn gtc_market_order_of_version_1_is_refused_in_a_halt() {
    for rules in [1, RULE_VERSION] {
        let mut pair = RuleWorld::under(rules);
        pair.apply(Command::SetPhase { instrument: NPN_ZAR, phase: Phase::Halted });
        assert_eq!(refused(&pair.enter(market_gtc())), Some(Reject::NotOpen));
    }
}

#[test]
fn version_1_checks_post_only_before_display() {
    for tif in [TimeInForce::ImmediateOrCancel, TimeInForce::FillOrKill] {
        let order = NewOrder { post_only: PostOnly::Reject, display: Some(Lots(1)), ..limit(Side::Sell, tif) };
        let display_alone = NewOrder { post_only: PostOnly::No, ..order.clone() };
        assert_eq!(refused(&RuleWorld::under(1).enter(order.clone())), Some(Reject::PostOnlyNotAllowed));
        assert_eq!(refused(&RuleWorld::under(1).enter(display_alone)), Some(Reject::DisplayOutOfRange));
        assert_eq!(refused(&RuleWorld::under(RULE_VERSION).enter(order)), Some(Reject::DisplayOutOfRange));
    }
}

#[test]
fn commands_after_old_groups_follow_the_new_rules() {
    let mut pair = RuleWorld::under(1);
    pair.follow(RULE_VERSION);
    assert_eq!(refused(&pair.enter(market_gtc())), Some(Reject::TifNotAllowedForType));
    assert_eq!(pair.engine.image(), Engine::from_image(pair.engine.image()).expect("an image").image());
}

#[test]
fn smallest_display_counts_from_version_4_on() {
    let small = NewOrder { lots: Lots(101), display: Some(Lots(1)), ..limit(Side::Buy, TimeInForce::Day) };
    assert_eq!(refused(&RuleWorld::under(3).enter(small.clone())), None);
    assert_eq!(refused(&RuleWorld::under(RULE_VERSION).enter(small)), Some(Reject::DisplayOutOfRange));
}

#[test]
fn reduce_only_counts_from_version_3_on() {
    let order = NewOrder { reduce_only: true, ..limit(Side::Buy, TimeInForce::Day) };
    assert_eq!(refused(&RuleWorld::under(2).enter(order.clone())), None);
    assert_eq!(refused(&RuleWorld::under(RULE_VERSION).enter(order)), Some(Reject::ReduceOnlyNotAllowed));
}
