//! The figures of a run: those of each instrument, and those of the order flow with theory.
//!
//! Start at    [`RunReport::observe`], then [`RunReport::figures`].

use pitwire_engine::Engine;
use pitwire_model::{Event, SequencedCommand, VenueNanos};
use pitwire_order_flow::{Flow, TypeVolume};
use serde::Serialize;

use crate::flow_figures::{EventTypeFigures, FlowFigures};
use crate::instrument_figures::{CurvePoint, InstrumentFigures, SpreadFigures};
use crate::instrument_watch::InstrumentWatch;
use crate::statistics::seconds;
use crate::stylised_facts::{Fact, FactSummary, facts, summaries};

/// Collects the measurements of all instruments.
pub struct RunReport {
    watches: Vec<InstrumentWatch>,
    start: VenueNanos,
}

impl RunReport {
    /// Starts the measurements at the state of `engine`.
    pub fn new(engine: &Engine, start: VenueNanos) -> Self {
        let watch = |market: &pitwire_engine::Market| {
            InstrumentWatch::new(market.spec.id, &market.spec.name, market.spec.tick, market.phase(), start)
        };
        RunReport { watches: engine.markets().iter().map(watch).collect(), start }
    }

    /// Takes a command with its events.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        for watch in &mut self.watches {
            watch.advance_to(stamped.at);
            watch.observe(events);
        }
    }

    /// Returns the figures up to `end`.
    pub fn figures(&mut self, end: VenueNanos, flow: &Flow) -> RunFigures {
        self.watches.iter_mut().for_each(|watch| watch.advance_to(end));
        let mut instruments: Vec<InstrumentReport> = self
            .watches
            .iter()
            .filter(|watch| watch.samples > 0 || watch.trades > 0)
            .map(|watch| InstrumentReport::of(watch, flow.type_volumes(watch.instrument), self.start))
            .collect();
        instruments.sort_by(|one, other| {
            let (one, other) = (&one.figures, &other.figures);
            other.trades.cmp(&one.trades).then(one.name.cmp(&other.name))
        });
        let facts: Vec<Vec<Fact>> = instruments.iter().map(|one| one.facts.clone()).collect();
        RunFigures {
            facts: summaries(&facts),
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
    /// Published properties of markets, over all instruments.
    pub facts: Vec<FactSummary>,
    /// Instruments, most trades first.
    pub instruments: Vec<InstrumentReport>,
}

/// The figures of an instrument, and what they say.
#[derive(Debug, Serialize)]
pub struct InstrumentReport {
    #[serde(flatten)]
    pub figures: InstrumentFigures,
    pub facts: Vec<Fact>,
}

impl InstrumentReport {
    fn of(watch: &InstrumentWatch, volumes: &[TypeVolume], start: VenueNanos) -> Self {
        let figures = InstrumentFigures::of(watch, volumes, start);
        InstrumentReport { facts: facts(watch), figures }
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
            let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
            let (expected, error) = (number(*expected_per_s), number(*standard_error_per_s));
            lines.push(format!("{name:<32} {per_s:>10.3} {expected:>10} {error:>8}"));
        }
        let expected = flow.expected_events_per_s.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"));
        lines.push(format!("{:<32} {:>10.3} {expected:>10}", "all", flow.events_per_s));
        lines.push(String::new());
        lines.push(format!(
            "{:<16} {:>9} {:>8} {:>8} {:>11} {:>9} {:>9} {:>8} {:>9}",
            "instrument", "trades", "spread", "95 %", "touch lots", "vol 1 s", "vol 60 s", "sign 1", "impact 10"
        ));
        lines.extend(self.instruments.iter().map(|one| one.figures.line()));
        lines.push(String::new());
        lines.push(format!("{:<44} {:>9}  {:<36} {}", "published property", "passed", "over all", "source"));
        lines.extend(self.facts.iter().map(|fact| {
            let passed = if fact.judged == 0 { "-".to_owned() } else { format!("{} of {}", fact.passed, fact.judged) };
            format!("{:<44} {passed:>9}  {:<36} {}", fact.name, fact.words_over_all(), fact.source)
        }));
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
