//! Statistics of series of mids and signs. Mids are in half ticks, so that they are whole numbers.

/// Least number of pairs for a figure.
const MIN_PAIRS: usize = 30;

/// Converts nanoseconds to seconds.
#[allow(clippy::cast_precision_loss)]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns the volatility over `seconds`: `sqrt(mean((m(t + τ) - m(t))²) / τ)` over all overlapping
/// pairs, in ticks per square root of a second (Andersen, Bollerslev, Diebold and Labys 2000).
///
/// It is constant in τ for a random walk and falls with τ if prices revert, as the bounce between
/// bid and offer does. `mids` has one value per second, `None` without a mid. Returns `None` with
/// fewer than 30 pairs.
#[allow(clippy::cast_precision_loss)]
pub fn volatility(mids: &[Option<i64>], seconds: usize) -> Option<f64> {
    let pairs = mids.iter().zip(mids.get(seconds..)?);
    let squares: Vec<f64> = pairs
        .filter_map(|(before, after)| Some((*after)? - (*before)?))
        .map(|half_ticks| (half_ticks as f64 / 2.0).powi(2))
        .collect();
    (squares.len() >= MIN_PAIRS).then(|| (mean(&squares) / seconds as f64).sqrt())
}

/// Returns the correlation of a value with the one `lag` places later, about their common mean.
/// Missing values are in no pair.
///
/// Returns `None` with fewer than 30 pairs or if all values are equal.
pub fn autocorrelation(values: &[Option<f64>], lag: usize) -> Option<f64> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let centre = mean(&known);
    let variance = mean(&known.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>());
    let pairs = values.iter().zip(values.get(lag..)?);
    let products: Vec<f64> = pairs.filter_map(|(one, later)| Some(((*one)? - centre) * ((*later)? - centre))).collect();
    (products.len() >= MIN_PAIRS && variance > 0.0).then(|| mean(&products) / variance)
}

/// Returns the half-width of the 95 % band around zero for the autocorrelation of `count`
/// independent values: `1.96 / √count` (Bartlett 1946).
#[allow(clippy::cast_precision_loss)]
pub fn independence_band(count: usize) -> f64 {
    1.96 / (count.max(1) as f64).sqrt()
}

/// Returns the changes of the mid over consecutive intervals of `seconds`, in ticks. A change
/// without a mid at both ends is `None`.
#[allow(clippy::cast_precision_loss)]
pub fn returns(mids: &[Option<i64>], seconds: usize) -> Vec<Option<f64>> {
    let at_ends: Vec<Option<i64>> = mids.iter().copied().step_by(seconds.max(1)).collect();
    at_ends.windows(2).map(|pair| Some((pair[1]? - pair[0]?) as f64 / 2.0)).collect()
}

/// Returns the excess kurtosis `m4 / m2² - 3` of the known values, and its standard error for
/// normal values, `√(24 / n)`. Returns `None` with fewer than 30 values or if all are equal.
#[allow(clippy::cast_precision_loss)]
pub fn excess_kurtosis(values: &[Option<f64>]) -> Option<(f64, f64)> {
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let centre = mean(&known);
    let moment = |power: i32| mean(&known.iter().map(|value| (value - centre).powi(power)).collect::<Vec<_>>());
    let variance = moment(2);
    (known.len() >= MIN_PAIRS && variance > 0.0)
        .then(|| (moment(4) / variance.powi(2) - 3.0, (24.0 / known.len() as f64).sqrt()))
}

/// Returns the correlation of two series, and the number of pairs. Pairs with a missing value are
/// left out. Returns `None` with fewer than 30 pairs or if one series is constant.
pub fn correlation(one: &[Option<f64>], other: &[Option<f64>]) -> Option<(f64, usize)> {
    let pairs: Vec<(f64, f64)> = one.iter().zip(other).filter_map(|(a, b)| Some(((*a)?, (*b)?))).collect();
    let centre_a = mean(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
    let centre_b = mean(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
    let sum =
        |product: &dyn Fn(f64, f64) -> f64| pairs.iter().map(|(a, b)| product(a - centre_a, b - centre_b)).sum::<f64>();
    let scale = (sum(&|a, _| a * a) * sum(&|_, b| b * b)).sqrt();
    (pairs.len() >= MIN_PAIRS && scale > 0.0).then(|| (sum(&|a, b| a * b) / scale, pairs.len()))
}

/// Returns the rank of each value from 1 on. Equal values share their mean rank.
#[allow(clippy::cast_precision_loss)]
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|one, other| values[*one] == values[*other]) {
        let rank = first as f64 + (equal.len() + 1) as f64 / 2.0;
        equal.iter().for_each(|at| ranks[*at] = rank);
        first += equal.len();
    }
    ranks
}

/// An order that traded on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggressiveOrder {
    /// 1 for a buy, -1 for a sell.
    pub sign: i8,
    /// The mid just before it, in half ticks.
    pub mid: i64,
}

/// Returns the response of the mid: `mean(sign_n · (mid_{n + lag} - mid_n))` in ticks, with the
/// mids just before the n-th aggressive order (Bouchaud, Gefen, Potters and Wyart 2004). Returns
/// `None` with fewer than 30 pairs.
#[allow(clippy::cast_precision_loss)]
pub fn response(hits: &[AggressiveOrder], lag: usize) -> Option<f64> {
    let moves: Vec<f64> = hits
        .iter()
        .zip(hits.get(lag..)?)
        .map(|(hit, later)| f64::from(hit.sign) * (later.mid - hit.mid) as f64 / 2.0)
        .collect();
    (moves.len() >= MIN_PAIRS).then(|| mean(&moves))
}

