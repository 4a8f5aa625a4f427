//! Timers that belong to no session: filters, batches, expiries, and the end of representable time.

use super::*;

#[test]
fn hidden_orders_are_filtered_every_half_minute() {
    let mut fixture = Fixture::fresh(&["FOREVER", "MAIN", "ALWAYS"], on(0, "08:25:10"));
    fixture.run(on(0, "08:25:10"));
    fixture.log_lines();
    for id in [2, 0] {
        fixture.engine.markets[id].hidden = true;
        let id = InstrumentId(u32::try_from(id).unwrap());
        fixture.scheduler.arrived(id, true, None, &fixture.engine);
    }
    fixture.run(on(0, "08:26"));
    fixture.engine.markets[0].hidden = false;
    fixture.run(on(0, "08:26:30"));
    fixture.engine.markets[2].hidden = false;
    fixture.run(on(0, "08:28"));
    assert_eq!(
        fixture.log_lines(),
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
fn batch_runs_on_its_grid_if_it_has_orders() {
    let mut fixture = Fixture::fresh(&["FOREVER"], on(0, "08:25"));
    let rules = TradingRules {
        allocation: Allocation::FrequentBatch,
        batch_interval_ns: 2 * SECOND,
        ..TradingRules::default()
    };
    fixture.engine.markets[0].rules = Some(rules.clone());
    let set = Event::TradingRulesSet { instrument: InstrumentId(0), rules: Box::new(rules) };
    let stamped = SequencedCommand { seq: Seq(1), at: on(0, "08:25:01"), command: Command::SampleIndex };
    fixture.run(on(0, "08:25:01"));
    fixture.scheduler.observe(&stamped, &[set], &fixture.engine);
    fixture.run(on(0, "08:25:07"));
    fixture.engine.now = on(0, "08:25:07");
    let triggered = Event::Triggered {
        order: OrderId(3),
        account: pitwire_model::AccountId(0),
        instrument: InstrumentId(0),
        last: Ticks(1),
    };
    let stamped = SequencedCommand { seq: Seq(2), at: on(0, "08:25:07"), command: Command::SampleIndex };
    fixture.scheduler.observe(&stamped, &[triggered], &fixture.engine);
    fixture.run(on(0, "08:25:20"));
    assert_eq!(fixture.log_lines()[1..], ["0 08:25:02  batch FOREVER", "0 08:25:08  batch FOREVER"]);
    // Orders that a session left crossed trade in the first batch.
    fixture.operate(on(0, "08:25:21"), Phase::Pause);
    fixture.resume(on(0, "08:25:25"));
    fixture.run(on(0, "08:26"));
    assert_eq!(fixture.log_lines()[2..], ["0 08:25:26  batch FOREVER"]);
}

#[test]
fn order_timers_visit_no_instrument() {
    let mut fixture = Fixture::fresh(&["CYCLE", "MAIN", "FOREVER"], on(0, "12:00"));
    fixture.engine.markets[2].rules =
        Some(TradingRules { allocation: Allocation::FrequentBatch, batch_interval_ns: SECOND, ..Default::default() });
    fixture.scheduler.has_batches = true;
    fixture.run(on(0, "12:01:01"));
    let asked = fixture.engine.asked.get();
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
        let stamped = SequencedCommand { seq: Seq(1), at: on(0, "12:01:01"), command: Command::SampleIndex };
        fixture.scheduler.observe(&stamped, &[accepted], &fixture.engine);
        assert_eq!(fixture.scheduler.next_due(), due, "{instrument} {order_type:?}");
    }
    assert_eq!(fixture.engine.asked.get(), asked);
    fixture.log_lines();
    fixture.run(on(0, "12:01:02"));
    assert_eq!(fixture.log_lines(), ["0 12:01:02  batch FOREVER"]);
}

/// The last representable seconds, with a call in them.
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
fn events_after_the_last_representable_time_never_come() {
    let mut engine = EngineDouble::new(&["MAIN", "HELD"]);
    engine.day = Some(VenueDay(u32::MAX));
    (engine.markets[0].phase, engine.markets[1].phase) = (Phase::OpeningCall, Phase::VolatilityCall);
    let last_seen = VenueNanos(u64::MAX - 8);
    let mut scheduler = SessionScheduler::starting(Box::new(LastDay), &engine, VenueNanos(u64::MAX - 7), last_seen);
    assert_eq!(scheduler.entries[0].drawn, Some((1, NEVER)));
    assert_eq!(scheduler.entries[1].ends, Some(NEVER));
    let breach = change(0, Phase::VolatilityCall, SessionReason::Operator, last_seen, None);
    let outcome = engine.apply(&breach);
    scheduler.observe(
        &SequencedCommand { seq: Seq(1), at: VenueNanos(u64::MAX - 6), command: breach },
        &outcome,
        &engine,
    );
    assert_eq!(scheduler.entries[0].ends, Some(NEVER));
}
