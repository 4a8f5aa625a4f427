//! The demo flow on a real engine: stability over hours, and resistance to disruptive members.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::venue::{HOUSE, SECOND, START, Venue, closed_engine, engine, house};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, CancelFilter, CancelReason, Command, Credit, Event, FlowSetting,
    InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Phase, Seq, Side, Ticks, TimeInForce, VenueNanos,
};
use pitwire_order_flow::{ExpectedRate, Flow, FlowConfig, FlowError, FlowModel, FlowStyle};

#[test]
fn equal_seeds_give_equal_commands_and_others_do_not() {
    const COUNT: usize = 100_000;
    let commands = |seed| {
        let mut venue = Venue::demo(seed);
        let mut all = Vec::with_capacity(COUNT);
        while all.len() < COUNT {
            all.extend(venue.step().map(|stamped| (stamped.at, stamped.command)));
        }
        all
    };
    let first = commands(1);
    assert!(first == commands(1), "one seed, two stories");
    let other = commands(2);
    // Seeds must differ in the command times too, not only in the accounts.
    let times = |commands: &[(VenueNanos, Command)]| commands.iter().map(|(at, _)| at.0).collect::<BTreeSet<_>>();
    let common = times(&first).intersection(&times(&other)).count();
    assert!(common < COUNT / 20, "two seeds, one story: {common} times in common");
    assert!(first.windows(2).all(|pair| pair[0].0 <= pair[1].0), "time went back");
}

struct MarketFigures {
    trades: u64,
    spreads: Vec<i64>,
    mids: Vec<i64>,
    fewest: u32,
    most: u32,
}

#[test]
fn prices_books_and_trades_stay_in_range_for_hours() {
    const HOURS: u64 = 3;
    let mut venue = Venue::demo(11);
    let count = venue.engine.markets().len();
    let fresh = |_| MarketFigures { trades: 0, spreads: Vec::new(), mids: Vec::new(), fewest: u32::MAX, most: 0 };
    let mut watched: Vec<MarketFigures> = (0..count).map(fresh).collect();
    let (mut commands, mut next_second, mut most_scheduled) = (0_u64, START.0 + 30 * SECOND, 0);
    while let Some(due) = venue.flow.next_due().filter(|due| due.0 < START.0 + HOURS * 3600 * SECOND) {
        while due.0 >= next_second {
            for (market, watched) in venue.engine.markets().iter().zip(&mut watched) {
                let (bid, ask) = (market.best(Side::Buy).unwrap().0.0, market.best(Side::Sell).unwrap().0.0);
                watched.spreads.push(ask - bid);
                watched.mids.push((bid + ask) / 2);
                watched.fewest = watched.fewest.min(market.book().resting_orders());
                watched.most = watched.most.max(market.book().resting_orders());
            }
            most_scheduled = most_scheduled.max(venue.flow.scheduled());
            next_second += SECOND;
        }
        commands += u64::from(venue.step().is_some());
        for event in &venue.events {
            match event {
                Event::Trade { instrument, .. } => watched[instrument.0 as usize].trades += 1,
                Event::Rejected { .. } | Event::CancelRefused { .. } | Event::CommandRefused { .. } => {
                    panic!("the flow's own command was refused: {event:?}")
                }
                // After the first instant, no command may leave a side empty.
                Event::BookChanged { instrument, .. } if due > START => {
                    let market = venue.engine.market(*instrument).unwrap();
                    let two_sided = market.best(Side::Buy).is_some() && market.best(Side::Sell).is_some();
                    assert!(two_sided, "{} is one-sided at {due}", market.spec.name);
                }
                _ => {}
            }
        }
    }
    for (market, watched) in venue.engine.markets().iter().zip(&mut watched) {
        let (name, start) = (&market.spec.name, market.spec.start_price.0);
        assert!(watched.trades > HOURS * 3600, "{name}: {} trades", watched.trades);
        assert!(watched.fewest >= 80 && watched.most <= 1500, "{name}: {}..{}", watched.fewest, watched.most);
        let furthest = watched.mids.iter().map(|mid| (mid - start).abs()).max().unwrap();
        assert!(furthest * 100 <= start * 5, "{name}: {furthest} ticks from its start");
        let seconds = watched.mids.len();
        let moved = watched.mids.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(moved * 2 > seconds, "{name}: the mid moved in {moved} of {seconds} seconds");
        watched.spreads.sort_unstable();
        let (middle, nearly_all, widest) =
            (watched.spreads[seconds / 2], watched.spreads[seconds * 99 / 100], watched.spreads[seconds - 1]);
        assert!(
            watched.spreads[0] >= 1 && middle <= 8 && nearly_all <= 40 && widest <= 100,
            "{name}: {middle} {widest}"
        );
    }
    let (spot, perpetual) = (&watched[8].mids, &watched[10].mids);
    let apart = spot.iter().zip(perpetual).map(|(spot, perpetual)| (spot - perpetual).abs()).max().unwrap();
    assert!(apart < 120_000 / 1000, "the perpetual strayed {apart} ticks from its index");
    let rate = commands as f64 / (HOURS * 3600) as f64;
    assert!((150.0..250.0).contains(&rate), "{rate} commands a second");
    assert!(most_scheduled < 30_000, "{most_scheduled} things scheduled");
    let events = venue.flow.counts().events as f64 / (HOURS * 3600) as f64;
    let expected = venue.flow.expected_events_per_second();
    // With more than a million events the standard deviation is 0.25 %.
    assert!((events / expected - 1.0).abs() < 0.01, "{events} events a second, {expected} expected");
    assert!(venue.flow.radius() > 0.6 && venue.flow.radius() < 0.63);
}

