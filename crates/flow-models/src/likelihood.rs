//! The log-likelihood of the events of one type, with its first and second derivatives.
//!
//! The intensity of a type is `μ + Σ_c α_c Σ_{past events s of the cause of c} exp(-β_c (t - s))`.
//! Ogata (1978) gives the likelihood; its sums are computed by recursion over the events (Ozaki
//! 1979), together with those of the derivatives by β.
//!
//! Start at    [`RowLikelihood::at`].

use crate::event_tape::EventTape;

/// A pair of an exponential and a type that excites.
#[derive(Clone, Copy, Debug)]
pub struct Cause {
    /// The type that excites.
    pub kind: usize,
    /// The decay rate, if it is not fitted.
    pub decay: Option<f64>,
}

/// The likelihood of one type.
pub struct RowLikelihood<'a> {
    tape: &'a EventTape,
    /// The type that is excited.
    kind: usize,
    pub causes: Vec<Cause>,
}

/// Value and derivatives at one point.
pub struct LikelihoodPoint {
    pub value: f64,
    pub gradient: Vec<f64>,
    /// Minus the second derivatives.
    pub information: Vec<Vec<f64>>,
    /// Sum of the outer products of the score of each event: never indefinite.
    pub scores: Vec<Vec<f64>>,
}

/// Sums over the past events of a cause: of `e^(-βΔ)`, `Δ e^(-βΔ)` and `Δ² e^(-βΔ)`.
#[derive(Clone, Copy, Default)]
struct DecayedSums([f64; 3]);

impl DecayedSums {
    fn age(&mut self, seconds: f64, decay: f64) {
        let [a, b, c] = self.0;
        let left = (-decay * seconds).exp();
        self.0 = [left * a, left * (b + seconds * a), left * (c + 2.0 * seconds * b + seconds * seconds * a)];
    }
}

/// The parameters of a type, in the order of a point: base, jumps, then the decays that are fitted.
#[derive(Clone, Debug)]
pub struct RowParameters {
    pub base: f64,
    pub jumps: Vec<f64>,
    pub decays: Vec<f64>,
}

impl<'a> RowLikelihood<'a> {
    pub fn new(tape: &'a EventTape, kind: usize, causes: Vec<Cause>) -> Self {
        RowLikelihood { tape, kind, causes }
    }

    /// Returns the number of parameters.
    pub fn size(&self) -> usize {
        1 + self.causes.len() + self.causes.iter().filter(|cause| cause.decay.is_none()).count()
    }

    /// Returns half of the mean rate of a type.
    pub fn base_start(&self, kind: usize) -> f64 {
        0.5 * self.tape.times[kind].len() as f64 / self.tape.seconds.max(1e-9)
    }

    /// Returns the index of the decay of each cause in a point.
    pub fn decay_places(&self) -> Vec<Option<usize>> {
        let mut next = 1 + self.causes.len();
        let place = |cause: &Cause| {
            cause.decay.is_none().then(|| {
                next += 1;
                next - 1
            })
        };
        self.causes.iter().map(place).collect()
    }

    /// Splits a point into the parameters.
    pub fn parameters(&self, point: &[f64]) -> RowParameters {
        let decays = self.causes.iter().zip(self.decay_places());
        RowParameters {
            base: point[0],
            jumps: point[1..=self.causes.len()].to_vec(),
            decays: decays.map(|(cause, place)| place.map_or(cause.decay.unwrap_or(1.0), |at| point[at])).collect(),
        }
    }

    /// Returns the sums of a cause just before each event of the type.
    fn sums(&self, cause: usize, decay: f64) -> Vec<DecayedSums> {
        let own = &self.tape.times[self.kind];
        let causing = &self.tape.times[cause];
        let (mut sums, mut at, mut next) = (DecayedSums::default(), 0.0, 0);
        let mut all = Vec::with_capacity(own.len());
        for &time in own {
            while next < causing.len() && causing[next] < time {
                sums.age(causing[next] - at, decay);
                sums.0[0] += 1.0;
                (at, next) = (causing[next], next + 1);
            }
            let mut here = sums;
            here.age(time - at, decay);
            all.push(here);
        }
        all
    }

