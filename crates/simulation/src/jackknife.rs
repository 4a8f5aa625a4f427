//! Confidence bands of statistics of dependent values.
//!
//! Start at    [`estimate`].

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
    fn too_few_values_have_no_estimate() {
        assert_eq!(estimate(&vec![Some(1.0); 29], mean), None);
    }
}