#[test]
fn a_fresh_venue_has_a_two_sided_book_at_once() {
    let mut venue = Venue::demo(3);
    while venue.flow.next_due() == Some(START) {
        venue.step();
    }
    for market in venue.engine.markets() {
        assert!(market.book().resting_orders() >= 12 && market.best(Side::Buy) < market.best(Side::Sell));
    }
    venue.run_until(1);
    assert!(venue.engine.markets().iter().all(|market| market.book().resting_orders() > 150));
}

fn order(account: AccountId, side: Side, order_type: OrderType, lots: u64) -> Command {
    let (instrument, tif, label) = (InstrumentId(4), TimeInForce::Day, Label::default());
    Command::Enter(NewOrder {
        id: OrderId(0),
        account,
        instrument,
        side,
        order_type,
        lots: Lots(lots),
        tif,
        label,
        ..NewOrder::PLAIN
    })
}

/// Returns a demo venue with one more account that has unlimited credit, for disruptive orders.
fn with_rowdy(seed: u64) -> (Venue, AccountId) {
    let mut venue = Venue::demo(seed);
    let rowdy = AccountId(HOUSE);
    let spec = AccountSpec {
        id: rowdy,
        name: "rowdy".into(),
        credit: Credit::Unlimited,
        settings: AccountSettings::default(),
    };
    venue.submit(START, Command::AddAccount(spec));
    (venue, rowdy)
}

#[test]
fn a_swept_side_is_back_within_milliseconds() {
    let (mut venue, rowdy) = with_rowdy(5);
    for round in 1..=20 {
        venue.run_until(60 * round);
        let side = if round % 2 == 0 { Side::Buy } else { Side::Sell };
        let at = VenueNanos(START.0 + 60 * round * SECOND);
        venue.submit(at, order(rowdy, side, OrderType::Market, 1_000_000_000));
        let bare = |venue: &Venue| venue.engine.markets()[4].best(side.opposite()).is_none();
        assert!(bare(&venue));
        while bare(&venue) {
            venue.step();
        }
        let waited = venue.flow.next_due().unwrap().0 - at.0;
        assert!(waited < SECOND / 100, "bare for {waited} ns");
    }
}

#[test]
fn extreme_quotes_do_not_move_the_price() {
    let (mut venue, rowdy) = with_rowdy(6);
    for round in 1..=60 {
        venue.run_until(20 * round);
        let at = VenueNanos(START.0 + 20 * round * SECOND);
        let quote = |side, price, lots| order(rowdy, side, OrderType::Limit { price: Ticks(price) }, lots);
        venue.submit(at, quote(Side::Buy, 1, 1));
        venue.submit(at, quote(Side::Sell, 7_200_000, 1));
        venue.submit(at, order(rowdy, Side::Buy, OrderType::Market, 400_000));
        venue.submit(at, quote(Side::Buy, 9_000, 50));
        venue.submit(
            at,
            Command::CancelAll { account: AccountId(3), which: CancelFilter::All, reason: CancelReason::Requested },
        );
    }
    venue.run_until(1800);
    let mid = venue.engine.markets()[4].mid().0;
    assert!((mid - 7200).abs() < 7200 / 20, "{mid}");
    let prices = |side| venue.engine.markets()[4].book().levels(side).map(|(price, _)| price.0).collect::<Vec<_>>();
    let strange = |price: &i64| !(5_900..8_500).contains(price);
    let all: Vec<i64> = [prices(Side::Buy), prices(Side::Sell)].concat();
    assert!(all.iter().filter(|price| strange(price)).all(|price| [1, 7_200_000].contains(price)), "{all:?}");
}

