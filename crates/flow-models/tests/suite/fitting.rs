//! Fits of processes with known parameters.

#![allow(clippy::cast_precision_loss)]

use pitwire_flow_models::{Estimate, EventTape, Fit, exponential_test};
use pitwire_model::VenueNanos;
use pitwire_order_flow::{Exponential, Kernel, Process, Random};

fn tape(kernel: &Kernel, seed: u64, events: usize) -> EventTape {
    let mut process = Process::new(kernel, VenueNanos(0), Random::new(seed, 0)).unwrap();
    let mut tape = EventTape {
        types: (0..kernel.types()).map(|kind| format!("type-{kind}")).collect(),
        times: vec![Vec::new(); kernel.types()],
        seconds: 0.0,
    };
    for _ in 0..events {
        let (at, kind) = process.upcoming();
        tape.seconds = at.0 as f64 / 1e9;
        tape.times[kind].push(tape.seconds);
        process.advance();
    }
    tape
}

fn two_types() -> Kernel {
    let part = Exponential { jump: vec![vec![1.2, 0.0], vec![0.8, 0.6]], decay: vec![vec![3.0, 3.0], vec![2.0, 6.0]] };
    Kernel { base: vec![0.6, 0.9], parts: vec![part] }
}

#[track_caller]
fn near(estimate: &Estimate, truth: f64, what: &str) {
    let error = estimate.standard_error.unwrap_or_else(|| panic!("{what} has no standard error"));
    // The probability of more than 4 standard errors is 1 in 16,000.
    assert!((estimate.value - truth).abs() < 4.0 * error, "{what}: {} ± {error}, not {truth}", estimate.value);
    assert!(error < 0.3 * truth.max(0.1), "{what}: ± {error} says nothing about {truth}");
}

#[test]
fn the_parameters_of_a_known_process_are_found() {
    let kernel = two_types();
    let fit = Fit::of(&tape(&kernel, 3, 40_000), &[], &mut |_, _| {}).unwrap();
    for (i, one) in fit.types.iter().enumerate() {
        assert!(one.has_converged, "{}", one.name);
        near(&one.base, kernel.base[i], "base");
        for j in 0..2 {
            let (jump, decay) = (kernel.parts[0].jump[i][j], kernel.parts[0].decay[i][j]);
            if jump == 0.0 {
                // The decay is free, so that slow chance variation of the rate finds a cause.
                let found = one.jumps[0][j].value / one.decays[0][j].value;
                assert!(found < 0.05, "{found} events caused instead of none");
            } else {
                near(&one.jumps[0][j], jump, &format!("jump {i}, {j}"));
                near(&one.decays[0][j], decay, &format!("decay {i}, {j}"));
            }
        }
        assert!(one.p_value > 0.001, "{}: the times of the true process are refused, p {}", one.name, one.p_value);
    }
    assert!((fit.kernel().radius() - kernel.radius()).abs() < 0.05);
}

#[test]
fn standard_errors_are_those_of_repeated_fits() {
    let kernel = Kernel { base: vec![1.0], parts: vec![Exponential { jump: vec![vec![1.0]], decay: vec![vec![2.0]] }] };
    const FITS: u32 = 60;
    let fits: Vec<Fit> =
        (0..FITS).map(|seed| Fit::of(&tape(&kernel, seed.into(), 2_000), &[], &mut |_, _| {}).unwrap()).collect();
    for (name, of) in [
        ("base", (|fit: &Fit| fit.types[0].base) as fn(&Fit) -> Estimate),
        ("jump", |fit| fit.types[0].jumps[0][0]),
        ("decay", |fit| fit.types[0].decays[0][0]),
    ] {
        let values: Vec<f64> = fits.iter().map(|fit| of(fit).value).collect();
        let mean = values.iter().sum::<f64>() / f64::from(FITS);
        let spread = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / f64::from(FITS - 1)).sqrt();
        let stated = fits.iter().filter_map(|fit| of(fit).standard_error).sum::<f64>() / f64::from(FITS);
        // The spread of 60 values is known to about 9 %.
        assert!((spread / stated - 1.0).abs() < 0.35, "{name}: {spread} among fits, {stated} stated");
    }
}

#[test]
fn given_decays_fit_a_process_with_two_exponentials() {
    let part = |jump: f64, decay: f64| Exponential { jump: vec![vec![jump]], decay: vec![vec![decay]] };
    let kernel = Kernel { base: vec![0.5], parts: vec![part(0.12, 0.3), part(8.0, 30.0)] };
    let fit = Fit::of(&tape(&kernel, 5, 40_000), &[0.3, 30.0], &mut |_, _| {}).unwrap();
    near(&fit.types[0].jumps[0][0], 0.12, "slow jump");
    near(&fit.types[0].jumps[1][0], 8.0, "fast jump");
    assert_eq!(fit.types[0].decays[1][0], Estimate { value: 30.0, standard_error: None });
    // One exponential alone does not describe these times.
    let alone = Fit::of(&tape(&kernel, 5, 40_000), &[0.3], &mut |_, _| {}).unwrap();
    assert!(alone.types[0].p_value < 0.001, "p {}", alone.types[0].p_value);
    assert!(alone.log_likelihood() < fit.log_likelihood() - 100.0);
}

#[test]
fn tapes_that_cannot_be_fitted_are_refused() {
    let short = tape(&two_types(), 1, 60);
    let failure = Fit::of(&short, &[], &mut |_, _| {}).unwrap_err().to_string();
    assert!(failure.contains("each type needs 50"), "{failure}");
    let enough = tape(&two_types(), 1, 2_000);
    for decay in [0.0, -1.0, f64::NAN] {
        assert!(Fit::of(&enough, &[decay], &mut |_, _| {}).unwrap_err().to_string().contains("is not positive"));
    }
    assert!(Fit::of(&enough, &[1.0; 33], &mut |_, _| {}).unwrap_err().to_string().contains("too many"));
}

#[test]
fn the_test_of_exponential_times_has_its_level() {
    let mut random = Random::new(9, 9);
    let mut refused = 0;
    for _ in 0..400 {
        let (_, p_value) = exponential_test((0..200).map(|_| random.exponential(1.0)).collect());
        refused += usize::from(p_value < 0.05);
    }
    // 20 expected, standard deviation 4.4.
    assert!((6..=34).contains(&refused), "{refused} of 400");
    let (_, p_value) = exponential_test((0..200).map(|_| random.exponential(1.5)).collect());
    assert!(p_value < 0.001, "{p_value}");
}
