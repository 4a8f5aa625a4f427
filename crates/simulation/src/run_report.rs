//! The figures of a run: spread, depth, volatility, signs and impact per instrument, and event
//! rates with theory.
//!
//! Start at    [`RunReport::observe`], then [`RunReport::figures`].

use pitwire_engine::Engine;
use pitwire_model::{Event, Stamped, VenueNanos};
use pitwire_order_flow::{Flow, TypeTally};
use serde::Serialize;

use crate::instrument_watch::InstrumentWatch;
use crate::statistics::{response, sign_autocorrelation, volatility};

/// Intervals of the volatility signature, in seconds.
const INTERVALS_S: [usize; 10] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
/// Lags of the sign autocorrelation and of the impact, in aggressive orders.
const LAGS: [usize; 13] = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100];

/// The eight event types, in the order of the flow.
const EVENT_TYPES: [&str; 8] = [
    "market buy, empties the touch",
    "market sell, empties the touch",
    "limit buy, inside the spread",
    "limit sell, inside the spread",
    "market buy, leaves the touch",
    "market sell, leaves the touch",
    "limit buy, behind the touch",
    "limit sell, behind the touch",
];

/// Collects the measurements of all instruments.
pub struct RunReport {
    watches: Vec<InstrumentWatch>,
    start: VenueNanos,
}

impl RunReport {
    /// Starts the measurements at the state of `engine`.
    pub fn new(engine: &Engine, start: VenueNanos) -> Self {
        let watch = |market: &pitwire_engine::Market| {
            InstrumentWatch::new(market.spec.id, &market.spec.name, market.phase(), start)
        };
        RunReport { watches: engine.markets().iter().map(watch).collect(), start }
    }

    /// Takes a command with its events.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event]) {
        for watch in &mut self.watches {
            watch.advance_to(stamped.at);
            watch.observe(events);
        }
    }

    /// Returns the figures up to `end`.
    pub fn figures(&mut self, end: VenueNanos, flow: &Flow) -> RunFigures {
        self.watches.iter_mut().for_each(|watch| watch.advance_to(end));
        let mut instruments: Vec<InstrumentFigures> = self
            .watches
            .iter()
            .filter(|watch| watch.samples > 0 || watch.trades > 0)
            .map(InstrumentFigures::of)
            .collect();
        instruments.sort_by(|one, other| other.trades.cmp(&one.trades).then(one.name.cmp(&other.name)));
        RunFigures {
            seconds: seconds(end.0.saturating_sub(self.start.0)),
            flow: FlowFigures::of(flow, self.start, end),
            instruments,
        }
    }
}

/// The report of a run. Its JSON form is `report.json`.
#[derive(Debug, Serialize)]
pub struct RunFigures {
    /// Length of the run in seconds of venue time.
    pub seconds: f64,
    pub flow: FlowFigures,
    /// Instruments, most trades first.
    pub instruments: Vec<InstrumentFigures>,
}

/// Event rates of the order flow.
#[derive(Debug, Serialize)]
pub struct FlowFigures {
    pub events_per_s: f64,
    pub expected_events_per_s: f64,
    /// Theoretical share of events that other events caused.
    pub branching_ratio: f64,
    /// Events that the book could not execute: it was too thin or closed.
    pub infeasible: u64,
    pub types: Vec<EventTypeFigures>,
}

/// Rate of one event type, measured and expected.
#[derive(Debug, Serialize)]
pub struct EventTypeFigures {
    #[serde(rename = "type")]
    pub name: &'static str,
    pub events: u64,
    pub per_s: f64,
    pub expected_per_s: f64,
    /// Theoretical standard error of the measured rate over a run of this length.
    pub standard_error_per_s: f64,
}

/// RunFigures of one instrument.
#[derive(Debug, Serialize)]
pub struct InstrumentFigures {
    pub name: String,
    pub trades: u64,
    pub lots: u64,
    /// Orders that traded on arrival.
    pub hits: usize,
    pub spread_ticks: Option<SpreadFigures>,
    /// Mean lots by distance in ticks from the best price of the same side, sampled each second.
    pub depth_lots: Vec<DepthFigures>,
    pub volatility: Vec<CurvePoint>,
    pub sign_autocorrelation: Vec<CurvePoint>,
    pub impact: Vec<CurvePoint>,
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

#[allow(clippy::cast_precision_loss)]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl FlowFigures {
    fn of(flow: &Flow, start: VenueNanos, end: VenueNanos) -> Self {
        let lasted = seconds(end.0.saturating_sub(start.0)).max(1e-9);
        let types: Vec<EventTypeFigures> = EVENT_TYPES
            .iter()
            .zip(flow.tallies())
            .map(|(name, tally)| EventTypeFigures::of(name, tally, lasted))
            .collect();
        FlowFigures {
            events_per_s: types.iter().map(|one| one.per_s).sum(),
            expected_events_per_s: flow.expected_events_per_second(),
            branching_ratio: flow.radius(),
            infeasible: flow.counts().infeasible,
            types,
        }
    }
}

