//! What is due at a time of its own: filters, batches, expiries; and the end of what is counted.

use super::*;

#[test]
fn hidden_orders_are_filtered_on_the_half_minute_while_they_rest() {
    let mut house = House::fresh(&["FOREVER", "MAIN", "ALWAYS"], on(0, "08:25:10"));
    house.run(on(0, "08:25:10"));
    house.said();
    for id in [2, 0] {
        house.hall.markets[id].hidden = true;
        let id = InstrumentId(u32::try_from(id).unwrap());
        house.scheduler.arrived(id, true, None, &house.hall);
    }
    house.run(on(0, "08:26"));
    house.hall.markets[0].hidden = false;
    house.run(on(0, "08:26:30"));
    house.hall.markets[2].hidden = false;
    house.run(on(0, "08:28"));
    assert_eq!(
        house.said(),
        [
            "0 08:25:30  filter FOREVER",
            "0 08:25:30  filter ALWAYS",
            "0 08:26:00  filter FOREVER",
            "0 08:26:00  filter ALWAYS",
            "0 08:26:30  filter ALWAYS",
        ]
    );
}

#[test]
fn batches_run_on_their_grid_when_there_is_something_in_them() {
    let mut house = House::fresh(&["FOREVER"], on(0, "08:25"));
    let rules = TradingRules {
        allocation: Allocation::FrequentBatch,
        batch_interval_ns: 2 * SECOND,
        ..TradingRules::default()
    };
    house.hall.markets[0].rules = Some(rules.clone());
    let set = Event::TradingRulesSet { instrument: InstrumentId(0), rules: Box::new(rules) };
    let stamped = Stamped { seq: Seq(1), at: on(0, "08:25:01"), command: Command::SampleIndex };
    house.run(on(0, "08:25:01"));
    house.scheduler.observe(&stamped, &[set], &house.hall);
    house.run(on(0, "08:25:07"));
    house.hall.now = on(0, "08:25:07");
    let triggered = Event::Triggered {
        order: OrderId(3),
        account: pitwire_model::AccountId(0),
        instrument: InstrumentId(0),
        last: Ticks(1),
    };
    let stamped = Stamped { seq: Seq(2), at: on(0, "08:25:07"), command: Command::SampleIndex };
    house.scheduler.observe(&stamped, &[triggered], &house.hall);
    house.run(on(0, "08:25:20"));
    assert_eq!(house.said()[1..], ["0 08:25:02  batch FOREVER", "0 08:25:08  batch FOREVER"]);
    // What a session has left crossed is the first batch's.
    house.operate(on(0, "08:25:21"), Phase::Pause);
    house.resume(on(0, "08:25:25"));
    house.run(on(0, "08:26"));
    assert_eq!(house.said()[2..], ["0 08:25:26  batch FOREVER"]);
}

#[test]
fn an_order_is_waited_for_without_a_look_at_any_lane() {
    let mut house = House::fresh(&["CYCLE", "MAIN", "FOREVER"], on(0, "12:00"));
    house.hall.markets[2].rules =
        Some(TradingRules { allocation: Allocation::FrequentBatch, batch_interval_ns: SECOND, ..Default::default() });
    house.scheduler.has_batches = true;
    house.run(on(0, "12:01:01"));
    let asked = house.hall.asked.get();
    let expiry = on(0, "12:01:10");
    let hidden = OrderType::Hidden { price: Ticks(5), minimum_execution: Lots(1) };
    let limit = OrderType::Limit { price: Ticks(5) };
    for (instrument, order_type, tif, due) in [
        (0, limit, TimeInForce::Day, on(0, "12:03")),
        (1, hidden, TimeInForce::Day, on(0, "12:01:30")),
        (0, limit, TimeInForce::GoodTillTime { at: expiry }, expiry),
        (1, limit, TimeInForce::GoodTillTime { at: on(0, "12:02") }, expiry),
        (2, limit, TimeInForce::Day, on(0, "12:01:02")),
    ] {
        let accepted = Event::Accepted {
            order: OrderId(1),
            account: pitwire_model::AccountId(0),
            instrument: InstrumentId(instrument),
            side: Side::Buy,
            order_type,
            lots: Lots(2),
            tif,
            display: None,
        };
        let stamped = Stamped { seq: Seq(1), at: on(0, "12:01:01"), command: Command::SampleIndex };
        house.scheduler.observe(&stamped, &[accepted], &house.hall);
        assert_eq!(house.scheduler.next_due(), due, "{instrument} {order_type:?}");
    }
    assert_eq!(house.hall.asked.get(), asked);
    house.said();
    house.run(on(0, "12:01:02"));
    assert_eq!(house.said(), ["0 12:01:02  batch FOREVER"]);
}

/// The last seconds that are counted, with a call in them.
struct LastDay;

impl Calendar for LastDay {
    fn day_of(&self, _: VenueNanos) -> VenueDay {
        VenueDay(u32::MAX)
    }

    fn closes(&self, _: VenueDay) -> VenueNanos {
        NEVER
    }

    fn schedule_of(&self, _: &str) -> Option<usize> {
        Some(0)
    }

    fn boundaries(&self, _: usize, _: VenueDay) -> Arc<[Boundary]> {
        let at = |ago: u64, spread_ns, to| Boundary { at: VenueNanos(u64::MAX - ago), spread_ns, to };
        [at(9, 0, Phase::OpeningCall), at(5, 30 * SECOND, Phase::Continuous)].into()
    }

    fn draw(&mut self, most_ns: u64) -> u64 {
        most_ns
    }
}

#[test]
fn what_would_come_after_the_last_nanosecond_never_comes() {
    let mut hall = Hall::new(&["MAIN", "HELD"]);
    hall.day = Some(VenueDay(u32::MAX));
    (hall.markets[0].phase, hall.markets[1].phase) = (Phase::OpeningCall, Phase::VolatilityCall);
    let last_seen = VenueNanos(u64::MAX - 8);
    let mut scheduler = SessionScheduler::starting(Box::new(LastDay), &hall, VenueNanos(u64::MAX - 7), last_seen);
    assert_eq!(scheduler.lanes[0].drawn, Some((1, NEVER)));
    assert_eq!(scheduler.lanes[1].ends, Some(NEVER));
    let breach = change(0, Phase::VolatilityCall, SessionReason::Operator, last_seen, None);
    let told = hall.apply(&breach);
    scheduler.observe(&Stamped { seq: Seq(1), at: VenueNanos(u64::MAX - 6), command: breach }, &told, &hall);
    assert_eq!(scheduler.lanes[0].ends, Some(NEVER));
}
