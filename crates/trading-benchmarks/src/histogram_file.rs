//! Histogram files in the text format of HdrHistogram (`.hgrm`), which its plotter reads.
//!
//! Start at    [`write()`].

use std::fmt::Write;
use std::path::Path;

use hdrhistogram::Histogram;
use pitwire_benchmarks::orders::Latencies;
use pitwire_failure::Failure;

/// Lines between two halvings of the distance to 100 %, as in the original.
const TICKS_PER_HALF_DISTANCE: u32 = 5;
const NS_PER_US: f64 = 1000.0;

/// Writes `NAME.hgrm` into a directory, which is created if it does not exist. Values are in
/// microseconds.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write(directory: &Path, name: &str, latencies: &Latencies) -> Result<(), Failure> {
    let file = directory.join(format!("{name}.hgrm"));
    write_text(&file, &text(latencies.histogram()))
}

/// Writes a file and creates its directory.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_text(file: &Path, text: &str) -> Result<(), Failure> {
    let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(file, text));
    written.map_err(|error| {
        Failure::new(format!("cannot write {}: {error}", file.display())).remedy("name another directory with --out")
    })
}

/// Returns the percentile distribution as text.
#[allow(clippy::cast_precision_loss)]
fn text(histogram: &Histogram<u64>) -> String {
    let mut text = format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut total = 0;
    // Writing into a String does not fail.
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let (value, quantile) = (step.value_iterated_to() as f64 / NS_PER_US, step.quantile_iterated_to());
        let _ = write!(text, "{value:12.3} {quantile:2.12} {total:10}");
        if quantile < 1.0 {
            let _ = write!(text, " {:14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let (mean, deviation) = (histogram.mean() / NS_PER_US, histogram.stdev() / NS_PER_US);
    let max = histogram.max() as f64 / NS_PER_US;
    // Three significant digits need 2,048 sub-buckets.
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {:12}]", histogram.len());
    let _ = writeln!(text, "#[Buckets = {:12}, SubBuckets     = {:12}]", histogram.buckets(), 2048);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest relative error of a histogram with three significant digits.
    const PRECISION: f64 = 1e-3;

    fn is_near(found: f64, expected: f64) -> bool {
        (found - expected).abs() <= expected * PRECISION + 0.001
    }

    // A rank is a small positive number.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    #[test]
    fn file_agrees_with_statistics_of_the_sorted_samples() {
        // A skewed sample: squares, from 1 ns to 0.1 s.
        let samples: Vec<u64> = (1..=10_000).map(|n: u64| n * n).collect();
        let mut latencies = Latencies::new();
        samples.iter().rev().for_each(|sample| latencies.record(*sample));
        let text = text(latencies.histogram());
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|cell| cell.parse().unwrap()).collect())
            .collect();
        assert!(rows.len() > 50, "{text}");
        for row in &rows {
            let (value_us, quantile, total) = (row[0], row[1], row[2]);
            // The value at a quantile is the sample of that rank. The quantile has a rounding
            // error, which can raise the rank by one.
            let rank = (quantile * samples.len() as f64).ceil().max(1.0) as usize;
            let is_sample = |at: usize| samples.get(at).is_some_and(|ns| is_near(value_us, *ns as f64 / 1e3));
            assert!(is_sample(rank - 1) || is_sample(rank), "{row:?}");
            // All samples up to the value are counted.
            let below = samples.iter().filter(|sample| **sample as f64 / 1e3 <= value_us).count() as f64;
            assert!(is_near(total, below), "{row:?}: {below}");
            // The last column has two decimals.
            let is_inverse = |found: &f64| (found - 1.0 / (1.0 - quantile)).abs() <= 0.006 + found * PRECISION;
            assert!(row.get(3).is_none_or(is_inverse), "{row:?}");
        }
        assert_eq!(rows.last().unwrap()[1..3], [1.0, 10_000.0]);
        // Sums of powers: n(n+1)(2n+1)/6 and n(n+1)(2n+1)(3n^2+3n-1)/30.
        let n = 1e4_f64;
        let mean = (n + 1.0) * (2.0 * n + 1.0) / 6.0;
        let mean_square = (n + 1.0) * (2.0 * n + 1.0) * (3.0 * n * n + 3.0 * n - 1.0) / 30.0;
        let deviation = (mean_square - mean * mean).sqrt();
        let footer: Vec<f64> = text
            .lines()
            .filter(|line| line.starts_with('#'))
            .flat_map(|line| {
                line.split(['=', ',', ']']).filter_map(|cell| cell.trim().parse().ok()).collect::<Vec<_>>()
            })
            .collect();
        for (found, expected) in footer.iter().zip([mean / 1e3, deviation / 1e3, 1e5, 1e4]) {
            assert!(is_near(*found, expected), "{footer:?}");
        }
        assert_eq!(footer.len(), 6);
    }
}
