//! The published properties of real markets in the flow `market`.

use std::collections::BTreeMap;

use pitwire_configuration::PresetName;
use pitwire_flow_models::FlowSource;
use pitwire_simulation::{SimulationPlan, SimulationResult, Verdict};

fn run(preset: PresetName, flow: FlowSource, seed: u64, horizon_s: Option<u64>) -> SimulationResult {
    let plan = SimulationPlan { horizon_s, report: true, ..SimulationPlan::new(preset.preset(), flow, seed) };
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

/// Verdicts about one property.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Instruments that have it, and instruments that were judged.
    passed: usize,
    judged: usize,
    /// Runs that have it over all their instruments, and runs that were judged.
    passed_over_all: usize,
    judged_over_all: usize,
}

type Tallies = BTreeMap<&'static str, Tally>;

/// Adds an afternoon of crypto and a day of shares to the tallies. Returns the number of volatility
/// calls.
fn add_day(tallies: &mut Tallies, seed: u64) -> usize {
    let mut calls = 0;
    for (preset, horizon_s) in [(PresetName::Crypto, Some(4 * 3_600)), (PresetName::Jse, None)] {
        let figures = run(preset, FlowSource::Market, seed, horizon_s).figures.unwrap();
        for fact in &figures.facts {
            let tally = tallies.entry(fact.name).or_default();
            tally.passed += fact.passed;
            tally.judged += fact.judged;
            if let Some(over_all) = &fact.over_all {
                tally.passed_over_all += usize::from(over_all.verdict == Verdict::Pass);
                tally.judged_over_all += 1;
            }
        }
        let auctions = figures.instruments.iter().flat_map(|one| &one.figures.path.auctions);
        calls += auctions.filter(|auction| auction.call == "volatility_auction").count();
    }
    calls
}

/// Checks that the properties hold over all instruments, and for a share of the instruments. One
/// day of one instrument often has its busy hours elsewhere than at its ends, so the U shape of the
/// day holds for fewer instruments.
#[track_caller]
fn properties_hold(tallies: &Tallies, least_judged: usize, least_share: f64, most_failed_over_all: usize) {
    assert_eq!(tallies.len(), 12);
    for (name, tally) in tallies {
        let Tally { passed, judged, passed_over_all, judged_over_all } = *tally;
        let words = format!("{name}: {passed} of {judged}, over all {passed_over_all} of {judged_over_all}");
        println!("{words}");
        let least_share = if name.contains("U shape") { least_share - 0.2 } else { least_share };
        #[allow(clippy::cast_precision_loss)]
        let share = passed as f64 / judged as f64;
        assert!(judged >= least_judged && share >= least_share, "{words}");
        assert!(passed_over_all + most_failed_over_all >= judged_over_all, "{words}");
        assert!(judged_over_all > 0 || name.contains("Orders move"), "{words}");
    }
}

#[test]
fn twelve_properties_hold_for_most_instruments_of_a_day() {
    let mut tallies = Tallies::new();
    add_day(&mut tallies, 1);
    properties_hold(&tallies, 10, 0.6, 0);
}

#[test]
#[ignore = "minutes; make soak runs it"]
fn twelve_properties_hold_over_twenty_seeds() {
    let mut tallies = Tallies::new();
    let mut calls = 0;
    for seed in 1..=20 {
        calls += add_day(&mut tallies, seed);
        println!("after seed {seed}: {tallies:?}, {calls} volatility calls");
    }
    // Crypto has too few instruments for a verdict over all of them.
    properties_hold(&tallies, 200, 0.8, 1);
    assert!((5..=400).contains(&calls), "{calls} volatility calls in twenty days");
}
