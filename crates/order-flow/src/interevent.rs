//! Times between the events of a process, measured against theory.
//!
//! Does        collect two histograms: of the integrated intensity between two events, which is
//!             exponential with mean 1 if the times follow the kernel (time rescaling, Brown,
//!             Barbieri, Ventura, Kass and Frank 2002), and of the plain gap times the long-run
//!             rate, which would be exponential only without excitation.
//! Holds       the intensity is computed from the kernel and the observed events alone, apart from
//!             the process that drew them.
//! Costs       an exponential for each distinct decay per event; memory does not grow.
//! Start at    [`IntereventMeter::observe`].

use pitwire_model::VenueNanos;

use crate::kernel::Kernel;
use crate::math::exp;
use crate::number::NANOS_PER_SECOND;

/// Bins of a histogram; the last one has everything above.
const BINS: usize = 201;
/// Width of a bin, in means.
const BIN_WIDTH: f64 = 0.05;

/// Counts of a positive variable in bins of 0.05, up to 10 and above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitHistogram {
    counts: Vec<u64>,
}

impl Default for UnitHistogram {
    fn default() -> Self {
        UnitHistogram { counts: vec![0; BINS] }
    }
}

impl UnitHistogram {
    // The conversion saturates, and the value is not negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn record(&mut self, value: f64) {
        let bin = (value / BIN_WIDTH).max(0.0) as usize;
        self.counts[bin.min(BINS - 1)] += 1;
    }

    fn add(&mut self, other: &UnitHistogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the share of the values that are at least as large as each bound of a bin, with the
    /// bound: the empirical survival function at 0.05, 0.10, … 10. It is empty without values.
    pub fn survival(&self) -> Vec<(f64, f64)> {
        let whole = self.count();
        let mut left = whole;
        let mut points = Vec::new();
        for (bin, count) in self.counts.iter().enumerate().take(if whole == 0 { 0 } else { BINS - 1 }) {
            left -= count;
            points.push(((bin + 1) as f64 * BIN_WIDTH, left as f64 / whole as f64));
        }
        points
    }

    /// Returns the largest distance between the survival function and that of an exponential
    /// variable with mean 1, at the bounds of the bins (a Kolmogorov-Smirnov distance on a grid).
    pub fn distance_from_exponential(&self) -> f64 {
        self.survival().iter().map(|(at, share)| (share - exp(-at)).abs()).fold(0.0, f64::max)
    }
}

/// Times between events, as both histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntereventTimes {
    /// Integrated intensity between two events.
    pub rescaled: UnitHistogram,
    /// Gap times long-run rate.
    pub plain: UnitHistogram,
}

impl IntereventTimes {
    pub(crate) fn add(&mut self, other: &IntereventTimes) {
        self.rescaled.add(&other.rescaled);
        self.plain.add(&other.plain);
    }
}

/// The part of the intensity that decays at one rate.
#[derive(Clone, Debug)]
struct DecayGroup {
    /// Per second.
    rate: f64,
    /// Increase of the intensity, summed over all types, by an event of each type.
    jump: Vec<f64>,
    /// The current contribution of past events, per second.
    excited: f64,
}

/// Measures the times between the events of one process, from its start.
#[derive(Clone, Debug)]
pub struct IntereventMeter {
    base: f64,
    groups: Vec<DecayGroup>,
    long_run_rate: f64,
    at: VenueNanos,
    pub times: IntereventTimes,
}

impl IntereventMeter {
    /// Measures a process that starts at `start` without past events.
    pub fn new(kernel: &Kernel, start: VenueNanos) -> Self {
        let mut groups: Vec<DecayGroup> = Vec::new();
        for part in &kernel.parts {
            for (jumps, decays) in part.jump.iter().zip(&part.decay) {
                for (kind, (jump, decay)) in jumps.iter().zip(decays).enumerate() {
                    let at = groups.iter().position(|group| group.rate == *decay).unwrap_or_else(|| {
                        groups.push(DecayGroup { rate: *decay, jump: vec![0.0; kernel.types()], excited: 0.0 });
                        groups.len() - 1
                    });
                    groups[at].jump[kind] += jump;
                }
            }
        }
        IntereventMeter {
            base: kernel.base.iter().sum(),
            groups,
            long_run_rate: kernel.total_rate(),
            at: start,
            times: IntereventTimes::default(),
        }
    }

    /// Takes an event of type `kind`, or `None` for a suppressed candidate. Events come in
    /// order of time. The rescaled times between both kinds together are exponential.
    pub fn observe(&mut self, at: VenueNanos, kind: Option<usize>) {
        let gap_s = at.0.saturating_sub(self.at.0) as f64 / NANOS_PER_SECOND;
        let mut integral = self.base * gap_s;
        for group in &mut self.groups {
            let left = exp(-group.rate * gap_s);
            integral += group.excited * (1.0 - left) / group.rate;
            group.excited = group.excited * left + kind.map_or(0.0, |kind| group.jump[kind]);
        }
        self.times.rescaled.record(integral);
        self.times.plain.record(gap_s * self.long_run_rate);
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Exponential, ParameterSet};
    use crate::process::Process;
    use crate::random::Random;

    fn measured(kernel: &Kernel, by: &Kernel, events: usize) -> IntereventTimes {
        let mut process = Process::new(kernel, VenueNanos(0), Random::new(7, 0)).unwrap();
        let mut meter = IntereventMeter::new(by, VenueNanos(0));
        for _ in 0..events {
            let (at, kind) = process.upcoming();
            meter.observe(at, Some(kind));
            process.advance();
        }
        meter.times
    }

    #[test]
    fn rescaled_times_are_exponential_and_plain_gaps_are_not() {
        let kernel = Kernel::published(ParameterSet::File);
        let times = measured(&kernel, &kernel, 100_000);
        // The 99.9 % bound of Kolmogorov and Smirnov: 1.95 / √n.
        let bound = 1.95 / 100_000_f64.sqrt();
        assert!(times.rescaled.distance_from_exponential() < bound, "{}", times.rescaled.distance_from_exponential());
        assert!(times.plain.distance_from_exponential() > 2.0 * bound, "{}", times.plain.distance_from_exponential());
    }

    #[test]
    fn times_of_another_kernel_are_found_out() {
        let kernel = Kernel::published(ParameterSet::File);
        let stronger = Kernel { base: kernel.base.iter().map(|rate| rate * 1.1).collect(), ..kernel.clone() };
        let distance = measured(&kernel, &stronger, 100_000).rescaled.distance_from_exponential();
        assert!(distance > 1.95 / 100_000_f64.sqrt(), "{distance}");
    }

    #[test]
    fn the_integral_of_a_single_excitation_is_that_of_the_formula() {
        let mut part = Exponential { jump: vec![vec![0.0; 4]; 4], decay: vec![vec![3.0; 4]; 4] };
        part.jump[3][0] = 1.5;
        let kernel = Kernel { base: vec![2.0, 0.0, 0.0, 0.0], parts: vec![part] };
        let mut meter = IntereventMeter::new(&kernel, VenueNanos(0));
        meter.observe(VenueNanos(500_000_000), Some(0));
        meter.observe(VenueNanos(1_000_000_000), Some(3));
        // First 2 · 0.5 = 1; then 1 + 1.5 · (1 - e^-1.5) / 3 = 1.388: bins 20 and 27.
        let filled: Vec<usize> = (0..BINS).filter(|bin| meter.times.rescaled.counts[*bin] > 0).collect();
        assert_eq!(filled, [20, 27]);
        assert_eq!(meter.times.rescaled.survival()[26], (27.0 * BIN_WIDTH, 0.5));
    }
}
