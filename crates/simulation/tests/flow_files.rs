//! Flows from files in whole markets: their rates and times against theory, and the published set
//! against the built-in one.

use pitwire_configuration::PresetName;
use pitwire_flow_models::FlowSource;
use pitwire_simulation::{SimulationPlan, SimulationResult};

fn run(flow: FlowSource, seed: u64, horizon_s: u64) -> SimulationResult {
    let plan = SimulationPlan::new(PresetName::Crypto.preset(), flow, seed);
    let plan = SimulationPlan { horizon_s: Some(horizon_s), report: true, ..plan };
    plan.run(&mut |_, _| Ok(())).unwrap()
}

#[test]
fn the_published_file_gives_the_tape_of_the_built_in_flow() {
    let file = run(FlowSource::named("published").unwrap(), 5, 300);
    let built_in = run(FlowSource::Paper, 5, 300);
    assert!(file.trades > 1_000, "{} trades", file.trades);
    assert_eq!(file.tape_hash, built_in.tape_hash);
}

#[test]
fn rates_and_times_of_a_flow_from_a_file_are_those_of_theory_by_type() {
    for (name, types) in [("published", 8), ("bacry-muzy", 4)] {
        let result = run(FlowSource::named(name).unwrap(), 11, 1_200);
        let flow = result.figures.unwrap().flow;
        assert_eq!(flow.types.len(), types, "{name}");
        for one in &flow.types {
            let (expected, error) = (one.expected_per_s.unwrap(), one.standard_error_per_s.unwrap());
            // More than four standard errors: once in 16,000.
            let distance = (one.per_s - expected).abs() / error;
            assert!(distance < 4.0, "{name}, {}: {} for {expected} ± {error}", one.name, one.per_s);
        }
        let times = &flow.interevent_times;
        assert!(times.events > 2_000, "{name}: {} events", times.events);
        // The bound of 99 in 100 grows by 1.95 / 1.63 for 999 in 1,000.
        assert!(times.distance < 1.2 * times.bound_99, "{name}: {} and {}", times.distance, times.bound_99);
    }
}

#[test]
fn a_spread_of_one_tick_suppresses_the_types_that_need_more() {
    let result = run(FlowSource::named("constrained").unwrap(), 13, 1_200);
    let flow = result.figures.unwrap().flow;
    assert!(flow.types.iter().all(|one| one.expected_per_s.is_none() && one.events > 100), "{:?}", flow.types);
    assert!(flow.suppressed > 100, "{} suppressed", flow.suppressed);
    // Times between events and suppressed candidates still follow the kernel.
    let times = &flow.interevent_times;
    assert!(times.distance < 1.2 * times.bound_99, "{} and {}", times.distance, times.bound_99);
}

#[test]
fn a_flow_trades_only_its_instruments() {
    let text = "[[flow]]\ninstruments = [\"ETH_USDC\"]\nmaker_levels = 3\n\
        [[flow.type]]\nname = \"rest\"\nbase_per_s = 5.0\norder = \"behind\"\n\
        [[flow.type]]\nname = \"leave\"\nbase_per_s = 2.0\norder = \"cancel_behind\"\n\
        [[flow.type]]\nname = \"take\"\nbase_per_s = 1.0\norder = \"leave_touch\"\n";
    let result = run(FlowSource::parse(text).unwrap(), 17, 300);
    let figures = result.figures.unwrap();
    let names: Vec<&str> = figures.instruments.iter().map(|one| one.figures.name.as_str()).collect();
    assert!(names.contains(&"ETH_USDC"));
    for one in figures.instruments.iter().filter(|one| one.figures.name != "ETH_USDC") {
        assert_eq!(one.figures.trades, 0, "{}", one.figures.name);
    }
    let failure = FlowSource::parse(&text.replace("ETH_USDC", "ETH_EUR")).unwrap();
    let plan = SimulationPlan::new(PresetName::Crypto.preset(), failure, 1);
    let plan = SimulationPlan { events: Some(1), ..plan };
    let failure = plan.run(&mut |_, _| Ok(())).err().unwrap().to_string();
    assert!(failure.contains("\"ETH_EUR\", which is no instrument"), "{failure}");
}
