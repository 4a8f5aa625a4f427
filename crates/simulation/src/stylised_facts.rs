//! Published properties of real markets, and whether a run has them.
//!
//! Does        measure twelve properties of each instrument and of all instruments of a run, each
//!             with a 95 % confidence band, and compare the band with a criterion.
//! Holds       a verdict is given only where there are enough values; the limit of each verdict is
//!             in [`Fact::criterion`].
//! Leaves out  corrections for testing many instruments. A band above 0 is a one-sided test at
//!             2.5 %, and a criterion that the band meets is easier to pass the wider the band is.
//! Start at    [`facts`], then [`summaries`].

#![allow(clippy::cast_precision_loss)] // lots and ticks are far below 2^53

use serde::Serialize;

use crate::instrument_watch::{AuctionPrint, InstrumentWatch};
use crate::interval_series::Interval;
use crate::jackknife::{Estimate, estimate, mean_of_independent};
use crate::statistics::{autocorrelation, correlation, excess_kurtosis, ranks, response, returns, volatility};

/// The verdict of a run about a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Pass,
    Fail,
    TooFewValues,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Fail => "fail",
            Verdict::TooFewValues => "too few values",
        }
    }
}

/// A property of real markets.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    pub name: &'static str,
    pub source: &'static str,
    /// The measured value.
    pub statistic: &'static str,
    /// Condition for a pass.
    pub criterion: &'static str,
    pub verdict: Verdict,
    pub value: Option<f64>,
    /// 95 % confidence band of the value, by the block jackknife.
    pub band: Option<[f64; 2]>,
    #[serde(skip)]
    definition: &'static Definition,
}

/// A property with its statistic and its limits.
#[derive(Debug)]
struct Definition {
    name: &'static str,
    source: &'static str,
    statistic: &'static str,
    criterion: &'static str,
    is_in_ticks: bool,
    /// Whether a band is that of a market with the property.
    passes: fn(&Estimate) -> bool,
}

/// Returns a property that a market has if the band of its statistic is above 0.
const fn above_zero(name: &'static str, source: &'static str, statistic: &'static str) -> Definition {
    let criterion = "the band is above 0";
    Definition { name, source, statistic, criterion, is_in_ticks: false, passes: |found| found.low > 0.0 }
}

const RETURNS_UNCORRELATED: Definition = Definition {
    name: "Returns are not correlated",
    source: "Cont 2001, fact 1",
    statistic: "mean autocorrelation of 30 s returns of the mid at lags 1 to 5",
    criterion: "the band meets -0.05 to 0.05",
    is_in_ticks: false,
    passes: |found| found.low < 0.05 && found.high > -0.05,
};
const HEAVY_TAILS: Definition =
    above_zero("Heavy tails", "Cont 2001, fact 2", "logarithm of the kurtosis of 10 s returns over 3");
const AGGREGATIONAL_NORMALITY: Definition = above_zero(
    "Longer returns are closer to normal",
    "Cont 2001, fact 4",
    "logarithm of the kurtosis of 1 s returns over that of 60 s returns",
);
const VOLATILITY_CLUSTERING: Definition = above_zero(
    "Volatility clusters",
    "Cont 2001, fact 6",
    "mean autocorrelation of the sizes of 10 s returns at lags 1 to 10",
);
const SLOW_DECAY: Definition = above_zero(
    "The clustering decays slowly",
    "Ding, Granger and Engle 1993; Cont 2001, fact 8",
    "mean autocorrelation of the sizes of 10 s returns at lags 12 to 30, two to five minutes",
);
const VOLUME_AND_VOLATILITY: Definition = above_zero(
    "Volume goes with volatility",
    "Cont 2001, fact 10",
    "correlation of lots and price range over the intervals of the run",
);
const SIGN_MEMORY: Definition = above_zero(
    "Signs of orders have a long memory",
    "Lillo and Farmer 2004; Bouchaud, Gefen, Potters and Wyart 2004",
    "mean autocorrelation of the signs of orders that trade at lags 10 to 50",
);
const IMPACT: Definition = Definition {
    is_in_ticks: true,
    ..above_zero(
        "Orders move the price in their direction",
        "Bouchaud, Gefen, Potters and Wyart 2004",
        "mean move of the mid in the direction of an order, 20 orders later, in ticks",
    )
};
const SIGNATURE: Definition = Definition {
    name: "Volatility does not depend on the interval",
    source: "Lo and MacKinlay 1988; Andersen, Bollerslev, Diebold and Labys 2000",
    statistic: "variance of 120 s returns over twelve times that of 10 s returns",
    criterion: "the band meets 0.75 to 1.33",
    is_in_ticks: false,
    passes: |found| found.low < 1.33 && found.high > 0.75,
};
const TRADE_CLUSTERING: Definition = above_zero(
    "Trades come in clusters",
    "Engle and Russell 1998",
    "mean autocorrelation of the times between orders that trade at lags 1 to 10",
);
const SPREAD_AND_VOLATILITY: Definition = above_zero(
    "The spread is wide in volatile times",
    "Wyart, Bouchaud, Kockelkoren, Potters and Vettorazzo 2008",
    "correlation of mean spread and price range over the intervals of the run",
);
const U_SHAPED_DAY: Definition = above_zero(
    "The day has a U shape",
    "Wood, McInish and Ord 1985; Admati and Pfleiderer 1988",
    "rank correlation of lots and the distance from midday over the intervals of a day without a call",
);

