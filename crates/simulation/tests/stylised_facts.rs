//! The published properties of real markets in the flow `market`.

use std::collections::BTreeMap;

use pitwire_configuration::PresetName;
use pitwire_flow_models::FlowSource;
use pitwire_simulation::{SimulationPlan, SimulationResult};

fn run(preset: PresetName, flow: FlowSource, seed: u64, horizon_s: Option<u64>) -> SimulationResult {
    let plan = SimulationPlan {
        preset: preset.preset(),
        flow,
        seed,
        events: None,
        horizon_s,
        speed: None,
        has_observer_thread: false,
        out: None,
        report: true,
    };
    plan.run(&mut |_, _| Ok(())).unwrap()
}

#[test]
fn an_hour_of_the_market_flow_follows_theory_in_business_time() {
    let figures = run(PresetName::Crypto, FlowSource::Market, 3, Some(3_600)).figures.unwrap();
    for one in &figures.flow.types {
        let (expected, error) = (one.expected_per_s.unwrap(), one.standard_error_per_s.unwrap());
        let distance = (one.per_s - expected).abs() / error;
        assert!(distance < 4.0, "{}: {} for {expected} ± {error}", one.name, one.per_s);
    }
    let times = &figures.flow.interevent_times;
    assert!(times.distance < 1.2 * times.bound_99, "{} and {}", times.distance, times.bound_99);
}

#[test]
fn calls_of_the_market_flow_find_prices_away_from_the_start() {
    // The opening call ends 35 minutes after the start of the day.
    let figures = run(PresetName::Jse, FlowSource::Market, 5, Some(2_400)).figures.unwrap();
    let mut moved = 0;
    for instrument in &figures.instruments {
        let auction = instrument.figures.path.auctions.first().expect("every opening call finds a price");
        let start = PresetName::Jse.preset().setup.instruments.iter().find_map(|def| {
            (def.name == instrument.figures.name).then(|| def.start_price.parse::<f64>().unwrap() * 100.0)
        });
        #[allow(clippy::cast_precision_loss)]
        let price = auction.price_ticks as f64;
        moved += usize::from((price - start.unwrap()).abs() > 0.5);
    }
    assert_eq!(figures.instruments.len(), 12);
    assert!(moved >= 9, "{moved} of 12 calls found another price than that of the start");
}

/// Instruments of which a property holds, and instruments that were judged.
type Tally = BTreeMap<&'static str, (usize, usize)>;

/// Adds an afternoon of crypto and a day of shares to the tally. Returns the number of volatility
/// calls.
fn add_day(tally: &mut Tally, seed: u64) -> usize {
    let mut calls = 0;
    for (preset, horizon_s) in [(PresetName::Crypto, Some(4 * 3_600)), (PresetName::Jse, None)] {
        let figures = run(preset, FlowSource::Market, seed, horizon_s).figures.unwrap();
        for fact in &figures.facts {
            let (passed, judged) = tally.entry(fact.name).or_default();
            *passed += fact.passed;
            *judged += fact.judged;
        }
        let auctions = figures.instruments.iter().flat_map(|one| &one.figures.path.auctions);
        calls += auctions.filter(|auction| auction.call == "volatility_auction").count();
    }
    calls
}

#[track_caller]
fn properties_hold(tally: &Tally, least_judged: usize, least_share: f64) {
    assert_eq!(tally.len(), 12);
    for (name, (passed, judged)) in tally {
        println!("{name}: {passed} of {judged}");
        #[allow(clippy::cast_precision_loss)]
        let share = *passed as f64 / *judged as f64;
        assert!(*judged >= least_judged && share >= least_share, "{name}: {passed} of {judged}");
    }
}

#[test]
fn twelve_properties_hold_for_most_instruments_of_a_day() {
    let mut tally = Tally::new();
    add_day(&mut tally, 1);
    properties_hold(&tally, 10, 0.6);
}

#[test]
#[ignore = "minutes; make soak runs it"]
fn twelve_properties_hold_over_twenty_seeds() {
    let mut tally = Tally::new();
    let mut calls = 0;
    for seed in 1..=20 {
        calls += add_day(&mut tally, seed);
        println!("after seed {seed}: {tally:?}, {calls} volatility calls");
    }
    // The U shape of the day holds least often: for 174 of 240 instruments when this was written.
    properties_hold(&tally, 200, 0.7);
    assert!((5..=400).contains(&calls), "{calls} volatility calls in twenty days");
}
