//! The figures of one instrument, from its measurements.
//!
//! Start at    [`InstrumentFigures::of`].

use pitwire_model::{Side, VenueNanos};
use pitwire_order_flow::TypeVolume;
use serde::Serialize;

use crate::instrument_watch::InstrumentWatch;
use crate::interval_series::Interval;
use crate::statistics::{autocorrelation, independence_band, response, returns, seconds, volatility};

/// Intervals of the volatility signature, in seconds.
const INTERVALS_S: [usize; 10] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
/// Lags of the sign autocorrelation and of the impact, in aggressive orders.
const LAGS: [usize; 13] = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100];
/// Lags of the autocorrelations of returns, in intervals.
const RETURN_LAGS: [usize; 12] = [1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30];
/// Most bars of a volume profile.
const PROFILE_BARS: i64 = 60;
/// Intervals of returns, in seconds: the longest that gives this many returns is used.
const RETURN_INTERVALS_S: [usize; 4] = [60, 30, 10, 1];
const WANTED_RETURNS: usize = 120;

/// The figures of one instrument.
#[derive(Debug, Serialize)]
pub struct InstrumentFigures {
    pub name: String,
    /// Price of one tick, in quote currency.
    pub tick: f64,
    pub trades: u64,
    pub lots: u64,
    /// Orders that traded on arrival.
    pub hits: usize,
    pub spread_ticks: Option<SpreadFigures>,
    /// Mean lots by distance in ticks from the best price of the same side, sampled each second.
    pub depth_lots: Vec<DepthFigures>,
    pub volatility: Vec<CurvePoint>,
    pub sign_autocorrelation: Vec<CurvePoint>,
    /// The autocorrelation of independent signs is within ± this value 95 times in 100.
    pub sign_band: f64,
    pub impact: Vec<CurvePoint>,
    pub path: PathFigures,
    /// Traded lots by price, in bars of equal width.
    pub volume_profile: Vec<ProfileBar>,
    pub volume_by_type: VolumeByType,
    pub returns: ReturnFigures,
}

/// Lots by event type of the order flow. The traded lots of the types, `uncross_lots` and
/// `other_lots` add up to the traded lots of the instrument.
#[derive(Debug, Serialize)]
pub struct VolumeByType {
    pub types: Vec<TypeVolumeFigures>,
    /// Traded lots without an aggressor: calls, batches, hidden orders and the closing price cross.
    pub uncross_lots: u64,
    /// Traded lots of other aggressors: quotes of market makers, first orders of a new book, and
    /// stop orders that a trade elected.
    pub other_lots: u64,
}

/// Volume of one event type.
#[derive(Debug, Serialize)]
pub struct TypeVolumeFigures {
    #[serde(rename = "type")]
    pub name: String,
    #[serde(skip)]
    pub side: Option<Side>,
    /// Lots of the accepted orders of its events.
    pub entered_lots: u64,
    /// Lots that these orders traded on arrival, as aggressors.
    pub traded_lots: u64,
}

impl VolumeByType {
    fn of(watch: &InstrumentWatch, volumes: &[TypeVolume]) -> Self {
        let traded: u64 = volumes.iter().map(|one| one.traded_lots).sum();
        let figures = |one: &TypeVolume| TypeVolumeFigures {
            name: one.name.as_str().to_owned(),
            side: one.side,
            entered_lots: one.entered_lots,
            traded_lots: one.traded_lots,
        };
        VolumeByType {
            types: volumes.iter().map(figures).collect(),
            uncross_lots: watch.lots - watch.continuous_lots,
            other_lots: watch.continuous_lots.saturating_sub(traded),
        }
    }
}

/// The spread in ticks, weighted by time.
#[derive(Debug, Serialize)]
pub struct SpreadFigures {
    pub mean: f64,
    pub median: i64,
    pub p95: i64,
    /// Share of the time at each spread.
    pub share: Vec<(i64, f64)>,
}

/// Mean lots at one distance from the best price.
#[derive(Debug, Serialize)]
pub struct DepthFigures {
    pub ticks: usize,
    pub bid: f64,
    pub ask: f64,
}

/// A point of a curve over seconds or over orders.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    pub at: usize,
    pub value: f64,
}

/// The run over time. Times are seconds since its start.
#[derive(Debug, Serialize)]
pub struct PathFigures {
    /// Length of an interval in seconds.
    pub interval_s: u64,
    pub intervals: Vec<IntervalFigures>,
    pub sessions: Vec<SessionFigures>,
    pub auctions: Vec<AuctionFigures>,
}

