//! The parameters of an eight-type mutually exciting process, and what theory says of them.
//!
//! Intensity of type i (Hawkes 1971): `base[i] + Σ_j Σ_{past events t of j} jump[i][j]·exp(-decay[i][j]·(now - t))`.
//! Types in order: market buy and sell that empty the touch; buy and sell limit inside the spread; market buy and
//! sell that leave the touch; buy and sell limit behind the touch. Buys are even, sells odd, counting from 0.
//!
//! Holds       what `check` accepts has a stationary version: finite, non-negative, spectral radius below 1.
//! Start at    [`Kernel::published`], then [`Kernel::radius`].

use crate::error::FlowError;

pub const TYPES: usize = 8;
pub type Vector = [f64; TYPES];
/// Indexed by the type that is excited, then by the type that excites.
pub type Matrix = [[f64; TYPES]; TYPES];

/// Which parameters the published results were made with: what the data file says, or what its loader made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// 30.93 events a second, radius 0.617.
    File,
    /// 31.08 events a second, radius 0.612. The published runs agree with this one.
    AsLoaded,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// μ: events per second that nothing caused.
    pub base: Vector,
    /// α: what one event adds to an intensity.
    pub jump: Matrix,
    /// β: how fast that decays, per second.
    pub decay: Matrix,
}

impl Kernel {
    /// The published set (`market-rules.md` 16.2 and 16.3).
    pub fn published(reading: Reading) -> Kernel {
        const BASE: Vector = [0.80, 1.00, 1.20, 1.40, 1.60, 1.80, 2.00, 2.20];
        const OWN_DECAY: Vector = [4.0, 3.5, 3.0, 3.5, 3.0, 3.5, 3.0, 3.5];
        const OTHER_DECAY: [f64; TYPES - 1] = [2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7];
        let file_jump = |i: usize, j: usize| if i == j { 0.1 } else { 0.2 };
        // Each row lists the seven others in order, its own place left out.
        let file_decay = |i: usize, j: usize| if i == j { OWN_DECAY[i] } else { OTHER_DECAY[j - usize::from(j > i)] };
        match reading {
            Reading::File => Kernel { base: BASE, jump: matrix(file_jump), decay: matrix(file_decay) },
            // The loader gave every row the first row's jumps, and row i the i-th of the file's first eight decays.
            Reading::AsLoaded => {
                Kernel { base: BASE, jump: matrix(|_, j| file_jump(0, j)), decay: matrix(|i, _| file_decay(0, i)) }
            }
        }
    }

    /// The published set made even-handed: each parameter is the mean of itself and its mirror, buys and sells
    /// exchanged. Left as published, its sells outnumber its buys and the price sinks.
    pub fn symmetric() -> Kernel {
        let published = Kernel::published(Reading::File);
        let mirror = |kind: usize| kind ^ 1;
        Kernel {
            base: std::array::from_fn(|i| (published.base[i] + published.base[mirror(i)]) / 2.0),
            jump: matrix(|i, j| (published.jump[i][j] + published.jump[mirror(i)][mirror(j)]) / 2.0),
            decay: matrix(|i, j| (published.decay[i][j] + published.decay[mirror(i)][mirror(j)]) / 2.0),
        }
    }

    /// Faster or slower as a film is: every shape stays, the total becomes `events_per_second`.
    #[must_use]
    pub fn at_rate(&self, events_per_second: f64) -> Kernel {
        let speed = events_per_second / self.total_rate();
        Kernel {
            base: self.base.map(|rate| rate * speed),
            jump: matrix(|i, j| self.jump[i][j] * speed),
            decay: matrix(|i, j| self.decay[i][j] * speed),
        }
    }

    /// Whether a process with these parameters can be run for ever.
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
        // Written so that not-a-number is refused too.
        if radius < 1.0 { Ok(()) } else { Err(FlowError::Unstable { radius }) }
    }

    /// How many events of type i one event of type j causes directly: jump over decay.
    pub fn branching(&self) -> Matrix {
        matrix(|i, j| self.jump[i][j] / self.decay[i][j])
    }

    /// The largest eigenvalue of the branching matrix: below 1, and only then, the process is stable
    /// (Brémaud and Massoulié 1996).
    ///
    /// Power iteration on `1 + G`, which unlike `G` always settles. For a non-negative matrix and a positive vector
    /// the largest growth of an entry is never below the true value (Collatz 1942), so the answer errs to the safe side.
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
            // Kept off zero, so that an entry which causes nothing can still be divided by.
            vector = grown.map(|entry| (entry / largest).max(1e-200));
        }
        most - 1.0
    }

    /// Long-run events per second of each type: `(1 - G)^-1 μ` (Hawkes 1971). Meaningful when `check` passes.
    pub fn stationary_rates(&self) -> Vector {
        let branching = self.branching();
        let system = matrix(|i, j| f64::from(u8::from(i == j)) - branching[i][j]);
        solve(system, self.base)
    }

    /// Variance of each type's count per second in the long run: the diagonal of `(1 - G)^-1 diag(rates) (1 - G)^-T`
    /// (Bacry, Delattre, Hoffmann and Muzy 2013). Events that cause others make counts spread wider than Poisson's.
    pub fn count_variances(&self) -> Vector {
        let (branching, rates) = (self.branching(), self.stationary_rates());
        let system = matrix(|i, j| f64::from(u8::from(i == j)) - branching[i][j]);
        // How many events of each type one of type j comes to in the end, itself included.
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

/// Gauss-Jordan elimination with partial pivoting.
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
