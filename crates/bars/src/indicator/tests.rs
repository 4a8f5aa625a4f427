//! Indicators compared with values computed by hand.

use super::*;

const SET: IndicatorSettings = IndicatorSettings { rsi_bars: 14, atr_bars: 14, sar_step: 0.02, sar_most: 0.2 };

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

fn flat(close: f64) -> BarPrices {
    BarPrices { open: close, high: close, low: close, close }
}

/// Wilder's smoothing on closes that are printed in textbooks.
#[test]
fn rsi_matches_wilder() {
    let closes = [
        44.34, 44.09, 44.15, 43.61, 44.33, 44.83, 45.10, 45.42, 45.84, 46.08, 45.89, 46.03, 45.61, 46.28, 46.28, 46.00,
    ];
    let mut indicators = IndicatorSet::new(&SET);
    let rsi_values: Vec<Option<f64>> = closes.iter().map(|&close| indicators.push(flat(close)).rsi).collect();
    assert!(rsi_values[..14].iter().all(Option::is_none));
    // Gains  0.06 0.72 0.50 0.27 0.32 0.42 0.24 0.14 0.67 = 3.34; losses 0.25 0.54 0.19 0.42 =
    // 1.40.
    near(rsi_values[14].unwrap(), 100.0 * 3.34 / (3.34 + 1.40));
    // Then a loss of 0.28: gains 3.34/14·13/14, losses (1.40/14·13 + 0.28)/14; times 14·14: 43.42
    // and 18.2 + 3.92.
    near(rsi_values[15].unwrap(), 100.0 * 43.42 / (43.42 + 22.12));
}

#[test]
fn rsi_is_bounded() {
    for (step, expected) in [(1.0, 100.0), (0.0, 50.0), (-1.0, 0.0)] {
        let mut indicators = IndicatorSet::new(&SET);
        for bar in 0..15 {
            indicators.push(flat(100.0 + step * f64::from(bar)));
        }
        near(indicators.reading().rsi.unwrap(), expected);
    }
}

#[test]
fn heikin_ashi_matches_hand_computation() {
    let mut indicators = IndicatorSet::new(&SET);
    let first = indicators.push(BarPrices { open: 10.0, high: 14.0, low: 8.0, close: 12.0 }).heikin_ashi.unwrap();
    assert_eq!(first, BarPrices { open: 11.0, high: 14.0, low: 8.0, close: 11.0 });
    let second = indicators.push(BarPrices { open: 20.0, high: 21.0, low: 19.0, close: 20.0 }).heikin_ashi.unwrap();
    // Opens in the middle of the first bar's body, below its own low.
    assert_eq!(second, BarPrices { open: 11.0, high: 21.0, low: 11.0, close: 20.0 });
    let third = indicators.push(BarPrices { open: 8.0, high: 9.0, low: 7.0, close: 8.0 }).heikin_ashi.unwrap();
    assert_eq!(third, BarPrices { open: 15.5, high: 15.5, low: 7.0, close: 8.0 });
}

#[test]
fn atr_includes_the_previous_close() {
    let mut indicators = IndicatorSet::new(&IndicatorSettings { atr_bars: 2, ..SET });
    assert_eq!(indicators.push(BarPrices { open: 10.0, high: 11.0, low: 9.0, close: 10.0 }).atr, None);
    // A jump: from the close at 10 to the high at 15 is 5, more than the bar's own 1. The mean of 2
    // and 5.
    near(indicators.push(BarPrices { open: 14.0, high: 15.0, low: 14.0, close: 15.0 }).atr.unwrap(), 3.5);
    // Down to 12: 15 - 12 = 3. (3.5 · 1 + 3) / 2.
    near(indicators.push(BarPrices { open: 13.0, high: 13.0, low: 12.0, close: 13.0 }).atr.unwrap(), 3.25);
}

/// Until ATR is known the speed is 1, so this is Wilder's SAR, by hand.
#[test]
fn sar_matches_wilder_until_volatility_is_known() {
    let bar = |high: f64, low: f64| BarPrices { open: low, high, low, close: high };
    let mut indicators = IndicatorSet::new(&SET);
    let mut next = |high, low| {
        let reading = indicators.push(bar(high, low));
        (reading.sar, reading.sar_is_long)
    };
    assert_eq!(next(10.0, 9.0), (None, None));
    // Up: the stop is the lowest low, the extreme 11.
    assert_eq!(next(11.0, 10.0), (Some(9.0), Some(true)));
    // New extreme 12, acceleration 0.04: 9 + 0.04 · 3.
    let (stop, _) = next(12.0, 11.0);
    near(stop.unwrap(), 9.12);
    // No new extreme: 9.12 + 0.04 · 2.88.
    let (stop, is_long) = next(11.8, 10.9);
    near(stop.unwrap(), 9.2352);
    assert_eq!(is_long, Some(true));
    // Through the stop: reversed, the stop is the old extreme.
    assert_eq!(next(10.0, 9.0), (Some(12.0), Some(false)));
    // New low 8, acceleration 0.04: 12 - 0.04 · 4 = 11.84.
    let (stop, is_long) = next(9.0, 8.0);
    near(stop.unwrap(), 11.84);
    assert_eq!(is_long, Some(false));
}

/// With two bars of ATR, by hand: relative ATR doubles, so the speed falls below 1.
#[test]
fn sar_slows_down_at_high_volatility() {
    let bar = |high: f64, low: f64| BarPrices { open: low, high, low, close: high };
    let mut indicators = IndicatorSet::new(&IndicatorSettings { atr_bars: 2, ..SET });
    indicators.push(bar(101.0, 100.0));
    // Ranges 1 and 1: ATR 1, relative 1/102, which is usual by definition.
    indicators.push(bar(102.0, 101.0));
    // Range 8 (110 - 102): ATR (1 + 8)/2 = 4.5, relative 4.5/110; usual moves a tenth of the way;
    // pace = usual / now, which is below a half, so a half.
    let reading = *indicators.push(bar(110.0, 103.0));
    // Extreme 110, acceleration 0.04, halved: 100 + 0.02 · 10.
    near(reading.sar.unwrap(), 100.2);
    // Range 2: ATR 3.25, relative 3.25/111. Usual: 1/102 + (4.5/110 - 1/102)/10, and a tenth again.
    let usual: f64 = 1.0 / 102.0 + (4.5 / 110.0 - 1.0 / 102.0) / 10.0;
    let now: f64 = 3.25 / 111.0;
    let usual = usual + (now - usual) / 10.0;
    let reading = *indicators.push(bar(111.0, 109.0));
    near(reading.sar.unwrap(), 100.2 + 0.06 * (usual / now).max(0.5) * (111.0 - 100.2));
}