/// One interval of the run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct IntervalFigures {
    /// Start of the interval.
    pub at_s: u64,
    pub trades: u64,
    pub lots: u64,
    pub low_ticks: Option<i64>,
    pub high_ticks: Option<i64>,
    pub last_ticks: Option<i64>,
    /// Mean over the seconds with two sides.
    pub spread_ticks: Option<f64>,
    pub best_bid_lots: Option<f64>,
    pub best_ask_lots: Option<f64>,
}

/// A session and its start.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SessionFigures {
    pub at_s: f64,
    pub session: &'static str,
}

/// The price of a call.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AuctionFigures {
    pub at_s: f64,
    pub call: &'static str,
    pub price_ticks: i64,
    pub lots: u64,
}

/// Lots that traded from `from_ticks` up to, but not at, `to_ticks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProfileBar {
    pub from_ticks: i64,
    pub to_ticks: i64,
    pub lots: u64,
}

/// Returns of the mid.
#[derive(Debug, Serialize)]
pub struct ReturnFigures {
    /// Length of an interval in seconds.
    pub interval_s: usize,
    pub count: usize,
    /// Autocorrelation of the returns, by lag in intervals.
    pub autocorrelation: Vec<CurvePoint>,
    /// Autocorrelation of their sizes.
    pub size_autocorrelation: Vec<CurvePoint>,
    /// The autocorrelation of independent values is within ± this value 95 times in 100.
    pub band: f64,
}

impl InstrumentFigures {
    /// Returns the figures of an instrument since `start`. `volumes` are those of the order flow.
    #[allow(clippy::cast_precision_loss)]
    pub fn of(watch: &InstrumentWatch, volumes: &[TypeVolume], start: VenueNanos) -> Self {
        let signs: Vec<Option<f64>> = watch.hits.iter().map(|hit| Some(f64::from(hit.sign))).collect();
        let [bids, asks] = &watch.depth;
        let mean = |sum: u64| sum as f64 / watch.samples.max(1) as f64;
        let depth = bids.iter().zip(asks).enumerate();
        InstrumentFigures {
            name: watch.name.clone(),
            tick: watch.tick.mantissa as f64 / 10_f64.powi(i32::from(watch.tick.scale)),
            trades: watch.trades,
            lots: watch.lots,
            hits: watch.hits.len(),
            spread_ticks: SpreadFigures::of(watch),
            depth_lots: depth
                .map(|(ticks, (bid, ask))| DepthFigures { ticks, bid: mean(*bid), ask: mean(*ask) })
                .collect(),
            volatility: curve(&INTERVALS_S, |at| volatility(&watch.mids, at)),
            sign_autocorrelation: curve(&LAGS, |at| autocorrelation(&signs, at)),
            sign_band: independence_band(signs.len()),
            impact: curve(&LAGS, |at| response(&watch.hits, at)),
            path: PathFigures::of(watch, start),
            volume_profile: profile(watch),
            volume_by_type: VolumeByType::of(watch, volumes),
            returns: ReturnFigures::of(&watch.mids),
        }
    }
}

fn curve(places: &[usize], value: impl Fn(usize) -> Option<f64>) -> Vec<CurvePoint> {
    places.iter().filter_map(|at| value(*at).map(|value| CurvePoint { at: *at, value })).collect()
}

impl SpreadFigures {
    #[allow(clippy::cast_precision_loss)]
    fn of(watch: &InstrumentWatch) -> Option<Self> {
        let whole: u64 = watch.spread_ns.values().sum();
        // Returns the smallest spread that covers this share of the time.
        let quantile = |share: f64| {
            let mut so_far = 0;
            watch.spread_ns.iter().find_map(|(ticks, ns)| {
                so_far += ns;
                (so_far as f64 >= share * whole as f64).then_some(*ticks)
            })
        };
        let weighted: f64 = watch.spread_ns.iter().map(|(ticks, ns)| *ticks as f64 * *ns as f64).sum();
        (whole > 0).then_some(())?;
        Some(SpreadFigures {
            mean: weighted / whole as f64,
            median: quantile(0.5)?,
            p95: quantile(0.95)?,
            share: watch.spread_ns.iter().map(|(ticks, ns)| (*ticks, *ns as f64 / whole as f64)).collect(),
        })
    }
}

impl PathFigures {
    fn of(watch: &InstrumentWatch, start: VenueNanos) -> Self {
        let since = |at: VenueNanos| seconds(at.0.saturating_sub(start.0));
        let length = watch.series.seconds;
        PathFigures {
            interval_s: length,
            intervals: (0..)
                .zip(&watch.series.intervals)
                .map(|(number, interval)| IntervalFigures::of(number * length, interval))
                .collect(),
            sessions: watch
                .sessions
                .iter()
                .map(|(at, phase)| SessionFigures { at_s: since(*at), session: phase.name() })
                .collect(),
            auctions: watch
                .auctions
                .iter()
                .map(|print| AuctionFigures {
                    at_s: since(print.at),
                    call: print.call.name(),
                    price_ticks: print.price.0,
                    lots: print.lots.0,
                })
                .collect(),
        }
    }
}