#[allow(clippy::cast_precision_loss)]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign_autocorrelation(signs: &[i8], lag: usize) -> Option<f64> {
        let values: Vec<Option<f64>> = signs.iter().map(|sign| Some(f64::from(*sign))).collect();
        autocorrelation(&values, lag)
    }

    #[test]
    fn equal_values_share_their_mean_rank() {
        assert_eq!(ranks(&[5.0, 0.0, 7.0, 0.0, 0.0]), [4.0, 2.0, 5.0, 2.0, 2.0]);
        assert_eq!(ranks(&[]), [] as [f64; 0]);
    }

    fn near(found: Option<f64>, wanted: f64) {
        assert!(found.is_some_and(|found| (found - wanted).abs() < 1e-12), "{found:?}, not {wanted}");
    }

    #[test]
    fn volatility_of_a_bounce_falls_with_the_interval() {
        // Up a tick and down a tick, every second: each second's move is a tick, every second look
        // sees none.
        let mids: Vec<Option<i64>> = (0..101).map(|second| Some(200 + 2 * (second % 2))).collect();
        near(volatility(&mids, 1), 1.0);
        near(volatility(&mids, 2), 0.0);
        near(volatility(&mids, 5), (1.0_f64 / 5.0).sqrt());
        // A steady climb of half a tick a second: (τ/2)² / τ.
        let climb: Vec<Option<i64>> = (0..101).map(Some).collect();
        near(volatility(&climb, 4), 1.0);
        assert_eq!(volatility(&mids[..30], 1), None, "29 pairs");
        assert_eq!(volatility(&mids, 500), None);
    }

    #[test]
    fn a_second_without_a_mid_is_in_no_pair() {
        let mut mids: Vec<Option<i64>> = (0..101).map(|second| Some(2 * second)).collect();
        mids[50] = None;
        near(volatility(&mids, 1), 1.0);
        mids[49] = Some(10_000);
        near(volatility(&mids, 1), ((97.0 + (5_000.0_f64 - 48.0).powi(2)) / 98.0).sqrt());
    }

    #[test]
    fn paired_signs_correlate_at_lag_one() {
        // + + - - + + - - …: next alike half the time, the one after never.
        let signs: Vec<i8> = (0..400).map(|at| if at % 4 < 2 { 1 } else { -1 }).collect();
        near(sign_autocorrelation(&signs, 2), -1.0);
        near(sign_autocorrelation(&signs, 4), 1.0);
        near(sign_autocorrelation(&signs, 1), 1.0 / 399.0);
        assert_eq!(sign_autocorrelation(&[1; 400], 1), None);
    }

    #[test]
    fn a_missing_value_is_in_no_pair_of_an_autocorrelation() {
        // 1, -1, 1, … without its tenth value: every pair that is left has opposite signs.
        let mut values: Vec<Option<f64>> = (0..101).map(|at| Some(if at % 2 == 0 { 1.0 } else { -1.0 })).collect();
        values[9] = None;
        // 51 times 1 and 49 times -1: centre 0.02, variance 1 - 0.0004, product -1 + 0.0004 in all
        // 98 pairs, which have as many of either order.
        near(autocorrelation(&values, 1), -1.0);
    }

    #[test]
    fn returns_are_taken_between_the_ends_of_intervals() {
        let mids = [Some(10), Some(99), Some(14), Some(99), None, Some(99), Some(20)];
        assert_eq!(returns(&mids, 2), [Some(2.0), None, None]);
        assert_eq!(returns(&mids[..3], 1), [Some(44.5), Some(-42.5)]);
    }

    #[test]
    fn the_kurtosis_of_two_equal_points_is_minus_two_and_rare_jumps_raise_it() {
        let coin: Vec<Option<f64>> = (0..100).map(|at| Some(if at % 2 == 0 { 1.0 } else { -1.0 })).collect();
        near(excess_kurtosis(&coin).map(|(kurtosis, _)| kurtosis), -2.0);
        near(excess_kurtosis(&coin).map(|(_, error)| error), 0.24_f64.sqrt());
        // Zero, but for one value in a hundred: p = 0.01, kurtosis (1 - 3p + 3p²) / (p(1-p)) - 3.
        let mut jump = vec![Some(0.0); 100];
        jump[50] = Some(5.0);
        let found = excess_kurtosis(&jump).unwrap().0;
        assert!((found - (0.9703 / 0.0099 - 3.0)).abs() < 1e-9, "{found}");
        assert_eq!(excess_kurtosis(&coin[..29]), None);
    }

    #[test]
    fn the_correlation_of_a_series_with_its_negative_is_minus_one() {
        let up: Vec<Option<f64>> = (0..40).map(|at| Some(f64::from(at))).collect();
        let mut down: Vec<Option<f64>> = (0..40).map(|at| Some(f64::from(-2 * at))).collect();
        down[3] = None;
        let (found, pairs) = correlation(&up, &down).unwrap();
        assert!((found + 1.0).abs() < 1e-12 && pairs == 39, "{found} over {pairs}");
        assert_eq!(correlation(&up, &[Some(1.0); 40]), None);
    }

    #[test]
    fn the_response_has_the_sign_of_the_aggressive_side() {
        // Each sale moves the mid down by a tick and a half, for good.
        let hits: Vec<AggressiveOrder> = (0..100).map(|at| AggressiveOrder { sign: -1, mid: -3 * at }).collect();
        near(response(&hits, 1), 1.5);
        near(response(&hits, 10), 15.0);
        assert_eq!(response(&hits, 71), None, "29 pairs");
    }
}
