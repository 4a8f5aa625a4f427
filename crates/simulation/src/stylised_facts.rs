//! Published properties of real markets, and whether a run has them.
//!
//! Holds       a verdict is given only where there are enough values; the limit of each verdict is
//!             in [`Fact::criterion`].
//! Leaves out  corrections for testing many instruments: one in twenty verdicts at a 95 % limit is
//!             wrong by chance.
//! Start at    [`facts`].

use serde::Serialize;

use crate::instrument_figures::{CurvePoint, InstrumentFigures, ReturnFigures};
use crate::statistics::{correlation, excess_kurtosis, independence_band, returns};

/// The verdict of a run about a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Seen,
    NotSeen,
    TooFewValues,
}

impl Verdict {
    fn of(is_seen: bool) -> Verdict {
        if is_seen { Verdict::Seen } else { Verdict::NotSeen }
    }

    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Seen => "seen",
            Verdict::NotSeen => "not seen",
            Verdict::TooFewValues => "too few values",
        }
    }
}

/// A property of real markets.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    pub name: &'static str,
    pub source: &'static str,
    /// When the property counts as seen.
    pub criterion: &'static str,
    pub verdict: Verdict,
    /// The measured value, as text.
    pub measured: String,
}

/// Measures the properties of one instrument. `mids` has a mid per second, in half ticks.
pub fn facts(figures: &InstrumentFigures, mids: &[Option<i64>]) -> Vec<Fact> {
    vec![
        uncorrelated_returns(figures),
        heavy_tails(figures, mids),
        aggregational_normality(mids),
        volatility_clustering(figures),
        volume_and_volatility(figures),
        long_memory_of_signs(figures),
        lasting_impact(figures),
        humped_book(figures),
    ]
}

fn fact(name: &'static str, source: &'static str, criterion: &'static str, found: Option<(bool, String)>) -> Fact {
    match found {
        Some((is_seen, measured)) => Fact { name, source, criterion, verdict: Verdict::of(is_seen), measured },
        None => Fact { name, source, criterion, verdict: Verdict::TooFewValues, measured: String::new() },
    }
}

fn uncorrelated_returns(figures: &InstrumentFigures) -> Fact {
    let ReturnFigures { autocorrelation, band, interval_s, .. } = &figures.returns;
    let outside = autocorrelation.iter().filter(|point| point.value.abs() > *band).count();
    // Of twelve independent values 0.6 are outside on average, and more than two once in fifty.
    let found = (!autocorrelation.is_empty()).then(|| {
        (
            outside <= 2,
            format!("{outside} of {} lags outside ±{band:.3}, {interval_s} s returns", autocorrelation.len()),
        )
    });
    fact(
        "Returns are not correlated",
        "Cont 2001, fact 1",
        "at most two of the lags are outside the 95 % band of independent returns",
        found,
    )
}

fn heavy_tails(figures: &InstrumentFigures, mids: &[Option<i64>]) -> Fact {
    let seconds = figures.returns.interval_s;
    let found = excess_kurtosis(&returns(mids, seconds)).map(|(kurtosis, error)| {
        (kurtosis > 2.0 * error, format!("excess kurtosis {kurtosis:.2} ± {error:.2}, {seconds} s returns"))
    });
    fact("Heavy tails", "Cont 2001, fact 2", "the excess kurtosis is more than two standard errors above zero", found)
}

fn aggregational_normality(mids: &[Option<i64>]) -> Fact {
    let found = excess_kurtosis(&returns(mids, 1)).zip(excess_kurtosis(&returns(mids, 30))).map(
        |((short, _), (long, error))| {
            (short > long + 2.0 * error, format!("excess kurtosis {short:.2} at 1 s, {long:.2} ± {error:.2} at 30 s"))
        },
    );
    fact(
        "Longer returns are closer to normal",
        "Cont 2001, fact 4",
        "the excess kurtosis at 30 s is more than two standard errors below that at 1 s",
        found,
    )
}

