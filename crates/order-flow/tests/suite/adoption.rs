//! Restart of a venue: a new flow adopts the house orders of the previous run, and none outlives
//! its lifetime.

use crate::venue::{SECOND, START, Venue, house};
use pitwire_model::{
    AccountId, Command, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Phase, Side, TimeInForce, VenueNanos,
};
use pitwire_order_flow::{Flow, FlowConfig, FlowStyle};

/// Time in seconds that outlasts several thousand orders with a mean lifetime of 240 s: the
/// probability that one of
/// 4000 survives is below 4000 · e^-20.
const LONG: u64 = 4800;

fn house_orders(venue: &Venue) -> Vec<(OrderId, InstrumentId, AccountId)> {
    let orders = house().into_iter().flat_map(|account| venue.engine.orders_of(account));
    orders.map(|order| (order.id, order.instrument, order.account)).collect()
}

/// Runs a flow for some seconds, drops it and starts a new flow on the same engine.
fn recovered(seconds: u64, narrow: impl Fn(&mut FlowConfig)) -> Venue {
    let mut venue = Venue::demo(21);
    venue.run_until(seconds);
    let mut config = FlowConfig::demo(&venue.engine, house());
    narrow(&mut config);
    let now = VenueNanos(START.0 + seconds * SECOND);
    let flow = Flow::new(config, 22, now, &venue.engine).unwrap();
    Venue::with(venue.engine, flow, venue.seq)
}

#[test]
fn orders_of_a_previous_run_are_cancelled_or_filled() {
    let mut venue = recovered(300, |_| ());
    let earlier = house_orders(&venue);
    assert!(earlier.len() > 2000, "{}", earlier.len());
    let mids: Vec<i64> = venue.engine.markets().iter().map(|market| market.mid().0).collect();
    venue.run_until(301);
    for (market, before) in venue.engine.markets().iter().zip(mids) {
        // The price continues from its previous level.
        let jump = (market.mid().0 - before).abs();
        assert!(jump * 500 < before, "{}: jumped by {jump}", market.spec.name);
    }
    // Lifetimes are exponential, so some of the orders must survive the first 60 seconds.
    venue.run_until(300 + 60);
    let alive = |venue: &Venue| earlier.iter().filter(|(id, ..)| venue.engine.order(*id).is_some()).count();
    assert!(alive(&venue) * 5 > earlier.len(), "{} of {}", alive(&venue), earlier.len());
    venue.run_until(300 + LONG);
    assert_eq!(alive(&venue), 0);
    assert!(venue.engine.markets().iter().all(|market| market.best(Side::Buy).is_some()));
}

#[test]
fn instruments_without_flow_lose_their_house_orders() {
    let keep_one = |config: &mut FlowConfig| {
        if let FlowStyle::Demo(markets) = &mut config.style {
            markets.truncate(1);
        }
    };
    let mut venue = recovered(120, keep_one);
    venue.run_until(120 + LONG);
    assert!(house_orders(&venue).iter().all(|(_, instrument, _)| *instrument == InstrumentId(0)));
}

#[test]
fn every_house_order_ends_after_entries_stop() {
    // After entries stop, every house order except the makers' quotes must end by itself.
    let mut venue = Venue::demo(23);
    venue.run_until(300);
    // This order of a house account trades first and then rests with its remaining quantity.
    let market = &venue.engine.markets()[4];
    let (price, there) = market.best(Side::Sell).unwrap();
    let (tif, label) = (TimeInForce::GoodTillCancel, Label::default());
    let crossing = NewOrder {
        id: OrderId(0),
        account: AccountId(5),
        instrument: market.spec.id,
        side: Side::Buy,
        order_type: OrderType::Limit { price },
        lots: Lots(there.0 + 1000),
        tif,
        label,
        ..NewOrder::PLAIN
    };
    venue.submit(VenueNanos(START.0 + 300 * SECOND), Command::Enter(crossing));
    assert!(venue.engine.order(OrderId(venue.seq.0)).is_some_and(|order| order.open == Lots(1000)));
    for at in 0..11 {
        let command = Command::SetPhase { instrument: InstrumentId(at), phase: Phase::Halted };
        venue.submit(VenueNanos(START.0 + 300 * SECOND), command);
    }
    venue.run_until(300 + LONG);
    let left = house_orders(&venue);
    let makers = &house()[..2];
    assert!(left.iter().all(|(.., account)| makers.contains(account)), "{} orders left", left.len());
    assert!(left.len() <= 11 * 2 * 9, "{} quotes", left.len());
}