impl EventTypeFigures {
    #[allow(clippy::cast_precision_loss)]
    fn of(name: &'static str, tally: &TypeTally, lasted: f64) -> Self {
        EventTypeFigures {
            name,
            events: tally.events,
            per_s: tally.events as f64 / lasted,
            expected_per_s: tally.expected_per_s,
            standard_error_per_s: (tally.variance_per_s / lasted).sqrt(),
        }
    }
}

impl InstrumentFigures {
    #[allow(clippy::cast_precision_loss)]
    fn of(watch: &InstrumentWatch) -> Self {
        let signs: Vec<i8> = watch.hits.iter().map(|hit| hit.sign).collect();
        let points = |places: &[usize], value: &dyn Fn(usize) -> Option<f64>| -> Vec<CurvePoint> {
            places.iter().filter_map(|at| value(*at).map(|value| CurvePoint { at: *at, value })).collect()
        };
        let [bids, asks] = &watch.depth;
        let mean = |sum: u64| sum as f64 / watch.samples.max(1) as f64;
        let depth = bids.iter().zip(asks).enumerate();
        InstrumentFigures {
            name: watch.name.clone(),
            trades: watch.trades,
            lots: watch.lots,
            hits: watch.hits.len(),
            spread_ticks: SpreadFigures::of(watch),
            depth_lots: depth
                .map(|(ticks, (bid, ask))| DepthFigures { ticks, bid: mean(*bid), ask: mean(*ask) })
                .collect(),
            volatility: points(&INTERVALS_S, &|at| volatility(&watch.mids, at)),
            sign_autocorrelation: points(&LAGS, &|at| sign_autocorrelation(&signs, at)),
            impact: points(&LAGS, &|at| response(&watch.hits, at)),
        }
    }
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

impl RunFigures {
    /// Returns the report as lines for a terminal.
    pub fn lines(&self) -> Vec<String> {
        let flow = &self.flow;
        let mut lines = vec![
            String::new(),
            format!("{:<32} {:>10} {:>10} {:>8}", "events a second", "realised", "expected", "± se"),
        ];
        for one in &flow.types {
            let EventTypeFigures { name, per_s, expected_per_s, standard_error_per_s, .. } = one;
            lines.push(format!("{name:<32} {per_s:>10.3} {expected_per_s:>10.3} {standard_error_per_s:>8.3}"));
        }
        lines.push(format!("{:<32} {:>10.3} {:>10.3}", "all", flow.events_per_s, flow.expected_events_per_s));
        lines.push(String::new());
        lines.push(format!(
            "{:<16} {:>9} {:>8} {:>8} {:>11} {:>9} {:>9} {:>8} {:>9}",
            "instrument", "trades", "spread", "95 %", "touch lots", "vol 1 s", "vol 60 s", "sign 1", "impact 10"
        ));
        lines.extend(self.instruments.iter().map(InstrumentFigures::line));
        lines
    }
}

impl InstrumentFigures {
    fn line(&self) -> String {
        let at = |points: &[CurvePoint], at: usize| {
            points
                .iter()
                .find(|point| point.at == at)
                .map_or_else(|| "-".to_owned(), |point| format!("{:.3}", point.value))
        };
        let spread =
            |value: &dyn Fn(&SpreadFigures) -> String| self.spread_ticks.as_ref().map_or_else(|| "-".to_owned(), value);
        let touch = self.depth_lots.first().map_or(0.0, |touch| f64::midpoint(touch.bid, touch.ask));
        format!(
            "{:<16} {:>9} {:>8} {:>8} {:>11.1} {:>9} {:>9} {:>8} {:>9}",
            self.name,
            self.trades,
            spread(&|spread| format!("{:.2}", spread.mean)),
            spread(&|spread| spread.p95.to_string()),
            touch,
            at(&self.volatility, 1),
            at(&self.volatility, 60),
            at(&self.sign_autocorrelation, 1),
            at(&self.impact, 10),
        )
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::{InstrumentId, Phase};

    use super::*;

    #[test]
    fn spread_quantiles_are_weighted_by_time() {
        let mut watch = InstrumentWatch::new(InstrumentId(0), "X", Phase::Continuous, VenueNanos(0));
        watch.spread_ns = [(1, 60), (2, 34), (5, 6)].into();
        let spread = SpreadFigures::of(&watch).unwrap();
        assert!((spread.mean - 1.58).abs() < 1e-12);
        assert_eq!((spread.median, spread.p95), (1, 5));
        watch.spread_ns.insert(5, 4);
        assert_eq!(SpreadFigures::of(&watch).unwrap().p95, 2);
    }
}
