//! Confidence bands: of a statistic of dependent values, and of the mean of independent ones.
//!
//! Start at    [`estimate`] and [`mean_of_independent`].

/// Blocks that are left out in turn.
const BLOCKS: usize = 20;

/// A value with its 95 % confidence band.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// Returns a statistic of a series with its band by the block jackknife (Künsch 1989): the
/// statistic is computed without each of twenty blocks of neighbouring values. The memory is
/// shorter than a block. Returns `None` if the statistic has too few values.
pub fn estimate<T: Clone>(values: &[Option<T>], statistic: impl Fn(&[Option<T>]) -> Option<f64>) -> Option<Estimate> {
    let value = statistic(values)?;
    let mut without = Vec::with_capacity(BLOCKS);
    for block in 0..BLOCKS {
        let (from, to) = (values.len() * block / BLOCKS, values.len() * (block + 1) / BLOCKS);
        let mut rest = values.to_vec();
        rest[from..to].fill(None);
        without.push(statistic(&rest)?);
    }
    let count = f64::from(u32::try_from(BLOCKS).ok()?);
    let mean = without.iter().sum::<f64>() / count;
    let squares: f64 = without.iter().map(|one| (one - mean) * (one - mean)).sum();
    let error = (squares * (count - 1.0) / count).sqrt();
    (value.is_finite() && error.is_finite()).then_some(Estimate {
        value,
        low: value - 1.96 * error,
        high: value + 1.96 * error,
    })
}

/// Returns the mean of independent values with its band by the distribution of Student (1908), or
/// `None` with fewer than [`INDEPENDENT_MIN`] values.
#[allow(clippy::cast_precision_loss)] // few values
pub fn mean_of_independent(values: &[f64]) -> Option<Estimate> {
    if values.len() < INDEPENDENT_MIN {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = student_quantile(count - 1.0) * (variance / count).sqrt();
    (mean.is_finite() && half.is_finite()).then_some(Estimate { value: mean, low: mean - half, high: mean + half })
}

/// Least number of values for a band of their mean.
const INDEPENDENT_MIN: usize = 4;

/// Returns the value that Student's distribution exceeds with probability 2.5 %, by the expansion
/// around the normal distribution (Abramowitz and Stegun 26.7.5). The error is below 0.004 from
/// three degrees of freedom on.
fn student_quantile(freedom: f64) -> f64 {
    const NORMAL: f64 = 1.959_964;
    let power = |n: i32| NORMAL.powi(n);
    let terms = [
        (power(3) + power(1)) / 4.0,
        (5.0 * power(5) + 16.0 * power(3) + 3.0 * power(1)) / 96.0,
        (3.0 * power(7) + 19.0 * power(5) + 17.0 * power(3) - 15.0 * power(1)) / 384.0,
        (79.0 * power(9) + 776.0 * power(7) + 1_482.0 * power(5) - 1_920.0 * power(3) - 945.0 * power(1)) / 92_160.0,
    ];
    terms.iter().rev().fold(0.0, |sum, term| (sum + term) / freedom) + NORMAL
}

#[cfg(test)]
#[allow(clippy::cast_precision_loss)]
mod tests {
    use super::*;

    fn mean(values: &[Option<f64>]) -> Option<f64> {
        let known: Vec<f64> = values.iter().flatten().copied().collect();
        (known.len() >= 30).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    #[test]
    fn the_band_of_a_mean_is_that_of_its_standard_error() {
        let mut state = 4_u64;
        let uniform = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(((state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5) * 12.0_f64.sqrt())
        };
        let values: Vec<Option<f64>> = (0..14_000).map(uniform).collect();
        let found = estimate(&values, mean).unwrap();
        let half = (found.high - found.low) / 2.0;
        // Uniform values with variance 1: 1.96 / √14,000 = 0.0166, known to about a sixth.
        assert!((0.008..0.027).contains(&half), "{half}");
        assert!(found.low < 0.0 && found.high > 0.0);
    }

    #[test]
    fn the_band_of_values_with_memory_is_wider() {
        let steps = |length: usize| -> Vec<Option<f64>> {
            (0..8_000).map(|at| Some(if (at / length) * 2_654_435_761 % 97 < 48 { 1.0 } else { -1.0 })).collect()
        };
        let width = |values: &[Option<f64>]| estimate(values, mean).map(|found| found.high - found.low).unwrap();
        assert!(width(&steps(100)) > 3.0 * width(&steps(1)));
    }

    #[test]
    fn quantiles_are_those_of_the_table() {
        for (freedom, quantile) in [(3.0, 3.1824), (4.0, 2.7764), (11.0, 2.2010), (30.0, 2.0423), (1e9, 1.9600)] {
            let found = student_quantile(freedom);
            assert!((found - quantile).abs() < 0.004, "{freedom}: {found}, not {quantile}");
        }
    }

    #[test]
    fn the_band_of_independent_values_needs_four_of_them() {
        let found = mean_of_independent(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        // Standard deviation 1.291, so 3.182 · 1.291 / 2 on each side.
        assert!((found.value - 2.5).abs() < 1e-12 && (found.high - 4.554).abs() < 0.003, "{found:?}");
        assert!((found.value - found.low - (found.high - found.value)).abs() < 1e-12);
        assert_eq!(mean_of_independent(&[1.0, 2.0, 3.0]), None);
        assert_eq!(mean_of_independent(&[1.0, 2.0, 3.0, f64::NAN]), None);
    }

    #[test]
    fn too_few_values_have_no_estimate() {
        assert_eq!(estimate(&vec![Some(1.0); 29], mean), None);
    }
}