/// Measures the properties of one instrument.
pub fn facts(watch: &InstrumentWatch) -> Vec<Fact> {
    let mids = &steady_mids(&watch.mids);
    let signs: Vec<Option<f64>> = watch.hits.iter().map(|hit| Some(f64::from(hit.sign))).collect();
    let gaps = gaps(watch);
    let (ten, thirty) = (returns(mids, 10), returns(mids, 30));
    let sizes: Vec<Option<f64>> = ten.iter().map(|change| change.map(f64::abs)).collect();
    let intervals = &watch.series.intervals;
    let (lots, range, spread) =
        (column(intervals, |one| one.lots as f64), column(intervals, width), column(intervals, mean_spread));
    vec![
        fact(&RETURNS_UNCORRELATED, estimate(&thirty, |values| mean_autocorrelation(values, &[1, 2, 3, 4, 5]))),
        fact(&HEAVY_TAILS, estimate(&ten, log_kurtosis)),
        fact(
            &AGGREGATIONAL_NORMALITY,
            estimate(mids, |mids| Some(log_kurtosis(&returns(mids, 1))? - log_kurtosis(&returns(mids, 60))?)),
        ),
        fact(&VOLATILITY_CLUSTERING, estimate(&sizes, |values| mean_autocorrelation(values, &range_of(1, 10)))),
        fact(&SLOW_DECAY, estimate(&sizes, |values| mean_autocorrelation(values, &range_of(12, 30)))),
        fact(&VOLUME_AND_VOLATILITY, pairs_estimate(&lots, &range)),
        fact(&SIGN_MEMORY, estimate(&signs, |values| mean_autocorrelation(values, &[10, 15, 20, 30, 50]))),
        fact(
            &IMPACT,
            estimate(&watch.hits.iter().copied().map(Some).collect::<Vec<_>>(), |hits| {
                response(&hits.iter().flatten().copied().collect::<Vec<_>>(), 20)
            }),
        ),
        fact(&SIGNATURE, estimate(mids, |mids| Some((volatility(mids, 120)? / volatility(mids, 10)?).powi(2)))),
        fact(&TRADE_CLUSTERING, estimate(&gaps, |values| mean_autocorrelation(values, &range_of(1, 10)))),
        fact(&SPREAD_AND_VOLATILITY, pairs_estimate(&spread, &range)),
        fact(&U_SHAPED_DAY, day_shape(watch)),
    ]
}

/// Returns the mids without those of the last seconds before an interruption. The order that starts
/// a call has emptied a side of the book, so these mids are no prices.
fn steady_mids(mids: &[Option<i64>]) -> Vec<Option<i64>> {
    const SECONDS: usize = 3;
    let is_steady = |at: usize| mids[at..].iter().take(SECONDS + 1).all(Option::is_some);
    (0..mids.len()).map(|at| mids[at].filter(|_| is_steady(at))).collect()
}

fn fact(definition: &'static Definition, found: Option<Estimate>) -> Fact {
    Fact {
        name: definition.name,
        source: definition.source,
        statistic: definition.statistic,
        criterion: definition.criterion,
        verdict: found.as_ref().map_or(Verdict::TooFewValues, |found| definition.verdict(found)),
        value: found.as_ref().map(|found| found.value),
        band: found.as_ref().map(|found| [found.low, found.high]),
        definition,
    }
}

