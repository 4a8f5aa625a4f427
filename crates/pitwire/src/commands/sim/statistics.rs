//! What is measured of a run's prices and signs: plain functions of series.
//!
//! Mids are in half ticks, so that they are whole numbers.

/// Pairs below this number say nothing.
const FEWEST_PAIRS: usize = 30;

/// Volatility by the time between two looks: `sqrt(mean((m(t + τ) - m(t))²) / τ)` over all overlapping pairs, in ticks per
/// square root of a second. Flat for a random walk; what falls with τ is mean reversion, such as the bounce between bid
/// and offer (Andersen, Bollerslev, Diebold and Labys 2000).
///
/// `mids` holds one look a second; `None` where there was no mid. `None` when there are too few pairs.
#[allow(clippy::cast_precision_loss)]
pub fn volatility(mids: &[Option<i64>], seconds: usize) -> Option<f64> {
    let pairs = mids.iter().zip(mids.get(seconds..)?);
    let squares: Vec<f64> = pairs
        .filter_map(|(before, after)| Some((*after)? - (*before)?))
        .map(|half_ticks| (half_ticks as f64 / 2.0).powi(2))
        .collect();
    (squares.len() >= FEWEST_PAIRS).then(|| (mean(&squares) / seconds as f64).sqrt())
}

/// Correlation of a sign with the one `lag` places later, about their common mean. `None` with too few pairs, or when
/// all signs are alike.
pub fn sign_autocorrelation(signs: &[i8], lag: usize) -> Option<f64> {
    let signs: Vec<f64> = signs.iter().map(|sign| f64::from(*sign)).collect();
    let centre = mean(&signs);
    let variance = mean(&signs.iter().map(|sign| (sign - centre).powi(2)).collect::<Vec<_>>());
    let products: Vec<f64> =
        signs.iter().zip(signs.get(lag..)?).map(|(one, later)| (one - centre) * (later - centre)).collect();
    (products.len() >= FEWEST_PAIRS && variance > 0.0).then(|| mean(&products) / variance)
}

/// An order that traded on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// 1: it bought; -1: it sold.
    pub sign: i8,
    /// Just before it, in half ticks.
    pub mid: i64,
}

/// Response of the mid: `mean(sign_n · (mid_{n + lag} - mid_n))` in ticks, where mids are those just before the n-th hit
/// (Bouchaud, Gefen, Potters and Wyart 2004). `None` with too few pairs.
#[allow(clippy::cast_precision_loss)]
pub fn response(hits: &[Hit], lag: usize) -> Option<f64> {
    let moves: Vec<f64> = hits
        .iter()
        .zip(hits.get(lag..)?)
        .map(|(hit, later)| f64::from(hit.sign) * (later.mid - hit.mid) as f64 / 2.0)
        .collect();
    (moves.len() >= FEWEST_PAIRS).then(|| mean(&moves))
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
    fn a_bounce_between_two_mids_fades_with_the_time_between_looks() {
        // Up a tick and down a tick, every second: each second's move is a tick, every second look sees none.
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
    fn signs_in_pairs_are_alike_at_one_lag_in_two() {
        // + + - - + + - - …: next alike half the time, the one after never.
        let signs: Vec<i8> = (0..400).map(|at| if at % 4 < 2 { 1 } else { -1 }).collect();
        near(sign_autocorrelation(&signs, 2), -1.0);
        near(sign_autocorrelation(&signs, 4), 1.0);
        near(sign_autocorrelation(&signs, 1), 1.0 / 399.0);
        assert_eq!(sign_autocorrelation(&[1; 400], 1), None);
    }

    #[test]
    fn the_response_is_signed_by_who_hit() {
        // Each sale moves the mid down by a tick and a half, for good.
        let hits: Vec<Hit> = (0..100).map(|at| Hit { sign: -1, mid: -3 * at }).collect();
        near(response(&hits, 1), 1.5);
        near(response(&hits, 10), 15.0);
        assert_eq!(response(&hits, 71), None, "29 pairs");
    }
}