impl IntervalFigures {
    #[allow(clippy::cast_precision_loss)]
    fn of(at_s: u64, interval: &Interval) -> Self {
        let mean = |sum: u64| (interval.samples > 0).then(|| sum as f64 / interval.samples as f64);
        IntervalFigures {
            at_s,
            trades: interval.trades,
            lots: interval.lots,
            low_ticks: interval.prices.map(|[low, _, _]| low),
            high_ticks: interval.prices.map(|[_, high, _]| high),
            last_ticks: interval.prices.map(|[_, _, last]| last),
            spread_ticks: mean(interval.spread_ticks),
            best_bid_lots: mean(interval.touch_lots[0]),
            best_ask_lots: mean(interval.touch_lots[1]),
        }
    }
}

/// Returns the traded lots by price, in at most 60 bars from the lowest to the highest price.
fn profile(watch: &InstrumentWatch) -> Vec<ProfileBar> {
    let volumes = &watch.volume_by_price;
    let (Some((lowest, _)), Some((highest, _))) = (volumes.first_key_value(), volumes.last_key_value()) else {
        return Vec::new();
    };
    let width = (highest - lowest + PROFILE_BARS) / PROFILE_BARS;
    let count = (highest - lowest) / width + 1;
    (0..count)
        .map(|bar| {
            let (from_ticks, to_ticks) = (lowest + bar * width, lowest + (bar + 1) * width);
            ProfileBar { from_ticks, to_ticks, lots: volumes.range(from_ticks..to_ticks).map(|(_, lots)| lots).sum() }
        })
        .collect()
}

impl ReturnFigures {
    fn of(mids: &[Option<i64>]) -> Self {
        let enough = |seconds: &usize| mids.len() / seconds >= WANTED_RETURNS;
        let interval_s = RETURN_INTERVALS_S.into_iter().find(enough).unwrap_or(1);
        let changes = returns(mids, interval_s);
        let sizes: Vec<Option<f64>> = changes.iter().map(|change| change.map(f64::abs)).collect();
        let count = changes.iter().flatten().count();
        ReturnFigures {
            interval_s,
            count,
            autocorrelation: curve(&RETURN_LAGS, |lag| autocorrelation(&changes, lag)),
            size_autocorrelation: curve(&RETURN_LAGS, |lag| autocorrelation(&sizes, lag)),
            band: independence_band(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::{Decimal, InstrumentId, Phase};

    use super::*;

    fn watch() -> InstrumentWatch {
        let tick = Decimal { mantissa: 5, scale: 2 };
        InstrumentWatch::new(InstrumentId(0), "X", tick, Phase::Continuous, VenueNanos(0))
    }

    #[test]
    fn spread_quantiles_are_weighted_by_time() {
        let mut watch = watch();
        watch.spread_ns = [(1, 60), (2, 34), (5, 6)].into();
        let spread = SpreadFigures::of(&watch).unwrap();
        assert!((spread.mean - 1.58).abs() < 1e-12);
        assert_eq!((spread.median, spread.p95), (1, 5));
        watch.spread_ns.insert(5, 4);
        assert_eq!(SpreadFigures::of(&watch).unwrap().p95, 2);
    }

    #[test]
    fn a_volume_profile_has_every_lot_in_at_most_sixty_bars() {
        let mut watch = watch();
        assert_eq!(profile(&watch), []);
        watch.volume_by_price = [(100, 4), (101, 1), (219, 7), (220, 2)].into();
        // 121 prices in bars of three.
        let bars = profile(&watch);
        assert_eq!(bars.len(), 41);
        assert_eq!(bars[0], ProfileBar { from_ticks: 100, to_ticks: 103, lots: 5 });
        assert_eq!(bars[39], ProfileBar { from_ticks: 217, to_ticks: 220, lots: 7 });
        assert_eq!(bars.iter().map(|bar| bar.lots).sum::<u64>(), 14);
    }

    #[test]
    fn returns_use_the_longest_interval_that_gives_enough_of_them() {
        let mids: Vec<Option<i64>> = (0..1_300).map(|second| Some(second % 7)).collect();
        assert_eq!(ReturnFigures::of(&mids).interval_s, 10);
        assert_eq!(ReturnFigures::of(&mids[..100]).interval_s, 1);
    }
}
