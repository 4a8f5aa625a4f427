//! The parameters of a mutually exciting process, and its theoretical properties.
//!
//! Intensity of type i (Hawkes 1971), with any number of exponentials m: `base[i] + Σ_m Σ_j Σ_{past
//! events t of j} jump[m][i][j]·exp(-decay[m][i][j]·(now - t))`. The published set has eight types
//! and one exponential. Its types in order: market buy and sell that empty the best price; limit
//! buy and sell inside the spread; market buy and sell that leave the best price; limit buy and
//! sell behind it.
//!
//! Holds       a kernel that `check` accepts has a stationary process: it is finite, non-negative,
//!             and its spectral radius is below 1.
//! Start at    [`Kernel::published`], then [`Kernel::radius`].

use crate::error::FlowError;

/// Number of event types of the published set.
pub const TYPES: usize = 8;
/// Most event types of a kernel. The cost of an event grows with their square.
pub const MOST_TYPES: usize = 64;
/// Most exponentials of a kernel.
pub const MOST_PARTS: usize = 8;

/// A value per event type.
pub type Vector = Vec<f64>;
/// Indexed by the type that is excited, then by the type that excites.
pub type Matrix = Vec<Vec<f64>>;

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
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// μ: events per second that no event causes.
    pub base: Vector,
    /// The exponentials, whose contributions add up.
    pub parts: Vec<Exponential>,
}

/// One exponential of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    /// α: the increase of an intensity by one event.
    pub jump: Matrix,
    /// β: the rate at which the increase decays, per second.
    pub decay: Matrix,
}

/// Checks the shape and the values of a square matrix.
fn check_matrix(
    name: &str,
    matrix: &Matrix,
    types: usize,
    is_valid: impl Fn(&f64) -> bool,
    expected: &str,
) -> Result<(), FlowError> {
    if let Some(row) = matrix.iter().find(|row| row.len() != types) {
        return Err(FlowError::bad(
            name,
            format!("a row of {} values", row.len()),
            format!("{types}, one for each type"),
        ));
    }
    if matrix.len() != types {
        return Err(FlowError::bad(name, format!("{} rows", matrix.len()), format!("{types}, one for each type")));
    }
    for (i, row) in matrix.iter().enumerate() {
        if let Some(j) = row.iter().position(|value| !is_valid(value)) {
            return Err(FlowError::bad(format!("{name}[{i}][{j}]"), row[j], expected));
        }
    }
    Ok(())
}

impl Kernel {
    /// Returns the published parameters (CoinTossX, arXiv 2102.10925, and its configuration file).
    pub fn published(reading: ParameterSet) -> Kernel {
        const BASE: [f64; TYPES] = [0.80, 1.00, 1.20, 1.40, 1.60, 1.80, 2.00, 2.20];
        const OWN_DECAY: [f64; TYPES] = [4.0, 3.5, 3.0, 3.5, 3.0, 3.5, 3.0, 3.5];
        const OTHER_DECAY: [f64; TYPES - 1] = [2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7];
        let file_jump = |i: usize, j: usize| if i == j { 0.1 } else { 0.2 };
        // Each row lists the seven other types in order.
        let file_decay = |i: usize, j: usize| if i == j { OWN_DECAY[i] } else { OTHER_DECAY[j - usize::from(j > i)] };
        let part = match reading {
            ParameterSet::File => Exponential { jump: matrix(TYPES, file_jump), decay: matrix(TYPES, file_decay) },
            // The loader gave every row the jumps of the first row, and row i the i-th of the first
            // eight decays in the file.
            ParameterSet::AsLoaded => Exponential {
                jump: matrix(TYPES, |_, j| file_jump(0, j)),
                decay: matrix(TYPES, |i, _| file_decay(0, i)),
            },
        };
        Kernel { base: BASE.to_vec(), parts: vec![part] }
    }

    /// Returns the published parameters made symmetric: each one is the mean of itself and the one
    /// with buys and sells exchanged. The published set has more sells than buys, so its price
    /// falls.
    pub fn symmetric() -> Kernel {
        let published = Kernel::published(ParameterSet::File);
        let mirror = |kind: usize| kind ^ 1;
        let mean = |of: &Matrix| matrix(TYPES, |i, j| (of[i][j] + of[mirror(i)][mirror(j)]) / 2.0);
        Kernel {
            base: (0..TYPES).map(|i| (published.base[i] + published.base[mirror(i)]) / 2.0).collect(),
            parts: published
                .parts
                .iter()
                .map(|part| Exponential { jump: mean(&part.jump), decay: mean(&part.decay) })
                .collect(),
        }
    }

    /// Returns the number of event types.
    pub fn types(&self) -> usize {
        self.base.len()
    }

    /// Scales time so that the total rate becomes `events_per_second`. The shape stays.
    #[must_use]
    pub fn at_rate(&self, events_per_second: f64) -> Kernel {
        self.scaled(events_per_second / self.total_rate())
    }

    /// Scales time: everything happens `speed` times as fast.
    #[must_use]
    pub fn scaled(&self, speed: f64) -> Kernel {
        let faster = |of: &Matrix| matrix(self.types(), |i, j| of[i][j] * speed);
        Kernel {
            base: self.base.iter().map(|rate| rate * speed).collect(),
            parts: self
                .parts
                .iter()
                .map(|part| Exponential { jump: faster(&part.jump), decay: faster(&part.decay) })
                .collect(),
        }
    }

