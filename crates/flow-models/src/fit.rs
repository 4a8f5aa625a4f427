//! Hawkes processes fitted to a tape by maximum likelihood.
//!
//! Does        maximise the likelihood of each type by Fisher scoring in the logarithms of the
//!             parameters; compute standard errors from the observed information (Ogata 1978), and
//!             the time-rescaling test (Brown, Barbieri, Ventura, Kass and Frank 2002).
//! Leaves out  corrections of the test for parameters that come from the same tape: it rejects less
//!             often than its level says.
//! Start at    [`Fit::of`].

use pitwire_failure::Failure;
use pitwire_order_flow::{Exponential, Kernel};

use crate::event_tape::EventTape;
use crate::likelihood::{Cause, LikelihoodPoint, RowLikelihood};
use crate::linear::{invert, solve};

/// Least number of events of a type. With fewer, the estimates say nothing.
pub const FEWEST_EVENTS: usize = 50;
/// Largest number of types times exponentials.
const MOST_CAUSES: usize = 64;

/// A parameter with its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    /// `None` if the parameter was given, or is so small that the tape cannot tell it from zero.
    pub standard_error: Option<f64>,
}

/// The fitted parameters of one type.
#[derive(Clone, Debug)]
pub struct FittedType {
    pub name: String,
    pub events: usize,
    pub base: Estimate,
    /// By exponential, then by the type that excites.
    pub jumps: Vec<Vec<Estimate>>,
    pub decays: Vec<Vec<Estimate>>,
    pub log_likelihood: f64,
    /// Whether the search ended at a maximum.
    pub has_converged: bool,
    /// Kolmogorov-Smirnov distance of the rescaled times from an exponential law.
    pub distance: f64,
    /// Probability of a larger distance if the times follow the fitted process.
    pub p_value: f64,
}

/// A fitted process.
#[derive(Clone, Debug)]
pub struct Fit {
    pub types: Vec<FittedType>,
    pub seconds: f64,
}

impl Fit {
    /// Fits one exponential for each pair of types, or exponentials with the given decay rates.
    /// `progress` is called after each search with the searches that are done, and with all of
    /// them.
    ///
    /// # Errors
    ///
    /// Returns a failure if a type has fewer than [`FEWEST_EVENTS`] events, there are too many
    /// types, or a decay rate is not positive.
    pub fn of(tape: &EventTape, decays: &[f64], progress: &mut dyn FnMut(u64, u64)) -> Result<Fit, Failure> {
        let types = tape.types.len();
        if let Some(decay) = decays.iter().find(|decay| !(decay.is_finite() && **decay > 0.0)) {
            return Err(Failure::usage(format!("the decay rate {decay} is not positive"))
                .remedy("give rates per second, such as --decays 1,20"));
        }
        if types * decays.len().max(1) > MOST_CAUSES {
            return Err(Failure::new(format!("{types} types with {} exponentials are too many", decays.len().max(1)))
                .remedy(format!("types times exponentials may be at most {MOST_CAUSES}")));
        }
        let few = tape.times.iter().zip(&tape.types).find(|(times, _)| times.len() < FEWEST_EVENTS);
        if let Some((times, name)) = few {
            return Err(Failure::new(format!("type {name:?} has {} events", times.len()))
                .remedy(format!("export a longer run: each type needs {FEWEST_EVENTS}")));
        }
        let searches = (types * shares_of_rate(decays).len()) as u64;
        let mut done = 0;
        let mut searched = || {
            done += 1;
            progress(done, searches);
        };
        let fitted = (0..types).map(|kind| fit_type(tape, kind, decays, &mut searched)).collect();
        Ok(Fit { types: fitted, seconds: tape.seconds })
    }

    /// Returns the fitted parameters as a kernel.
    pub fn kernel(&self) -> Kernel {
        let parts = self.types.first().map_or(0, |first| first.jumps.len());
        let values = |of: &[Estimate]| of.iter().map(|estimate| estimate.value).collect();
        Kernel {
            base: self.types.iter().map(|one| one.base.value).collect(),
            parts: (0..parts)
                .map(|part| Exponential {
                    jump: self.types.iter().map(|one| values(&one.jumps[part])).collect(),
                    decay: self.types.iter().map(|one| values(&one.decays[part])).collect(),
                })
                .collect(),
        }
    }

    pub fn log_likelihood(&self) -> f64 {
        self.types.iter().map(|one| one.log_likelihood).sum()
    }
}

/// Smallest value of a parameter. The search cannot reach zero.
const LEAST: f64 = 1e-9;
/// A jump that causes fewer events than this counts as zero.
const LEAST_BRANCHING: f64 = 1e-4;

/// Returns the decay rates from which a search starts, as shares of the rate of all events. The
/// likelihood has several maxima in the decays: start from slow, middle and fast ones.
fn shares_of_rate(decays: &[f64]) -> &'static [f64] {
    if decays.is_empty() { &[0.02, 0.1, 0.7] } else { &[1.0] }
}

