//! The parameters of a mutually exciting process with eight event types, and its theoretical
//! properties.
//!
//! Intensity of type i (Hawkes 1971): `base[i] + Σ_j Σ_{past events t of j}
//! jump[i][j]·exp(-decay[i][j]·(now - t))`. Types in order: market buy and sell that empty the best
//! price; limit buy and sell inside the spread; market buy and sell that leave the best price;
//! limit buy and sell behind it. Counted from 0, buys are even and sells are odd.
//!
//! Holds       a kernel that `check` accepts has a stationary process: it is finite, non-negative,
//!             and its spectral radius is below 1.
//! Start at    [`Kernel::published`], then [`Kernel::radius`].

use crate::error::FlowError;

/// Number of event types.
pub const TYPES: usize = 8;
/// A value per event type.
pub type Vector = [f64; TYPES];
/// Indexed by the type that is excited, then by the type that excites.
pub type Matrix = [[f64; TYPES]; TYPES];

/// The two versions of the published parameters: those in the data file, and those that its loader
/// produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterSet {
    /// 30.93 events per second, radius 0.617.
    File,
    /// 31.08 events per second, radius 0.612. The published runs agree with this version.
    AsLoaded,
}

/// Parameters of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// μ: events per second that no event causes.
    pub base: Vector,
    /// α: the increase of an intensity by one event.
    pub jump: Matrix,
    /// β: the rate at which the increase decays, per second.
    pub decay: Matrix,
}

impl Kernel {
    /// Returns the published parameters (CoinTossX, arXiv 2102.10925, and its configuration file).
    pub fn published(reading: ParameterSet) -> Kernel {
        const BASE: Vector = [0.80, 1.00, 1.20, 1.40, 1.60, 1.80, 2.00, 2.20];
        const OWN_DECAY: Vector = [4.0, 3.5, 3.0, 3.5, 3.0, 3.5, 3.0, 3.5];
        const OTHER_DECAY: [f64; TYPES - 1] = [2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7];
        let file_jump = |i: usize, j: usize| if i == j { 0.1 } else { 0.2 };
        // Each row lists the seven other types in order.
        let file_decay = |i: usize, j: usize| if i == j { OWN_DECAY[i] } else { OTHER_DECAY[j - usize::from(j > i)] };
        match reading {
            ParameterSet::File => Kernel { base: BASE, jump: matrix(file_jump), decay: matrix(file_decay) },
            // The loader gave every row the jumps of the first row, and row i the i-th of the first
            // eight decays in the file.
            ParameterSet::AsLoaded => {
                Kernel { base: BASE, jump: matrix(|_, j| file_jump(0, j)), decay: matrix(|i, _| file_decay(0, i)) }
            }
        }
    }

    /// Returns the published parameters made symmetric: each one is the mean of itself and the one
    /// with buys and sells exchanged. The published set has more sells than buys, so its price
    /// falls.
    pub fn symmetric() -> Kernel {
        let published = Kernel::published(ParameterSet::File);
        let mirror = |kind: usize| kind ^ 1;
        Kernel {
            base: std::array::from_fn(|i| (published.base[i] + published.base[mirror(i)]) / 2.0),
            jump: matrix(|i, j| (published.jump[i][j] + published.jump[mirror(i)][mirror(j)]) / 2.0),
            decay: matrix(|i, j| (published.decay[i][j] + published.decay[mirror(i)][mirror(j)]) / 2.0),
        }
    }

    /// Scales time so that the total rate becomes `events_per_second`. The shape stays.
    #[must_use]
    pub fn at_rate(&self, events_per_second: f64) -> Kernel {
        let speed = events_per_second / self.total_rate();
        Kernel {
            base: self.base.map(|rate| rate * speed),
            jump: matrix(|i, j| self.jump[i][j] * speed),
            decay: matrix(|i, j| self.decay[i][j] * speed),
        }
    }