    /// Checks that the process is stable.
    ///
    /// # Errors
    ///
    /// Returns an error if a parameter is out of range or the spectral radius is 1 or more.
    pub fn check(&self) -> Result<(), FlowError> {
        const NOT_NEGATIVE: &str = "a finite number, at least 0";
        let not_negative = |value: &f64| value.is_finite() && *value >= 0.0;
        let types = self.types();
        if !(1..=MOST_TYPES).contains(&types) {
            return Err(FlowError::bad("number of types", types, format!("1 to {MOST_TYPES}")));
        }
        if self.parts.len() > MOST_PARTS {
            return Err(FlowError::bad("number of exponentials", self.parts.len(), format!("at most {MOST_PARTS}")));
        }
        if let Some(base) = self.base.iter().find(|base| !not_negative(base)) {
            return Err(FlowError::bad("base_per_s", base, NOT_NEGATIVE));
        }
        if self.base.iter().sum::<f64>() <= 0.0 {
            return Err(FlowError::bad("base_per_s", "0 for every type", "one above 0"));
        }
        for Exponential { jump, decay } in &self.parts {
            check_matrix("jump_per_s", jump, types, not_negative, NOT_NEGATIVE)?;
            let is_positive = |value: &f64| value.is_finite() && *value > 0.0;
            check_matrix("decay_per_s", decay, types, is_positive, "a finite number above 0")?;
        }
        let radius = self.radius();
        // Written so that NaN is refused too.
        if radius < 1.0 { Ok(()) } else { Err(FlowError::Unstable { radius }) }
    }

    /// Returns the number of events of type i that one event of type j causes directly: jump over
    /// decay, over all exponentials.
    pub fn branching(&self) -> Matrix {
        let caused = |part: &Exponential, i: usize, j: usize| part.jump[i][j] / part.decay[i][j];
        matrix(self.types(), |i, j| self.parts.iter().fold(0.0, |sum, part| sum + caused(part, i, j)))
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
        let mut vector = vec![1.0; self.types()];
        let mut most = f64::INFINITY;
        for _ in 0..STEPS {
            let grown: Vector = vector.iter().zip(&branching).map(|(entry, row)| entry + dot(row, &vector)).collect();
            let (mut least, mut largest) = (f64::INFINITY, 0.0_f64);
            most = 0.0;
            for (grown, before) in grown.iter().zip(&vector) {
                let growth = grown / before;
                (most, least) = (most.max(growth), least.min(growth));
                largest = largest.max(*grown);
            }
            if !most.is_finite() || most - least < CLOSE {
                break;
            }
            // Kept above zero, because the next step divides by it.
            vector = grown.iter().map(|entry| (entry / largest).max(1e-200)).collect();
        }
        most - 1.0
    }

    /// Returns the long-run rate of each type per second: `(1 - G)^-1 μ` (Hawkes 1971). Valid if
    /// `check` passes.
    pub fn stationary_rates(&self) -> Vector {
        solve(self.unit_minus_branching(), self.base.clone())
    }

    /// Returns the long-run variance of the count of each type per second: the diagonal of `(1 -
    /// G)^-1 diag(rates) (1 - G)^-T` (Bacry, Delattre, Hoffmann and Muzy 2013). It exceeds that of
    /// a Poisson process, because events cause others.
    pub fn count_variances(&self) -> Vector {
        let (rates, types) = (self.stationary_rates(), self.types());
        let system = self.unit_minus_branching();
        let unit = |j: usize| (0..types).map(|i| f64::from(u8::from(i == j))).collect();
        // The total number of events of each type that follow from one of type j, including itself.
        let progeny: Matrix = (0..types).map(|j| solve(system.clone(), unit(j))).collect();
        (0..types).map(|i| (0..types).map(|j| progeny[j][i] * progeny[j][i] * rates[j]).sum()).collect()
    }

    fn unit_minus_branching(&self) -> Matrix {
        let branching = self.branching();
        matrix(self.types(), |i, j| f64::from(u8::from(i == j)) - branching[i][j])
    }

    pub fn total_rate(&self) -> f64 {
        self.stationary_rates().iter().sum()
    }
}

pub(crate) fn matrix(types: usize, entry: impl Fn(usize, usize) -> f64) -> Matrix {
    (0..types).map(|i| (0..types).map(|j| entry(i, j)).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Solves a linear system by Gauss-Jordan elimination with partial pivoting.
fn solve(mut system: Matrix, mut right: Vector) -> Vector {
    let size = right.len();
    for column in 0..size {
        let weight = |row: &usize| system[*row][column].abs();
        let pivot = (column..size).max_by(|a, b| weight(a).total_cmp(&weight(b))).unwrap_or(column);
        system.swap(column, pivot);
        right.swap(column, pivot);
        let (pivot_row, pivot_right) = (system[column].clone(), right[column]);
        for row in (0..size).filter(|row| *row != column) {
            let factor = system[row][column] / pivot_row[column];
            for (entry, pivot_entry) in system[row].iter_mut().zip(&pivot_row) {
                *entry -= factor * pivot_entry;
            }
            right[row] -= factor * pivot_right;
        }
    }
    (0..size).map(|row| right[row] / system[row][row]).collect()
}