fn fit_type(tape: &EventTape, kind: usize, decays: &[f64], searched: &mut dyn FnMut()) -> FittedType {
    let types = tape.types.len();
    let causes: Vec<Cause> = if decays.is_empty() {
        (0..types).map(|kind| Cause { kind, decay: None }).collect()
    } else {
        decays.iter().flat_map(|decay| (0..types).map(|kind| Cause { kind, decay: Some(*decay) })).collect()
    };
    let likelihood = RowLikelihood::new(tape, kind, causes);
    let rate = tape.events() as f64 / tape.seconds.max(1e-9);
    let found = shares_of_rate(decays).iter().map(|share| {
        let found = search(&likelihood, start(&likelihood, kind, rate * share));
        searched();
        found
    });
    let Some((point, at, has_converged)) = found.max_by(|one, other| one.1.value.total_cmp(&other.1.value)) else {
        unreachable!("there is always a start");
    };
    let rescaled = likelihood.rescaled_times(&point);
    let (distance, p_value) = exponential_test(rescaled);
    let errors = standard_errors(&likelihood, &point, &at);
    let estimate = |place: usize| Estimate { value: point[place], standard_error: errors[place] };
    let places = likelihood.decay_places();
    let by_part = |of: &dyn Fn(usize) -> Estimate| {
        (0..likelihood.causes.len() / types).map(|part| (part * types..(part + 1) * types).map(of).collect()).collect()
    };
    let known = likelihood.parameters(&point);
    FittedType {
        name: tape.types[kind].clone(),
        events: tape.times[kind].len(),
        base: estimate(0),
        jumps: by_part(&|cause| estimate(1 + cause)),
        decays: by_part(&|cause| {
            places[cause].map_or(Estimate { value: known.decays[cause], standard_error: None }, estimate)
        }),
        log_likelihood: at.value,
        has_converged,
        distance,
        p_value,
    }
}

/// Returns a start: half of the events have no cause, the others have equal shares.
fn start(likelihood: &RowLikelihood<'_>, kind: usize, decay: f64) -> Vec<f64> {
    let mut point = vec![likelihood.base_start(kind)];
    let count = likelihood.causes.len() as f64;
    let decay_of = |cause: &Cause| cause.decay.unwrap_or(decay);
    point.extend(likelihood.causes.iter().map(|cause| 0.5 / count * decay_of(cause)));
    point.extend(likelihood.causes.iter().filter(|cause| cause.decay.is_none()).map(|_| decay));
    point
}

/// Climbs to a maximum by Fisher scoring with damping (Levenberg 1944, Marquardt 1963), in
/// logarithms, so that parameters stay positive.
fn search(likelihood: &RowLikelihood<'_>, mut point: Vec<f64>) -> (Vec<f64>, LikelihoodPoint, bool) {
    const STEPS: usize = 300;
    /// Largest change of a logarithm in one step.
    const STRIDE: f64 = 1.5;
    /// A step that gains less than this ends the search.
    const CLOSE: f64 = 1e-7;
    let mut here = likelihood.at(&point);
    let mut damping = 1e-2;
    for _ in 0..STEPS {
        let slope: Vec<f64> = here.gradient.iter().zip(&point).map(|(slope, value)| slope * value).collect();
        let mut system: Vec<Vec<f64>> = (0..point.len())
            .map(|i| (0..point.len()).map(|j| here.scores[i][j] * point[i] * point[j]).collect())
            .collect();
        for (i, row) in system.iter_mut().enumerate() {
            row[i] = row[i] * (1.0 + damping) + 1e-9;
        }
        let Some(step) = solve(system, slope) else { return (point, here, false) };
        let next: Vec<f64> = point
            .iter()
            .zip(&step)
            .map(|(value, step)| (value * step.clamp(-STRIDE, STRIDE).exp()).clamp(LEAST, 1e9))
            .collect();
        let there = likelihood.at(&next);
        if there.value >= here.value {
            let gain = there.value - here.value;
            (point, here) = (next, there);
            damping = (damping * 0.3).max(1e-9);
            if gain < CLOSE {
                return (point, here, true);
            }
        } else {
            damping *= 5.0;
            if damping > 1e12 {
                return (point, here, true);
            }
        }
    }
    (point, here, false)
}

/// Returns the standard errors by the inverse of the observed information. Jumps near zero and
/// their decays are left out.
fn standard_errors(likelihood: &RowLikelihood<'_>, point: &[f64], at: &LikelihoodPoint) -> Vec<Option<f64>> {
    let parameters = likelihood.parameters(point);
    let places = likelihood.decay_places();
    let mut free = vec![0];
    for (c, (jump, decay)) in parameters.jumps.iter().zip(&parameters.decays).enumerate() {
        if jump / decay > LEAST_BRANCHING {
            free.push(1 + c);
            free.extend(places[c]);
        }
    }
    free.sort_unstable();
    let matrix: Vec<Vec<f64>> = free.iter().map(|i| free.iter().map(|j| at.information[*i][*j]).collect()).collect();
    let mut errors = vec![None; point.len()];
    if let Some(inverse) = invert(&matrix) {
        for (row, place) in free.iter().enumerate() {
            let variance = inverse[row][row];
            errors[*place] = (variance > 0.0).then(|| variance.sqrt());
        }
    }
    errors
}

/// Returns the Kolmogorov-Smirnov distance of a sample from an exponential law with mean 1, and the
/// probability of a larger one (Kolmogorov 1933; correction for small samples by Stephens 1970).
pub fn exponential_test(mut sample: Vec<f64>) -> (f64, f64) {
    sample.sort_unstable_by(f64::total_cmp);
    let count = sample.len() as f64;
    let gap = |(rank, value): (usize, &f64)| {
        let law = 1.0 - (-value).exp();
        (law - rank as f64 / count).abs().max(((rank + 1) as f64 / count - law).abs())
    };
    let distance = sample.iter().enumerate().map(gap).fold(0.0, f64::max);
    let root = count.sqrt();
    let scaled = distance * (root + 0.12 + 0.11 / root);
    let mut p_value = 0.0;
    for k in 1..=100 {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        p_value += sign * (-2.0 * f64::from(k * k) * scaled * scaled).exp();
    }
    (distance, if scaled < 0.2 { 1.0 } else { p_value.clamp(0.0, 1.0) })
}
