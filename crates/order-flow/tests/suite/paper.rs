//! The published flow on a real engine.

use crate::venue::{SECOND, START, Venue, closed_engine, engine, house};
use pitwire_model::{Command, InstrumentId, Lots, OrderType, Seq, Side, Ticks, VenueNanos};
use pitwire_order_flow::{Flow, FlowConfig, ParameterSet};

const INSTRUMENT: InstrumentId = InstrumentId(3);

fn paper(reading: ParameterSet, seed: u64, open: bool) -> Venue {
    let engine = if open { engine() } else { closed_engine() };
    let config = FlowConfig::paper(INSTRUMENT, house(), reading);
    let flow = Flow::new(config, seed, START, &engine).unwrap();
    Venue::with(engine, flow, Seq(1000))
}

#[test]
fn events_per_hour_match_the_theory_of_each_reading() {
    for (reading, per_second, radius) in [(ParameterSet::File, 30.93, 0.617), (ParameterSet::AsLoaded, 31.08, 0.612)] {
        let mut venue = paper(reading, 8, true);
        venue.run_until(3600);
        let counts = venue.flow.counts();
        let realised = counts.events as f64 / 3600.0;
        println!("{reading:?}: {realised:.2}/s, {counts:?}, {} resting", venue.engine.live_orders());
        // The standard deviation over an hour is 0.8 %.
        assert!((realised / per_second - 1.0).abs() < 0.025, "{realised}");
        assert!((venue.flow.expected_events_per_second() - per_second).abs() < 0.005);
        assert!((venue.flow.radius() - radius).abs() < 0.0005);
        // The flow starts with two orders. After that each event is an order or counts as
        // infeasible.
        assert_eq!(counts.commands, counts.events - counts.infeasible + 2);
    }
}

#[test]
fn book_state_does_not_change_event_times() {
    let times = |open| {
        let mut venue = paper(ParameterSet::File, 9, open);
        let due = std::iter::from_fn(|| {
            let due = venue.flow.next_due();
            venue.step();
            due
        });
        let times: Vec<VenueNanos> = due.filter(|due| due.0 > START.0 + SECOND / 1000).take(20_000).collect();
        (times, venue.flow.counts())
    };
    let ((open, _), (closed, counts)) = (times(true), times(false));
    assert_eq!(open, closed);
    assert_eq!((counts.infeasible, counts.commands), (counts.events, 0));
}

#[test]
fn orders_have_the_published_shapes() {
    let mut venue = paper(ParameterSet::AsLoaded, 10, true);
    let (mut market_orders, mut limits, mut outside, mut odd) = (0, 0, 0, 0);
    while market_orders + limits < 30_000 {
        let Some(stamped) = venue.step() else { continue };
        let Command::Enter(order) = stamped.command else { panic!("the published flow has no cancels") };
        match order.order_type {
            OrderType::Market => {
                market_orders += 1;
                odd += u32::from(order.lots.0 % 100 != 0);
            }
            OrderType::Limit { price: Ticks(price) } => {
                limits += 1;
                outside += u32::from(match order.side {
                    Side::Buy => price < 25_000,
                    Side::Sell => price > 25_100,
                });
            }
            other => panic!("the published flow has no {other:?}"),
        }
        assert!(order.lots > Lots(0) && order.instrument == INSTRUMENT);
    }
    // When no sample fell within the bounds, the flow sent the mean instead and counted a
    // substitution.
    assert!(u64::from(outside + odd) <= venue.flow.counts().substituted);
    // By their rates, 46.5 % of the events belong to the four market order types (1, 2, 5, 6).
    let share = f64::from(market_orders) / f64::from(market_orders + limits);
    println!("market orders {share:.3}, outside {outside}, odd {odd}, {:?}", venue.flow.counts());
    assert!((share - 0.4645).abs() < 0.02, "{share}");
}