#[test]
fn closed_markets_get_no_orders_and_open_ones_get_a_book() {
    let engine = closed_engine();
    let flow = Flow::new(FlowConfig::demo(&engine, house()), 1, START, &engine).unwrap();
    let mut venue = Venue::with(engine, flow, Seq(1000));
    venue.run_until(60);
    assert_eq!((venue.flow.counts().commands, venue.engine.live_orders()), (0, 0));
    let at = VenueNanos(START.0 + 60 * SECOND);
    let phase = |phase| Command::SetPhase { instrument: InstrumentId(2), phase };
    venue.submit(at, phase(Phase::Continuous));
    while venue.flow.next_due() == Some(at) {
        venue.step();
    }
    assert!(venue.engine.markets()[2].book().resting_orders() >= 12);
    venue.run_until(120);
    assert!(venue.engine.markets()[2].trades().0 > 50 && venue.engine.markets()[3].book().resting_orders() == 0);
    // While halted, lifetimes still end, and the flow enters nothing and gets no refusal.
    venue.submit(VenueNanos(START.0 + 120 * SECOND), phase(Phase::Halted));
    let resting = venue.engine.live_orders();
    while venue.flow.next_due().is_some_and(|due| due.0 < START.0 + 3600 * SECOND) {
        let done = venue.step();
        assert!(done.is_none_or(|stamped| matches!(stamped.command, Command::Cancel { .. })));
    }
    assert!(venue.engine.live_orders() < resting / 5);
}

#[test]
fn late_host_runs_overdue_events_at_once() {
    let mut venue = Venue::demo(9);
    let mut last = START;
    for stall in 1..=30 {
        venue.run_until(20 * stall);
        // Another member's command arrives seconds after many flow events were due.
        last = VenueNanos(START.0 + (20 * stall + 5) * SECOND);
        venue.submit(last, Command::CloseWindow);
        assert_eq!(venue.flow.next_due(), Some(last), "what is overdue is due now");
        while venue.flow.next_due() == Some(last) {
            assert!(venue.step().is_none_or(|stamped| stamped.at == last));
        }
    }
    let resumed = venue.seq;
    venue.run_until(20 * 30 + 60);
    assert!(venue.flow.next_due() > Some(last));
    for instrument in venue.engine.markets().iter().map(|market| market.spec.id) {
        let makers = [AccountId(0), AccountId(1)].into_iter().flat_map(|account| venue.engine.orders_of(account));
        let fresh = makers.filter(|order| order.instrument == instrument && order.id.0 > resumed.0).count();
        assert!(fresh > 0, "the maker of {instrument} has fallen asleep");
    }
}

#[test]
fn full_book_gets_no_orders() {
    let mut image = engine().image();
    for market in &mut image.markets {
        market.spec.max_resting_orders = 40;
    }
    let engine = pitwire_engine::Engine::from_image(image).unwrap();
    let flow = Flow::new(FlowConfig::demo(&engine, house()), 1, START, &engine).unwrap();
    let mut venue = Venue::with(engine, flow, Seq(1000));
    while venue.flow.next_due().is_some_and(|due| due.0 < START.0 + 120 * SECOND) {
        venue.step();
        assert!(!venue.events.iter().any(|event| matches!(event, Event::Rejected { .. })), "{:?}", venue.events);
    }
    assert!(venue.flow.counts().infeasible > 0);
}

#[test]
fn a_stopped_instrument_keeps_its_book_while_the_others_trade() {
    const STOPPED: InstrumentId = InstrumentId(0);
    let mut venue = Venue::demo(31);
    venue.run_until(120);
    let setting_of = |instrument| FlowSetting { running: instrument != STOPPED, rate_percent: 100 };
    let config = FlowConfig::demo(&venue.engine, house()).at_rates(100, setting_of);
    let now = VenueNanos(START.0 + 120 * SECOND);
    let flow = Flow::new(config, 32, now, &venue.engine).unwrap();
    let mut venue = Venue::with(venue.engine, flow, venue.seq);
    let state = |venue: &Venue, at: usize| {
        let market = &venue.engine.markets()[at];
        (market.book().resting_orders(), market.trades().0)
    };
    let before = (state(&venue, 0), state(&venue, 1));
    assert!(before.0.0 > 0);
    venue.run_until(1200);
    assert_eq!(state(&venue, 0), before.0, "orders of a stopped instrument stay");
    assert!(state(&venue, 1).1 > before.1.1, "the other instruments trade");
}