    /// Checks that the process is stable.
    ///
    /// # Errors
    ///
    /// Returns an error if a parameter is out of range or the spectral radius is 1 or more.
    pub fn check(&self) -> Result<(), FlowError> {
        let bad = |name| Err(FlowError::BadParameter { name });
        let not_negative = |value: &f64| value.is_finite() && *value >= 0.0;
        if !self.base.iter().all(not_negative) || self.base.iter().sum::<f64>() <= 0.0 {
            return bad("base");
        }
        if !self.jump.iter().flatten().all(not_negative) {
            return bad("jump");
        }
        if !self.decay.iter().flatten().all(|value| value.is_finite() && *value > 0.0) {
            return bad("decay");
        }
        let radius = self.radius();
        // Written so that NaN is refused too.
        if radius < 1.0 { Ok(()) } else { Err(FlowError::Unstable { radius }) }
    }

    /// Returns the number of events of type i that one event of type j causes directly: jump over
    /// decay.
    pub fn branching(&self) -> Matrix {
        matrix(|i, j| self.jump[i][j] / self.decay[i][j])
    }

    /// Returns the largest eigenvalue of the branching matrix. The process is stable if and only if
    /// it is below 1 (Brémaud and Massoulié 1996).
    ///
    /// It is computed by power iteration on `1 + G`, which converges for every `G`. For a
    /// non-negative matrix and a positive vector the largest growth of an entry is never below the
    /// true value (Collatz 1942), so the result is never too small.
    pub fn radius(&self) -> f64 {
        const STEPS: usize = 10_000;
        const CLOSE: f64 = 1e-13;
        let branching = self.branching();
        let mut vector = [1.0; TYPES];
        let mut most = f64::INFINITY;
        for _ in 0..STEPS {
            let grown: Vector = std::array::from_fn(|i| vector[i] + dot(&branching[i], &vector));
            let growths = std::array::from_fn::<f64, TYPES, _>(|i| grown[i] / vector[i]);
            most = growths.iter().fold(0.0, |most: f64, growth| most.max(*growth));
            let least = growths.iter().fold(f64::INFINITY, |least: f64, growth| least.min(*growth));
            if !most.is_finite() || most - least < CLOSE {
                break;
            }
            let largest = grown.iter().fold(0.0, |largest: f64, entry| largest.max(*entry));
            // Kept above zero, because the next step divides by it.
            vector = grown.map(|entry| (entry / largest).max(1e-200));
        }
        most - 1.0
    }

    /// Returns the long-run rate of each type per second: `(1 - G)^-1 μ` (Hawkes 1971). Valid if
    /// `check` passes.
    pub fn stationary_rates(&self) -> Vector {
        let branching = self.branching();
        let system = matrix(|i, j| f64::from(u8::from(i == j)) - branching[i][j]);
        solve(system, self.base)
    }

    /// Returns the long-run variance of the count of each type per second: the diagonal of `(1 -
    /// G)^-1 diag(rates) (1 - G)^-T` (Bacry, Delattre, Hoffmann and Muzy 2013). It exceeds that of
    /// a Poisson process, because events cause others.
    pub fn count_variances(&self) -> Vector {
        let (branching, rates) = (self.branching(), self.stationary_rates());
        let system = matrix(|i, j| f64::from(u8::from(i == j)) - branching[i][j]);
        // The total number of events of each type that follow from one of type j, including itself.
        let progeny: Matrix =
            std::array::from_fn(|j| solve(system, std::array::from_fn(|i| f64::from(u8::from(i == j)))));
        std::array::from_fn(|i| (0..TYPES).map(|j| progeny[j][i] * progeny[j][i] * rates[j]).sum())
    }

    pub fn total_rate(&self) -> f64 {
        self.stationary_rates().iter().sum()
    }
}

pub(crate) fn matrix(entry: impl Fn(usize, usize) -> f64) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)))
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves a linear system by Gauss-Jordan elimination with partial pivoting.
fn solve(mut system: Matrix, mut right: Vector) -> Vector {
    for column in 0..TYPES {
        let size = |row: &usize| system[*row][column].abs();
        let pivot = (column..TYPES).max_by(|a, b| size(a).total_cmp(&size(b))).unwrap_or(column);
        system.swap(column, pivot);
        right.swap(column, pivot);
        let (pivot_row, pivot_right) = (system[column], right[column]);
        for row in (0..TYPES).filter(|row| *row != column) {
            let factor = system[row][column] / pivot_row[column];
            for (entry, pivot_entry) in system[row].iter_mut().zip(pivot_row) {
                *entry -= factor * pivot_entry;
            }
            right[row] -= factor * pivot_right;
        }
    }
    std::array::from_fn(|row| right[row] / system[row][row])
}