impl Definition {
    fn verdict(&self, found: &Estimate) -> Verdict {
        if (self.passes)(found) { Verdict::Pass } else { Verdict::Fail }
    }
}

fn range_of(first: usize, last: usize) -> Vec<usize> {
    (first..=last).collect()
}

fn mean_autocorrelation(values: &[Option<f64>], lags: &[usize]) -> Option<f64> {
    let found: Vec<f64> = lags.iter().map(|lag| autocorrelation(values, *lag)).collect::<Option<_>>()?;
    Some(found.iter().sum::<f64>() / found.len() as f64)
}

fn log_kurtosis(values: &[Option<f64>]) -> Option<f64> {
    excess_kurtosis(values).map(|(excess, _)| ((excess + 3.0) / 3.0).ln())
}

/// Returns a value of each interval with trades. Others have no price range.
fn column(intervals: &[Interval], of: impl Fn(&Interval) -> f64) -> Vec<Option<f64>> {
    intervals.iter().map(|one| (one.prices.is_some() && one.samples > 0).then(|| of(one))).collect()
}

fn width(interval: &Interval) -> f64 {
    interval.prices.map_or(0.0, |[low, high, _]| (high - low) as f64)
}

fn mean_spread(interval: &Interval) -> f64 {
    interval.spread_ticks as f64 / interval.samples.max(1) as f64
}

fn pairs_estimate(one: &[Option<f64>], other: &[Option<f64>]) -> Option<Estimate> {
    let pairs: Vec<Option<(f64, f64)>> = one.iter().zip(other).map(|(a, b)| Some(((*a)?, (*b)?))).collect();
    estimate(&pairs, |pairs| {
        let (one, other): (Vec<_>, Vec<_>) = pairs.iter().flatten().map(|(a, b)| (Some(*a), Some(*b))).unzip();
        correlation(&one, &other).map(|(value, _)| value)
    })
}

/// Returns the seconds between neighbouring orders that traded.
fn gaps(watch: &InstrumentWatch) -> Vec<Option<f64>> {
    // Longer gaps span sessions and are left out.
    const LONGEST_S: f64 = 600.0;
    let seconds = watch.hit_times.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e9);
    seconds.map(|gap| (gap < LONGEST_S).then_some(gap)).collect()
}

/// Relates volume to the time of day, from the first to the last interval with a mid, without the
/// intervals in which a call ends. Ranks, because a few intervals have most of the volume. Returns
/// `None` for less than five hours.
fn day_shape(watch: &InstrumentWatch) -> Option<Estimate> {
    const SHORTEST_S: f64 = 5.0 * 3_600.0;
    let intervals = &watch.series.intervals;
    let has_mid = |one: &Interval| one.samples > 0;
    let (first, last) = (intervals.iter().position(has_mid)?, intervals.iter().rposition(has_mid)?);
    let day = intervals.get(first..=last)?;
    if day.len() as f64 * watch.series.seconds as f64 <= SHORTEST_S {
        return None;
    }
    let midday = (day.len() - 1) as f64 / 2.0;
    let away: Vec<Option<f64>> = (0..day.len()).map(|at| Some((at as f64 - midday).abs())).collect();
    let start = watch.sessions.first().map_or(0, |(at, _)| at.0);
    let interval_of = |print: &AuctionPrint| (print.at.0 - start) / (watch.series.seconds * 1_000_000_000);
    let calls: Vec<u64> = watch.auctions.iter().map(interval_of).collect();
    let has_no_call = |at: usize| !calls.contains(&((first + at) as u64));
    let of_interval = |(at, one): (usize, &Interval)| (has_mid(one) && has_no_call(at)).then_some(one.lots as f64);
    let lots: Vec<Option<f64>> = day.iter().enumerate().map(of_interval).collect();
    let pairs: Vec<Option<(f64, f64)>> = lots.iter().zip(&away).map(|(a, b)| Some(((*a)?, (*b)?))).collect();
    estimate(&pairs, |pairs| {
        let (lots, away): (Vec<f64>, Vec<f64>) = pairs.iter().flatten().copied().unzip();
        let ranked = |values: &[f64]| ranks(values).into_iter().map(Some).collect::<Vec<_>>();
        correlation(&ranked(&lots), &ranked(&away)).map(|(value, _)| value)
    })
}

