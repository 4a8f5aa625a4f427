//! The published properties of real markets in the flow `market`.

use std::collections::BTreeMap;

use pitwire_configuration::PresetName;
use pitwire_flow_models::FlowSource;
use pitwire_simulation::{SimulationPlan, SimulationResult, Verdict};

fn run(preset: PresetName, flow: FlowSource, seed: u64, horizon_s: Option<u64>) -> SimulationResult {
    let plan = SimulationPlan {
        preset: preset.preset(),
        flow,
        seed,
        events: None,
        horizon_s,
        has_observer_thread: false,
        out: None,
        report: true,
    };
    plan.run(&mut |_, _| {}).unwrap()
}

#[test]
fn an_hour_of_the_market_flow_has_memory_and_theory_holds_in_business_time() {
    let figures = run(PresetName::Crypto, FlowSource::Market, 3, Some(3_600)).figures.unwrap();
    for one in &figures.flow.types {
        let (expected, error) = (one.expected_per_s.unwrap(), one.standard_error_per_s.unwrap());
        let distance = (one.per_s - expected).abs() / error;
        assert!(distance < 4.0, "{}: {} for {expected} ± {error}", one.name, one.per_s);
    }
    let times = &figures.flow.interevent_times;
    assert!(times.distance < 1.2 * times.bound_99, "{} and {}", times.distance, times.bound_99);
    for instrument in &figures.instruments {
        for name in ["Signs of orders have a long memory", "Orders move the price in their direction"] {
            let fact = instrument.facts.iter().find(|fact| fact.name == name).unwrap();
            assert_eq!(fact.verdict, Verdict::Pass, "{}: {fact:?}", instrument.figures.name);
        }
    }
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

/// Twenty seeds, each an afternoon of crypto and a day of shares: `make soak`.
#[test]
#[ignore = "minutes; make soak runs it"]
fn twelve_properties_hold_over_twenty_seeds() {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut breaches = 0;
    for seed in 1..=20 {
        for (preset, horizon_s) in [(PresetName::Crypto, Some(4 * 3_600)), (PresetName::Jse, None)] {
            let figures = run(preset, FlowSource::Market, seed, horizon_s).figures.unwrap();
            for fact in &figures.facts {
                let (passed, judged) = counts.entry(fact.name).or_default();
                *passed += fact.passed;
                *judged += fact.judged;
            }
            let calls = figures.instruments.iter().flat_map(|one| &one.figures.path.auctions);
            breaches += calls.filter(|auction| auction.call == "volatility_auction").count();
        }
        println!("after seed {seed}: {counts:?}, {breaches} volatility calls");
    }
    assert_eq!(counts.len(), 12);
    for (name, (passed, judged)) in counts {
        println!("{name}: {passed} of {judged}");
        assert!(judged >= 60, "{name}: {judged} judged");
        assert!(5 * passed >= 4 * judged, "{name}: {passed} of {judged}");
    }
    assert!((5..=400).contains(&breaches), "{breaches} volatility calls in twenty days");
}