#[test]
fn a_flow_without_running_instruments_does_nothing() {
    let engine = engine();
    let config = FlowConfig::demo(&engine, house());
    let config = config.at_rates(100, |_| FlowSetting { running: false, rate_percent: 100 });
    let flow = Flow::new(config, 33, START, &engine).unwrap();
    assert_eq!((flow.next_due(), flow.expected_events_per_second()), (None, 0.0));
    assert!(flow.tallies().iter().all(|tally| tally.expected == Some(ExpectedRate::default())));
}

#[test]
fn the_rate_of_an_instrument_multiplies_that_of_the_flow() {
    let engine = engine();
    let rates = |config: FlowConfig| match config.style {
        FlowStyle::Demo(markets) => markets.iter().map(|market| market.events_per_second).collect::<Vec<_>>(),
        FlowStyle::Paper { .. } => panic!("not a demo"),
    };
    let demo = || FlowConfig::demo(&engine, house());
    let plain = rates(demo());
    let half_of_first = |instrument: InstrumentId| FlowSetting {
        running: true,
        rate_percent: if instrument == InstrumentId(0) { 50 } else { 100 },
    };
    let scaled = rates(demo().at_rates(400, half_of_first));
    assert_eq!((scaled[0], scaled[1]), (2.0 * plain[0], 4.0 * plain[1]));
    // The product of two large rates is bounded, so the flow still starts.
    let most = FlowSetting { running: true, rate_percent: FlowSetting::MOST_RATE_PERCENT };
    let bounded = rates(demo().at_rates(FlowSetting::MOST_RATE_PERCENT, |_| most));
    assert_eq!(bounded[0], 1000.0 * plain[0]);
}

#[test]
fn invalid_configurations_are_refused() {
    let mut engine = engine();
    let limited = AccountSpec {
        id: AccountId(HOUSE),
        name: "member".into(),
        credit: Credit::Limited,
        settings: AccountSettings::default(),
    };
    let stamped = pitwire_model::SequencedCommand { seq: Seq(1), at: START, command: Command::AddAccount(limited) };
    engine.apply(&stamped, &mut Vec::new());
    let change = |change: fn(&mut FlowConfig)| {
        let mut config = FlowConfig::demo(&engine, house());
        change(&mut config);
        Flow::new(config, 1, START, &engine).err()
    };
    fn market(config: &mut FlowConfig) -> &mut pitwire_order_flow::DemoMarket {
        let FlowStyle::Demo(markets) = &mut config.style else { panic!("not a demo") };
        &mut markets[1]
    }
    assert_eq!(change(|_| ()), None);
    let few = FlowError::TooFewAccounts { found: 7, needed: 8 };
    assert_eq!(change(|config| config.house.truncate(7)), Some(few));
    assert_eq!(
        change(|config| config.house[2] = AccountId(8)),
        Some(FlowError::LimitedCredit { account: AccountId(8) })
    );
    assert_eq!(
        change(|config| config.house[2] = AccountId(9)),
        Some(FlowError::UnknownAccount { account: AccountId(9) })
    );
    let repeated = FlowError::Repeated { instrument: InstrumentId(0) };
    assert_eq!(change(|config| market(config).instrument = InstrumentId(0)), Some(repeated));
    let unknown = FlowError::UnknownInstrument { instrument: InstrumentId(99) };
    assert_eq!(change(|config| market(config).instrument = InstrumentId(99)), Some(unknown.clone()));
    assert_eq!(change(|config| market(config).follows = Some(InstrumentId(99))), Some(unknown));
    let refused = |change: Option<FlowError>| change.map(|error| error.to_string()).unwrap_or_default();
    let lifetime = refused(change(|config| market(config).lifetime = 0.0));
    assert_eq!(lifetime, "order flow parameter `lifetime_s` is 0, expected 0.001 to 1000000000");
    let rate = refused(change(|config| market(config).events_per_second = f64::NAN));
    assert_eq!(rate, "order flow parameter `events_per_s` is NaN, expected 0.000001 to 1000000");
    let unstable = change(|config| {
        let mut model = FlowModel::symmetric();
        model.kernel.parts[0].jump.iter_mut().flatten().for_each(|jump| *jump *= 2.0);
        market(config).model = Arc::new(model);
    });
    assert!(matches!(unstable, Some(FlowError::Unstable { radius }) if (1.2..1.3).contains(&radius)), "{unstable:?}");
}