/// A property over the instruments of a run.
#[derive(Clone, Debug, Serialize)]
pub struct FactSummary {
    pub name: &'static str,
    pub source: &'static str,
    pub statistic: &'static str,
    pub criterion: &'static str,
    /// Instruments that have the property.
    pub passed: usize,
    /// Instruments with enough values.
    pub judged: usize,
    /// Median of the values of the judged instruments.
    pub median: Option<f64>,
    /// The mean over the instruments. `None` with fewer than four values, and for a statistic in
    /// ticks, because ticks of different instruments are not comparable.
    pub over_all: Option<OverAll>,
}

/// The mean of a statistic over the instruments of a run. It finds a property that one instrument
/// shows too weakly.
#[derive(Clone, Debug, Serialize)]
pub struct OverAll {
    pub mean: f64,
    /// 95 % confidence band of the mean, which takes the instruments as independent.
    pub band: [f64; 2],
    /// Whether the band meets the criterion.
    pub verdict: Verdict,
}

impl FactSummary {
    /// Returns the verdict over all instruments with the mean and its band, for people.
    pub fn words_over_all(&self) -> String {
        self.over_all.as_ref().map_or_else(
            || "-".to_owned(),
            |OverAll { mean, band: [low, high], verdict }| {
                format!("{}: {mean:.3}, band {low:.3} to {high:.3}", verdict.words())
            },
        )
    }
}

