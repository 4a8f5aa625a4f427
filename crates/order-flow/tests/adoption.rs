//! A venue that comes back: orders of an earlier life are taken charge of, and none outlives its
//! time.

mod venue;

use pitwire_model::{
    AccountId, Command, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Phase, Side, TimeInForce, VenueNanos,
};
use pitwire_order_flow::{Flow, FlowConfig, FlowStyle};
use venue::{SECOND, START, Venue, house};

/// Longer than any of some thousand lifetimes of 240 s: one outlives it with a probability of 4000
/// · e^-20.
const LONG: u64 = 4800;

fn house_orders(venue: &Venue) -> Vec<(OrderId, InstrumentId, AccountId)> {
    let orders = house().into_iter().flat_map(|account| venue.engine.orders_of(account));
    orders.map(|order| (order.id, order.instrument, order.account)).collect()
}

/// Runs for a while, then forgets the flow and begins a new one with what the engine holds.
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
fn orders_of_an_earlier_life_are_cancelled_or_filled() {
    let mut venue = recovered(300, |_| ());
    let earlier = house_orders(&venue);
    assert!(earlier.len() > 2000, "{}", earlier.len());
    let mids: Vec<i64> = venue.engine.markets().iter().map(|market| market.mid().0).collect();
    venue.run_until(301);
    for (market, before) in venue.engine.markets().iter().zip(mids) {
        // The price goes on from where it was.
        let jump = (market.mid().0 - before).abs();
        assert!(jump * 500 < before, "{}: jumped by {jump}", market.spec.name);
    }
    // A lifetime later some must be left: memoryless does not mean at once.
    venue.run_until(300 + 60);
    let alive = |venue: &Venue| earlier.iter().filter(|(id, ..)| venue.engine.order(*id).is_some()).count();
    assert!(alive(&venue) * 5 > earlier.len(), "{} of {}", alive(&venue), earlier.len());
    venue.run_until(300 + LONG);
    assert_eq!(alive(&venue), 0);
    assert!(venue.engine.markets().iter().all(|market| market.best(Side::Buy).is_some()));
}

#[test]
fn instruments_without_flow_lose_the_house_orders_they_had() {
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
fn no_order_is_orphaned() {
    // Once entries stop, everything but the makers' quotes must go by itself.
    let mut venue = Venue::demo(23);
    venue.run_until(300);
    // One order of a house account that trades first and rests with what is left.
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
