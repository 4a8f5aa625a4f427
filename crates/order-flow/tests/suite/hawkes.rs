//! Theory and goodness of fit of the mutually exciting processes.
//!
//! The expected values are independent of the code under test: radii and totals come from the
//! published parameters and from a script in another language for the symmetric set. The
//! compensators below follow the definition.

use pitwire_model::VenueNanos;
use pitwire_order_flow::{Exponential, FlowError, Kernel, Matrix, ParameterSet, Process, Random, TYPES};

const START: VenueNanos = VenueNanos(1_767_225_600_000_000_000);
const NANOS: f64 = 1e9;

fn kernels() -> [(&'static str, Kernel); 4] {
    [
        ("paper/file", Kernel::published(ParameterSet::File)),
        ("paper/as_loaded", Kernel::published(ParameterSet::AsLoaded)),
        ("demo at 9/s", Kernel::symmetric().at_rate(9.0)),
        ("three types, two exponentials", two_exponentials()),
    ]
}

#[test]
fn radii_and_rates_match_an_independent_computation() {
    let table = [
        ("file", Kernel::published(ParameterSet::File), 0.617, 30.93, None),
        (
            "as_loaded",
            Kernel::published(ParameterSet::AsLoaded),
            0.612,
            31.08,
            Some([2.30, 3.85, 3.92, 4.00, 4.09, 4.19, 4.30, 4.42]),
        ),
        ("symmetric", Kernel::symmetric(), SYMMETRIC_RADIUS, SYMMETRIC_TOTAL, Some(SYMMETRIC_RATES)),
    ];
    for (name, kernel, radius, total, rates) in table {
        kernel.check().unwrap();
        assert!((kernel.radius() - radius).abs() < 0.0005, "{name}: radius {}", kernel.radius());
        assert!((kernel.total_rate() - total).abs() < 0.005, "{name}: total {}", kernel.total_rate());
        for (got, want) in kernel.stationary_rates().iter().zip(rates.iter().flatten()) {
            assert!((got - want).abs() < 0.0051, "{name}: rates {:?}", kernel.stationary_rates());
        }
        // A higher rate scales the rates and leaves the radius unchanged.
        let faster = kernel.at_rate(100.0);
        assert!((faster.radius() - kernel.radius()).abs() < 1e-9 && (faster.total_rate() - 100.0).abs() < 1e-9);
    }
}

const PUBLISHED_VARIANCES: [f64; TYPES] = [5.4901, 5.7611, 6.058, 6.1907, 6.4937, 6.6191, 6.9283, 7.0466];

const SYMMETRIC_RADIUS: f64 = 0.6169;
const SYMMETRIC_TOTAL: f64 = 30.918;
const SYMMETRIC_RATES: [f64; TYPES] = [3.2866, 3.2866, 3.6767, 3.6767, 4.0567, 4.0567, 4.4390, 4.4390];

#[test]
fn demo_set_is_symmetric_in_buyers_and_sellers() {
    let kernel = Kernel::symmetric();
    let rates = kernel.stationary_rates();
    for kind in 0..TYPES {
        assert!((rates[kind] - rates[kind ^ 1]).abs() < 1e-12);
        for cause in 0..TYPES {
            let Exponential { jump, decay } = &kernel.parts[0];
            assert_eq!(decay[kind][cause], decay[kind ^ 1][cause ^ 1]);
            assert_eq!(jump[kind][cause], jump[kind ^ 1][cause ^ 1]);
        }
    }
}

#[test]
fn radius_converges_for_every_shape_of_matrix() {
    let with = |entries: &[(usize, usize, f64)]| {
        let mut jump = filled(0.0);
        for (i, j, value) in entries {
            jump[*i][*j] = *value;
        }
        kernel(jump, filled(1.0))
    };
    let table = [
        ("nothing", with(&[]), 0.0),
        ("diagonal", with(&[(0, 0, 0.3), (5, 5, 0.8)]), 0.8),
        // Plain power iteration would alternate between two values here and never converge.
        ("ring of two", with(&[(0, 1, 0.9), (1, 0, 0.4)]), 0.6),
        ("uniform", kernel(filled(0.1), filled(1.0)), 0.8),
        // 0.2 from the fast exponential and 0.3 from the slow one.
        (
            "two exponentials",
            Kernel {
                base: vec![1.0; 3],
                parts: [(0.2, 1.0), (0.03, 0.1)]
                    .map(|(jump, decay)| Exponential { jump: diagonal(3, jump), decay: vec![vec![decay; 3]; 3] })
                    .into(),
            },
            0.5,
        ),
    ];
    for (name, kernel, radius) in table {
        assert!((kernel.radius() - radius).abs() < 1e-6, "{name}: {}", kernel.radius());
        kernel.check().unwrap();
    }
}

#[test]
fn unstable_or_invalid_kernels_are_refused() {
    let good = Kernel::published(ParameterSet::File);
    let louder = |times: f64| {
        let mut kernel = good.clone();
        kernel.parts[0].jump.iter_mut().flatten().for_each(|jump| *jump *= times);
        kernel
    };
    let edge = louder(1.0 / 0.617).check();
    assert!(matches!(edge, Err(FlowError::Unstable { radius }) if (radius - 1.0).abs() < 0.001));
    louder(0.999 / 0.617_5).check().unwrap();
    let error = Process::new(&louder(40.0), START, Random::new(1, 1)).err().unwrap();
    assert!(!error.remedy().is_empty() && error.to_string().contains("spectral radius"), "{error}");
    let base = |base: f64| Kernel { base: vec![base; TYPES], ..good.clone() };
    for (expected, kernel) in [
        ("`base_per_s` is NaN, expected a finite number", base(f64::NAN)),
        ("`base_per_s` is 0 for every type, expected one above 0", base(0.0)),
        ("`jump_per_s[0][0]` is -0.1, expected a finite number, at least 0", kernel(filled(-0.1), filled(1.0))),
        ("`jump_per_s` is a row of 3 values, expected 8", kernel(vec![vec![0.1; 3]; TYPES], filled(1.0))),
        ("`decay_per_s` is 1 rows, expected 8", kernel(filled(0.1), vec![vec![1.0; TYPES]])),
        ("`decay_per_s[0][0]` is 0, expected a finite number above 0", kernel(filled(0.1), filled(0.0))),
        ("`decay_per_s[0][0]` is inf, expected", kernel(filled(0.1), filled(f64::INFINITY))),
        ("`number of types` is 0, expected 1 to 64", Kernel { base: vec![], parts: vec![] }),
        ("`number of types` is 65, expected 1 to 64", Kernel { base: vec![0.01; 65], parts: vec![] }),
        (
            "`number of exponentials` is 9, expected at most 8",
            Kernel { base: vec![1.0], parts: vec![part(diagonal(1, 0.1), diagonal(1, 1.0)); 9] },
        ),
    ] {
        let refused = kernel.check().unwrap_err().to_string();
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
}

fn filled(value: f64) -> Matrix {
    vec![vec![value; TYPES]; TYPES]
}

fn diagonal(types: usize, value: f64) -> Matrix {
    (0..types).map(|i| (0..types).map(|j| if i == j { value } else { 0.0 }).collect()).collect()
}

fn part(jump: Matrix, decay: Matrix) -> Exponential {
    Exponential { jump, decay }
}

fn kernel(jump: Matrix, decay: Matrix) -> Kernel {
    Kernel { base: vec![1.0; TYPES], parts: vec![part(jump, decay)] }
}

/// A kernel with three types and two exponentials, one fast and one slow.
fn two_exponentials() -> Kernel {
    let fast = part(
        vec![vec![2.0, 0.5, 0.0], vec![1.0, 3.0, 0.0], vec![0.0, 1.0, 4.0]],
        vec![vec![20.0, 15.0, 10.0], vec![20.0, 15.0, 10.0], vec![25.0, 15.0, 12.0]],
    );
    let slow = part(
        vec![vec![0.02, 0.0, 0.01], vec![0.01, 0.03, 0.0], vec![0.0, 0.0, 0.02]],
        vec![vec![0.2; 3], vec![0.1; 3], vec![0.3; 3]],
    );
    Kernel { base: vec![0.5, 1.0, 1.5], parts: vec![fast, slow] }
}

/// Generates events as pairs of the time in seconds since the start and the event type.
fn events(kernel: &Kernel, seed: u64, count: usize) -> Vec<(f64, usize)> {
    let mut process = Process::new(kernel, START, Random::new(seed, 0)).unwrap();
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        let (at, kind) = process.upcoming();
        events.push(((at.0 - START.0) as f64 / NANOS, kind));
        process.advance();
    }
    events
}

/// Computes the integrated intensities at one time by the definition, with a sum over all past
/// events.
fn compensators_by_definition(kernel: &Kernel, past: &[(f64, usize)], now: f64) -> Vec<f64> {
    let of = |i: usize| {
        let caused = |&(at, j): &(f64, usize)| {
            let of = |part: &Exponential| {
                part.jump[i][j] / part.decay[i][j] * (1.0 - (-part.decay[i][j] * (now - at)).exp())
            };
            kernel.parts.iter().map(of).sum::<f64>()
        };
        kernel.base[i] * now + past.iter().map(caused).sum::<f64>()
    };
    (0..kernel.types()).map(of).collect()
}

/// Computes the integrated intensities at every event, each from the previous event.
fn compensators(kernel: &Kernel, events: &[(f64, usize)]) -> Vec<Vec<f64>> {
    let types = kernel.types();
    // Sum of exp(-decay * age) over past events, by exponential, excited type and cause.
    let mut alive = vec![vec![vec![0.0; types]; types]; kernel.parts.len()];
    let (mut total, mut before) = (vec![0.0; types], 0.0);
    let mut all = Vec::with_capacity(events.len());
    for &(at, kind) in events {
        let gap = at - before;
        total.iter_mut().zip(&kernel.base).for_each(|(total, base)| *total += base * gap);
        for (part, alive) in kernel.parts.iter().zip(&mut alive) {
            for (i, row) in alive.iter_mut().enumerate() {
                for (j, alive) in row.iter_mut().enumerate() {
                    let left = (-part.decay[i][j] * gap).exp();
                    total[i] += part.jump[i][j] / part.decay[i][j] * *alive * (1.0 - left);
                    *alive *= left;
                }
                row[kind] += 1.0;
            }
        }
        before = at;
        all.push(total.clone());
    }
    all
}

/// Kolmogorov distance between a sample and the unit exponential law, times the square root of the
/// sample size.
fn distance(mut sample: Vec<f64>) -> f64 {
    sample.sort_unstable_by(f64::total_cmp);
    let count = sample.len() as f64;
    let gap = |(rank, value): (usize, &f64)| {
        let law = 1.0 - (-value).exp();
        (law - rank as f64 / count).abs().max(((rank + 1) as f64 / count - law).abs())
    };
    sample.iter().enumerate().map(gap).fold(0.0, f64::max) * count.sqrt()
}

fn lag_one_correlation(sample: &[f64]) -> f64 {
    let mean = sample.iter().sum::<f64>() / sample.len() as f64;
    let variance: f64 = sample.iter().map(|x| (x - mean) * (x - mean)).sum();
    sample.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / variance
}

/// Time rescaling (Papangelou 1972; Ogata 1988): measured in its own integrated intensity, a
/// process is a Poisson
/// process of rate one. The test covers all events together and each type, at the 0.1 % level.
#[test]
fn rescaled_gaps_are_unit_exponential_and_independent() {
    const CRITICAL: f64 = 1.95;
    const COUNT: usize = 200_000;
    for (seed, (name, kernel)) in (20_260_101..).zip(kernels()) {
        let events = events(&kernel, seed, COUNT);
        let totals = compensators(&kernel, &events);
        for at in [0, 1, 7, 400] {
            let slow = compensators_by_definition(&kernel, &events[..at], events[at].0);
            for (slow, fast) in slow.iter().zip(&totals[at]) {
                assert!((slow - fast).abs() < 1e-6 * (1.0 + slow), "the test's own two ways differ");
            }
        }
        let pooled: Vec<f64> = totals.iter().map(|total| total.iter().sum()).collect();
        let gaps = differences(&pooled);
        let correlation = lag_one_correlation(&gaps) * (COUNT as f64).sqrt();
        assert!(correlation.abs() < 3.3, "{name}: neighbours correlate, z = {correlation:.2}");
        let reached = distance(gaps);
        println!("{name}: all types, D√n = {reached:.3}, lag-1 z = {correlation:.2}");
        assert!(reached < CRITICAL, "{name}: D√n = {reached:.3}");
        for kind in 0..kernel.types() {
            let own: Vec<f64> =
                events.iter().zip(&totals).filter(|(event, _)| event.1 == kind).map(|(_, total)| total[kind]).collect();
            let reached = distance(differences(&own));
            println!("{name}: type {}, D√n = {reached:.3}", kind + 1);
            assert!(reached < CRITICAL, "{name}: type {}: D√n = {reached:.3}", kind + 1);
        }
    }
}

fn differences(rising: &[f64]) -> Vec<f64> {
    std::iter::once(rising[0]).chain(rising.windows(2).map(|pair| pair[1] - pair[0])).collect()
}

/// With radius ρ the count of n events has a standard deviation of about √n / (1 - ρ): 0.26 % of a
/// million. The
/// tolerance is four standard deviations for the total and 2 % for each type.
#[test]
fn realised_rates_match_expected_rates() {
    const COUNT: usize = 1_000_000;
    for (seed, (name, kernel)) in (7..).zip(kernels()) {
        let events = events(&kernel, seed, COUNT);
        let seconds = events.last().unwrap().0;
        let total = COUNT as f64 / seconds;
        println!("{name}: {total:.3}/s realised, {:.3}/s expected", kernel.total_rate());
        assert!((total / kernel.total_rate() - 1.0).abs() < 0.0105, "{name}: {total}");
        for (kind, rate) in kernel.stationary_rates().into_iter().enumerate() {
            let count = events.iter().filter(|event| event.1 == kind).count();
            let realised = count as f64 / seconds;
            assert!((realised / rate - 1.0).abs() < 0.02, "{name}: type {}: {realised} for {rate}", kind + 1);
        }
    }
}

/// A change of these values changes every recording made from a seed. The release notes must
/// mention it.
#[test]
fn event_times_of_a_seed_never_change() {
    let mut process = Process::new(&Kernel::symmetric(), START, Random::new(42, 0)).unwrap();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for _ in 0..20_000 {
        let (at, kind) = process.upcoming();
        for part in [at.0, kind as u64] {
            hash = (hash ^ part).wrapping_mul(0x0100_0000_01b3);
        }
        process.advance();
    }
    assert_eq!(hash, 0x90ba_4b7e_d974_0a48, "{hash:#018x}");
}

#[test]
fn count_variances_match_theory() {
    // Without excitation the process is Poisson. One type with branching ratio n has variance μ /
    // (1 - n)³ (Hawkes and
    // Oakes 1974).
    let alone = Kernel { base: vec![2.0; TYPES], parts: vec![part(filled(0.0), filled(1.0))] };
    assert_eq!(alone.count_variances(), [2.0; TYPES]);
    let mut exciting = alone;
    exciting.parts[0].jump[3][3] = 0.5;
    assert!((exciting.count_variances()[3] - 16.0).abs() < 1e-12);
    // The expected values of the published set sum 400 powers of the branching matrix, computed in
    // another language.
    for (got, want) in Kernel::published(ParameterSet::File).count_variances().iter().zip(PUBLISHED_VARIANCES) {
        assert!((got - want).abs() < 0.0001, "{got}, not {want}");
    }
}