    /// Computes the likelihood at a point with positive entries.
    #[allow(clippy::needless_range_loop)] // the lower halves of two matrices, by row and column
    pub fn at(&self, point: &[f64]) -> LikelihoodPoint {
        let RowParameters { base, jumps, decays } = self.parameters(point);
        let (size, count, places) = (self.size(), self.causes.len(), self.decay_places());
        let sums: Vec<Vec<DecayedSums>> =
            self.causes.iter().zip(&decays).map(|(cause, decay)| self.sums(cause.kind, *decay)).collect();
        let mut result = LikelihoodPoint {
            value: -base * self.tape.seconds,
            gradient: vec![0.0; size],
            information: vec![vec![0.0; size]; size],
            scores: vec![vec![0.0; size]; size],
        };
        result.gradient[0] = -self.tape.seconds;
        let mut slope = vec![0.0; size];
        for event in 0..self.tape.times[self.kind].len() {
            let mut intensity = base;
            slope[0] = 1.0;
            for (c, (sums, place)) in sums.iter().zip(&places).enumerate() {
                let [a, b, _] = sums[event].0;
                intensity += jumps[c] * a;
                slope[1 + c] = a;
                if let Some(place) = place {
                    slope[*place] = -jumps[c] * b;
                }
            }
            let weight = 1.0 / intensity;
            result.value += intensity.ln();
            for i in 0..size {
                let score = slope[i] * weight;
                result.gradient[i] += score;
                for j in 0..=i {
                    result.scores[i][j] += score * slope[j] * weight;
                }
            }
            for (c, (sums, place)) in sums.iter().zip(&places).enumerate() {
                let Some(place) = *place else { continue };
                let [_, b, square] = sums[event].0;
                result.information[place][1 + c] += b * weight;
                result.information[place][place] -= jumps[c] * square * weight;
            }
        }
        for c in 0..count {
            self.subtract_integral(&mut result, c, (jumps[c], decays[c]), places[c]);
        }
        for i in 0..size {
            for j in 0..=i {
                result.information[i][j] += result.scores[i][j];
                result.information[j][i] = result.information[i][j];
                result.scores[j][i] = result.scores[i][j];
            }
        }
        result
    }

    /// Subtracts the integral of the contribution of a cause over the tape.
    fn subtract_integral(
        &self,
        result: &mut LikelihoodPoint,
        cause: usize,
        (jump, decay): (f64, f64),
        place: Option<usize>,
    ) {
        let (mut k, mut k1, mut k2) = (0.0, 0.0, 0.0);
        for time in &self.tape.times[self.causes[cause].kind] {
            let rest = self.tape.seconds - time;
            let left = (-decay * rest).exp();
            k += 1.0 - left;
            k1 += rest * left;
            k2 -= rest * rest * left;
        }
        let by_decay = k1 / decay - k / (decay * decay);
        result.value -= jump * k / decay;
        result.gradient[1 + cause] -= k / decay;
        if let Some(place) = place {
            result.gradient[place] -= jump * by_decay;
            result.information[place][1 + cause] += by_decay;
            result.information[place][place] +=
                jump * (k2 / decay - 2.0 * k1 / (decay * decay) + 2.0 * k / (decay * decay * decay));
        }
    }