fn volatility_clustering(figures: &InstrumentFigures) -> Fact {
    let ReturnFigures { size_autocorrelation, band, interval_s, .. } = &figures.returns;
    let early: Vec<&CurvePoint> = size_autocorrelation.iter().filter(|point| point.at <= 5).collect();
    let above = early.iter().filter(|point| point.value > *band).count();
    let found = (!early.is_empty())
        .then(|| (2 * above > early.len(), format!("{above} of {} lags above {band:.3}, {interval_s} s", early.len())));
    fact(
        "Volatility clusters",
        "Cont 2001, fact 6",
        "the sizes of returns are correlated above the 95 % band at most of the lags 1 to 5",
        found,
    )
}

/// The smallest number of intervals for a comparison over time.
const INTERVALS_MIN: usize = 30;

#[allow(clippy::cast_precision_loss)]
fn volume_and_volatility(figures: &InstrumentFigures) -> Fact {
    // Only intervals with trades: volume and range are both zero without.
    let traded: Vec<(f64, f64)> = figures
        .path
        .intervals
        .iter()
        .filter_map(|one| Some((one.lots as f64, (one.high_ticks? - one.low_ticks?) as f64)))
        .collect();
    let lots: Vec<Option<f64>> = traded.iter().map(|pair| Some(pair.0)).collect();
    let range: Vec<Option<f64>> = traded.iter().map(|pair| Some(pair.1)).collect();
    let found = correlation(&lots, &range).filter(|(_, pairs)| *pairs >= INTERVALS_MIN).map(|(value, pairs)| {
        let band = independence_band(pairs);
        (value > band, format!("correlation {value:.2}, band ±{band:.2}, {} s intervals", figures.path.interval_s))
    });
    fact(
        "Volume goes with volatility",
        "Cont 2001, fact 10",
        "lots and price range of an interval are correlated above the 95 % band",
        found,
    )
}

fn long_memory_of_signs(figures: &InstrumentFigures) -> Fact {
    let at = |lag: usize| figures.sign_autocorrelation.iter().find(|point| point.at == lag);
    let band = figures.sign_band;
    let found = at(10).zip(at(50)).map(|(ten, fifty)| {
        (
            ten.value > band && fifty.value > band,
            format!("{:.3} at lag 10, {:.3} at lag 50, band ±{band:.3}", ten.value, fifty.value),
        )
    });
    fact(
        "Signs of orders have a long memory",
        "Lillo and Farmer 2004; Bouchaud, Gefen, Potters and Wyart 2004",
        "the autocorrelation of signs is above the 95 % band at lags 10 and 50",
        found,
    )
}

fn lasting_impact(figures: &InstrumentFigures) -> Fact {
    let at = |lag: usize| figures.impact.iter().find(|point| point.at == lag);
    let found = at(1).zip(at(20)).map(|(one, twenty)| {
        (
            one.value > 0.0 && twenty.value > one.value && twenty.value < 20.0 * one.value,
            format!("{:.3} ticks after 1 order, {:.3} after 20", one.value, twenty.value),
        )
    });
    fact(
        "Impact is positive and grows less than in proportion",
        "Bouchaud, Gefen, Potters and Wyart 2004",
        "the response after 20 orders is larger than after one, and smaller than 20 times as large",
        found,
    )
}

fn humped_book(figures: &InstrumentFigures) -> Fact {
    let sums: Vec<f64> = figures.depth_lots.iter().map(|depth| depth.bid + depth.ask).collect();
    let deepest = (0..sums.len()).max_by(|a, b| sums[*a].total_cmp(&sums[*b]));
    let found = deepest
        .filter(|at| sums[*at] > 0.0)
        .map(|at| (at > 0, format!("deepest {at} ticks behind the best price, of 0 to {}", sums.len() - 1)));
    fact(
        "The book is deepest behind the best price",
        "Bouchaud, Mézard and Potters 2002",
        "the mean depth is largest at one or more ticks behind the best price of the side",
        found,
    )
}