/// Returns each property over all instruments.
pub fn summaries(instruments: &[Vec<Fact>]) -> Vec<FactSummary> {
    let Some(first) = instruments.first() else { return Vec::new() };
    let of = |(at, fact): (usize, &Fact)| {
        let all = || instruments.iter().filter_map(|facts| facts.get(at));
        let mut values: Vec<f64> = all().filter_map(|fact| fact.value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let found = mean_of_independent(&values).filter(|_| !fact.definition.is_in_ticks);
        FactSummary {
            name: fact.name,
            source: fact.source,
            statistic: fact.statistic,
            criterion: fact.criterion,
            passed: all().filter(|fact| fact.verdict == Verdict::Pass).count(),
            judged: all().filter(|fact| fact.verdict != Verdict::TooFewValues).count(),
            median: median(&values),
            over_all: found.map(|found| OverAll {
                mean: found.value,
                band: [found.low, found.high],
                verdict: fact.definition.verdict(&found),
            }),
        }
    };
    first.iter().enumerate().map(of).collect()
}

/// Returns the median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // numbers of the tests are small
mod tests {
    use pitwire_model::{Decimal, InstrumentId, Phase, VenueNanos};

    use super::*;
    use crate::statistics::AggressiveOrder;

    const SECOND: u64 = 1_000_000_000;

    fn watch() -> InstrumentWatch {
        let tick = Decimal { mantissa: 1, scale: 2 };
        InstrumentWatch::new(InstrumentId(0), "X", tick, Phase::Continuous, VenueNanos(0))
    }

    fn verdict(facts: &[Fact], definition: &Definition) -> Verdict {
        facts.iter().find(|fact| fact.name == definition.name).unwrap().verdict
    }

    /// Uniform numbers from -1 to 1 by a linear congruence.
    fn numbers(mut state: u64) -> impl FnMut() -> f64 {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
        }
    }

    #[test]
    fn a_random_walk_has_no_clusters_and_no_memory() {
        let (mut watch, mut number) = (watch(), numbers(7));
        let mut mid = 200_000.0;
        for second in 0..7_200 {
            mid += 40.0 * number();
            watch.mids.push(Some(mid as i64));
            watch.hits.push(AggressiveOrder { sign: if number() > 0.0 { 1 } else { -1 }, mid: mid as i64 });
            watch.hit_times.push(VenueNanos(second * SECOND + ((number() + 1.0) * 4e8) as u64));
        }
        let facts = facts(&watch);
        for passing in [&RETURNS_UNCORRELATED, &SIGNATURE] {
            assert_eq!(verdict(&facts, passing), Verdict::Pass, "{}", passing.name);
        }
        for failing in [&HEAVY_TAILS, &VOLATILITY_CLUSTERING, &SLOW_DECAY, &SIGN_MEMORY, &IMPACT, &TRADE_CLUSTERING] {
            assert_eq!(verdict(&facts, failing), Verdict::Fail, "{}", failing.name);
        }
        assert_eq!(verdict(&facts, &U_SHAPED_DAY), Verdict::TooFewValues);
    }

    #[test]
    fn busy_and_quiet_times_are_found_as_clusters() {
        let (mut watch, mut number) = (watch(), numbers(8));
        let mut mid = 200_000.0;
        for second in 0..7_200_u64 {
            let is_busy = second / 400 % 3 == 0;
            mid += if is_busy { 120.0 } else { 20.0 } * number();
            watch.mids.push(Some(mid as i64));
            let count = if is_busy { 5 } else { 1 };
            for at in 0..count {
                watch.hit_times.push(VenueNanos(second * SECOND + at * SECOND / count));
            }
        }
        let facts = facts(&watch);
        for passing in [&HEAVY_TAILS, &VOLATILITY_CLUSTERING, &SLOW_DECAY, &TRADE_CLUSTERING] {
            assert_eq!(verdict(&facts, passing), Verdict::Pass, "{}", passing.name);
        }
        assert_eq!(verdict(&facts, &SIGN_MEMORY), Verdict::TooFewValues);
    }

    #[test]
    fn the_last_mids_before_an_interruption_are_left_out() {
        let mut mids: Vec<Option<i64>> = (0..12).map(Some).collect();
        mids[6] = None;
        let steady = steady_mids(&mids);
        assert_eq!(steady[..7], [Some(0), Some(1), Some(2), None, None, None, None]);
        assert_eq!(steady[7..], mids[7..]);
    }

    #[test]
    fn a_price_that_bounces_depends_on_the_interval() {
        let (mut watch, mut number) = (watch(), numbers(9));
        watch.mids.extend((0..7_200).map(|_| Some(200_000 + (40.0 * number()) as i64)));
        let facts = facts(&watch);
        assert_eq!(verdict(&facts, &SIGNATURE), Verdict::Fail);
        assert_eq!(verdict(&facts, &RETURNS_UNCORRELATED), Verdict::Fail);
    }

    #[test]
    fn a_summary_counts_the_judged_instruments() {
        let fact = |verdict, value| Fact { verdict, value, ..super::fact(&IMPACT, None) };
        let all = [
            vec![fact(Verdict::Pass, Some(3.0))],
            vec![fact(Verdict::Fail, Some(1.0))],
            vec![fact(Verdict::TooFewValues, None)],
        ];
        let found = &summaries(&all)[0];
        assert_eq!((found.passed, found.judged, found.median), (1, 2, Some(2.0)));
        assert!(found.over_all.is_none());
        let moves = [1.0, 1.1, 1.2, 1.3].map(|value| vec![fact(Verdict::Pass, Some(value))]);
        assert!(summaries(&moves)[0].over_all.is_none(), "moves in ticks have no mean over instruments");
    }

    #[test]
    fn a_property_that_no_instrument_shows_alone_is_found_over_all() {
        let of = |value: f64| Fact { verdict: Verdict::Fail, value: Some(value), ..super::fact(&U_SHAPED_DAY, None) };
        let found = |values: &[f64]| summaries(&values.iter().map(|value| vec![of(*value)]).collect::<Vec<_>>());
        let shown = &found(&[0.1, 0.3, 0.2, 0.4, 0.25, 0.15])[0];
        assert_eq!(shown.passed, 0);
        assert_eq!(shown.over_all.as_ref().unwrap().verdict, Verdict::Pass, "{shown:?}");
        let by_chance = &found(&[0.4, -0.3, 0.2, -0.1, 0.3, -0.2])[0];
        assert_eq!(by_chance.over_all.as_ref().unwrap().verdict, Verdict::Fail, "{by_chance:?}");
    }

    #[test]
    fn a_busy_morning_and_evening_are_a_u_shape_and_a_busy_midday_is_none() {
        fn day(pace: fn(f64) -> f64) -> Verdict {
            let (mut watch, mut number) = (watch(), numbers(10));
            for second in 0..6 * 3_600 {
                watch.advance_to(VenueNanos(second * SECOND));
                let interval = watch.series.at(VenueNanos(second * SECOND));
                interval.samples += 1;
                let through = second as f64 / (6.0 * 3_600.0);
                interval.lots += (10.0 * pace(through) * (1.0 + number())) as u64;
            }
            verdict(&facts(&watch), &U_SHAPED_DAY)
        }
        assert_eq!(day(|through| 0.4 + (2.0 * through - 1.0).powi(2)), Verdict::Pass);
        assert_eq!(day(|through| 1.4 - (2.0 * through - 1.0).powi(2)), Verdict::Fail);
        assert_eq!(day(|_| 1.0), Verdict::Fail);
    }
}
