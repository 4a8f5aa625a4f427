//! The figures of the order flow: rates by event type and times between events, with theory.
//!
//! Start at    [`FlowFigures::of`].

use pitwire_model::{Side, VenueNanos};
use pitwire_order_flow::{ExpectedCount, Flow, TypeTally, UnitHistogram};
use serde::Serialize;

use crate::statistics::seconds;

/// Event rates of the order flow.
#[derive(Debug, Serialize)]
pub struct FlowFigures {
    pub events_per_s: f64,
    /// `None` as in [`EventTypeFigures::expected_per_s`].
    pub expected_events_per_s: Option<f64>,
    /// Theoretical share of events that other events caused.
    pub branching_ratio: f64,
    /// Events that the book could not execute: it was too thin or closed.
    pub infeasible: u64,
    /// Candidates that the spread suppressed.
    pub suppressed: u64,
    pub types: Vec<EventTypeFigures>,
    pub interevent_times: IntereventFigures,
}

/// Rate of one event type, measured and expected.
#[derive(Debug, Serialize)]
pub struct EventTypeFigures {
    #[serde(rename = "type")]
    pub name: String,
    #[serde(skip)]
    pub side: Option<Side>,
    pub events: u64,
    pub per_s: f64,
    /// `None` if the book suppresses events of the flow.
    pub expected_per_s: Option<f64>,
    /// Theoretical standard error of the measured rate over a run of this length.
    pub standard_error_per_s: Option<f64>,
}

/// Times between events of the same instrument, over all instruments.
#[derive(Debug, Serialize)]
pub struct IntereventFigures {
    pub events: u64,
    /// Largest distance between the distribution of the rescaled times and an exponential one.
    pub distance: f64,
    /// The distance that independent exponential times exceed once in a hundred runs: `1.63 / √n`
    /// (Kolmogorov 1933, Smirnov 1948).
    pub bound_99: f64,
    /// Integrated intensity between two events: share of at least this size.
    pub rescaled: Vec<SurvivalPoint>,
    /// Gap in means of the long-run rate: share of at least this size.
    pub plain: Vec<SurvivalPoint>,
}

/// The share of values of at least a size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SurvivalPoint {
    pub at: f64,
    pub share: f64,
}

impl FlowFigures {
    /// Returns the figures of a flow that ran from `start` to `end`.
    pub fn of(flow: &Flow, start: VenueNanos, end: VenueNanos) -> Self {
        let lasted = seconds(end.0.saturating_sub(start.0)).max(1e-9);
        let types: Vec<EventTypeFigures> = flow
            .tallies()
            .iter()
            .zip(flow.expected_counts(end))
            .map(|(tally, expected)| EventTypeFigures::of(tally, expected, lasted))
            .collect();
        FlowFigures {
            events_per_s: types.iter().map(|one| one.per_s).sum(),
            expected_events_per_s: types.iter().map(|one| one.expected_per_s).sum::<Option<f64>>(),
            branching_ratio: flow.radius(),
            infeasible: flow.counts().infeasible,
            suppressed: flow.counts().suppressed,
            types,
            interevent_times: IntereventFigures::of(flow),
        }
    }
}

impl EventTypeFigures {
    #[allow(clippy::cast_precision_loss)]
    fn of(tally: &TypeTally, expected: Option<ExpectedCount>, lasted: f64) -> Self {
        EventTypeFigures {
            name: tally.name.as_str().to_owned(),
            side: tally.side,
            events: tally.events,
            per_s: tally.events as f64 / lasted,
            expected_per_s: expected.map(|expected| expected.events / lasted),
            standard_error_per_s: expected.map(|expected| expected.variance.sqrt() / lasted),
        }
    }

    /// Returns whether the measured rate is within two standard errors of the expected one. `None`
    /// without an expected rate.
    pub fn agrees(&self) -> Option<bool> {
        let (expected, error) = self.expected_per_s.zip(self.standard_error_per_s)?;
        Some((self.per_s - expected).abs() <= 2.0 * error)
    }
}

impl IntereventFigures {
    #[allow(clippy::cast_precision_loss)]
    fn of(flow: &Flow) -> Self {
        let times = flow.interevent_times();
        let points = |histogram: &UnitHistogram| {
            histogram.survival().into_iter().map(|(at, share)| SurvivalPoint { at, share }).collect()
        };
        IntereventFigures {
            events: times.rescaled.count(),
            distance: times.rescaled.distance_from_exponential(),
            bound_99: 1.63 / (times.rescaled.count().max(1) as f64).sqrt(),
            rescaled: points(&times.rescaled),
            plain: points(&times.plain),
        }
    }

    /// Returns what the figures say, as a sentence.
    pub fn sentence(&self) -> String {
        let (distance, bound) = (self.distance, self.bound_99);
        if self.events == 0 {
            "The flow had no events.".to_owned()
        } else if distance <= bound {
            format!(
                "The rescaled times are exponential as theory demands: their distribution is at most {distance:.4} \
                 away, and 99 of 100 such runs stay below {bound:.4}."
            )
        } else {
            format!(
                "The rescaled times are not exponential: their distribution is {distance:.4} away, and 99 of 100 \
                 runs that follow the theory stay below {bound:.4}."
            )
        }
    }
}
