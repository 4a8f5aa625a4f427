//! Statistics of series of mids and signs. Mids are in half ticks, so that they are whole numbers.

/// Least number of pairs for a figure.
const MIN_PAIRS: usize = 30;

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

/// Returns the correlation of a sign with the one `lag` places later, about their common mean.
///
/// Returns `None` with fewer than 30 pairs or if all signs are equal.
pub fn sign_autocorrelation(signs: &[i8], lag: usize) -> Option<f64> {
    let signs: Vec<f64> = signs.iter().map(|sign| f64::from(*sign)).collect();
    let centre = mean(&signs);
    let variance = mean(&signs.iter().map(|sign| (sign - centre).powi(2)).collect::<Vec<_>>());
    let products: Vec<f64> =
        signs.iter().zip(signs.get(lag..)?).map(|(one, later)| (one - centre) * (later - centre)).collect();
    (products.len() >= MIN_PAIRS && variance > 0.0).then(|| mean(&products) / variance)
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
    fn the_response_has_the_sign_of_the_aggressive_side() {
        // Each sale moves the mid down by a tick and a half, for good.
        let hits: Vec<AggressiveOrder> = (0..100).map(|at| AggressiveOrder { sign: -1, mid: -3 * at }).collect();
        near(response(&hits, 1), 1.5);
        near(response(&hits, 10), 15.0);
        assert_eq!(response(&hits, 71), None, "29 pairs");
    }
}