    /// Returns the integrated intensity between neighbouring events of the type. The times are
    /// exponential with mean 1 if the parameters are those of the tape (Papangelou 1972).
    pub fn rescaled_times(&self, point: &[f64]) -> Vec<f64> {
        let RowParameters { base, jumps, decays } = self.parameters(point);
        let own = &self.tape.times[self.kind];
        let mut integrals: Vec<f64> = own.iter().map(|time| base * time).collect();
        for (c, cause) in self.causes.iter().enumerate() {
            let causing = &self.tape.times[cause.kind];
            let mut before = 0;
            for ((time, integral), sums) in own.iter().zip(&mut integrals).zip(self.sums(cause.kind, decays[c])) {
                while before < causing.len() && causing[before] < *time {
                    before += 1;
                }
                *integral += jumps[c] / decays[c] * (before as f64 - sums.0[0]);
            }
        }
        let mut previous = 0.0;
        integrals.into_iter().map(|integral| integral - std::mem::replace(&mut previous, integral)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape() -> EventTape {
        EventTape {
            types: vec!["a".into(), "b".into()],
            times: vec![vec![0.3, 0.9, 1.0, 2.4, 2.5, 3.9], vec![0.1, 1.0, 2.2, 3.0]],
            seconds: 4.5,
        }
    }

    fn likelihood(tape: &EventTape) -> RowLikelihood<'_> {
        let causes = [(0, None), (1, None), (1, Some(0.5))].map(|(kind, decay)| Cause { kind, decay });
        RowLikelihood::new(tape, 0, causes.into())
    }

    const POINT: [f64; 6] = [0.4, 0.7, 0.2, 0.3, 1.7, 0.9];

    /// The likelihood by its definition, with the integral summed in small steps.
    fn by_definition(tape: &EventTape) -> f64 {
        let causes = [(0, 0.7, 1.7), (1, 0.2, 0.9), (1, 0.3, 0.5)];
        let intensity = |at: f64| {
            let past = |kind: usize, jump: f64, decay: f64| {
                let times = tape.times[kind].iter().filter(|time| **time < at);
                times.map(|time| jump * (-decay * (at - time)).exp()).sum::<f64>()
            };
            0.4 + causes.iter().map(|(kind, jump, decay)| past(*kind, *jump, *decay)).sum::<f64>()
        };
        const STEPS: u32 = 450_000;
        let step = tape.seconds / f64::from(STEPS);
        let integral: f64 = (0..STEPS).map(|n| intensity((f64::from(n) + 0.5) * step) * step).sum();
        tape.times[0].iter().map(|time| intensity(*time).ln()).sum::<f64>() - integral
    }

    #[test]
    fn the_likelihood_is_that_of_the_definition() {
        let tape = tape();
        let value = likelihood(&tape).at(&POINT).value;
        assert!((value - by_definition(&tape)).abs() < 1e-5, "{value} and {}", by_definition(&tape));
    }

    #[test]
    fn derivatives_are_those_of_small_steps() {
        const STEP: f64 = 1e-5;
        let tape = tape();
        let likelihood = likelihood(&tape);
        let here = likelihood.at(&POINT);
        for i in 0..POINT.len() {
            let beside = |by: f64| {
                let mut point = POINT;
                point[i] += by;
                likelihood.at(&point)
            };
            let (up, down) = (beside(STEP), beside(-STEP));
            let slope = (up.value - down.value) / (2.0 * STEP);
            assert!((slope - here.gradient[i]).abs() < 1e-6, "{i}: {slope} and {}", here.gradient[i]);
            for j in 0..POINT.len() {
                let bend = -(up.gradient[j] - down.gradient[j]) / (2.0 * STEP);
                let found = here.information[i][j];
                assert!((bend - found).abs() < 1e-5, "{i}, {j}: {bend} and {found}");
            }
        }
    }

    #[test]
    fn rescaled_times_add_up_to_the_integral() {
        let tape = tape();
        let likelihood = likelihood(&tape);
        let total: f64 = likelihood.rescaled_times(&POINT).iter().sum();
        // The tape up to the last event.
        let shorter = EventTape { seconds: 3.9, ..tape.clone() };
        let shorter = RowLikelihood::new(&shorter, 0, likelihood.causes.clone());
        let integral = by_parts(&shorter);
        assert!((total - integral).abs() < 1e-9, "{total} and {integral}");
    }

    /// The integral from the likelihood: minus its derivative by a common factor, plus the events.
    fn by_parts(likelihood: &RowLikelihood<'_>) -> f64 {
        let here = likelihood.at(&POINT);
        let along: f64 = (0..4).map(|i| here.gradient[i] * POINT[i]).sum();
        likelihood.tape.times[0].len() as f64 - along
    }
}
