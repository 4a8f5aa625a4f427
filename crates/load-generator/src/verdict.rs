//! Which part limited a run: the load client, the server, or the processors that they share.
//!
//! Does        compares the evidence of a report with thresholds, and words it as one sentence.
//! Start at    [`LimitVerdict::of`].

use crate::report::{GeneratorLoad, LoadCounters, LoadReport};

/// Above this part of the time, a thread or a machine is at its limit.
const SATURATED: f64 = 0.9;
/// Below this part of the time, a thread has capacity left without doubt.
const RELAXED: f64 = 0.5;
/// Above this part of the time without a processor, another thread took it from the load client.
const DISPLACED: f64 = 0.2;
/// Above this 99th percentile, in microseconds, the load client does not follow its schedule.
const LATE_SCHEDULE_US: f64 = 10_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    LoadClient,
    Server,
    /// The processors of one machine that both use.
    Processors,
    Nothing,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    Certain,
    Likely,
    Open,
}

/// The part that limited a run, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitVerdict {
    pub bottleneck: Bottleneck,
    pub confidence: Confidence,
}

impl Bottleneck {
    /// Returns the word of the JSON summary.
    pub const fn name(self) -> &'static str {
        match self {
            Bottleneck::LoadClient => "load_client",
            Bottleneck::Server => "server",
            Bottleneck::Processors => "processors",
            Bottleneck::Nothing => "nothing",
            Bottleneck::Unknown => "unknown",
        }
    }
}

impl Confidence {
    /// Returns the word of the JSON summary.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
            Confidence::Open => "open",
        }
    }
}

impl LimitVerdict {
    /// Judges a report. A busy load client is judged first, because then all figures measure it.
    pub fn of(report: &LoadReport) -> Self {
        use Bottleneck::{LoadClient, Nothing, Processors, Server, Unknown};
        use Confidence::{Certain, Likely, Open};
        let GeneratorLoad { demand, waiting, .. } = report.generator;
        let counters = &report.counters;
        let is_machine_full = report.machine.machine_busy.is_some_and(|busy| busy > SATURATED);
        let server_busy = report.machine.server_busy;
        let (bottleneck, confidence) = if counters.deliveries == 0 && counters.sent == 0 {
            (Unknown, Open)
        } else if report.generator.is_bound() {
            // A thread that waits for a processor is displaced by others, not slow itself.
            if is_machine_full && waiting > DISPLACED { (Processors, Certain) } else { (LoadClient, Certain) }
        } else if report.schedule_lateness.percentile_us(99.0).is_some_and(|us| us > LATE_SCHEDULE_US) {
            (if is_machine_full { Processors } else { LoadClient }, Likely)
        } else if fell_behind(counters) {
            match server_busy {
                Some(busy) if busy > SATURATED => (Server, Certain),
                _ if is_machine_full => (Processors, Likely),
                // The server waited for something else than a processor.
                Some(_) => (Server, Likely),
                None if demand < RELAXED => (Server, Likely),
                None => (Unknown, Open),
            }
        } else {
            match server_busy {
                Some(busy) if busy > SATURATED => (Server, Likely),
                Some(_) if demand < RELAXED && !is_machine_full => (Nothing, Certain),
                _ => (Nothing, Likely),
            }
        };
        LimitVerdict { bottleneck, confidence }
    }

    /// Returns one sentence with the evidence.
    pub fn sentence(self, report: &LoadReport) -> String {
        let how_sure = match self.confidence {
            Confidence::Certain => "certainly",
            Confidence::Likely => "probably",
            Confidence::Open => "",
        };
        let has_problem = fell_behind(&report.counters);
        let what = match self.bottleneck {
            Bottleneck::LoadClient => {
                format!("the load client was {how_sure} the bottleneck, so the figures are its own limit")
            }
            Bottleneck::Server if has_problem => format!("the server was {how_sure} the bottleneck"),
            Bottleneck::Server => {
                format!("the server was {how_sure} near its limit, although nothing was late or lost")
            }
            Bottleneck::Processors => {
                format!("the processors that load client and server share were {how_sure} the bottleneck")
            }
            Bottleneck::Nothing => format!("{how_sure} nothing was a bottleneck: nothing was late or lost"),
            Bottleneck::Unknown if has_problem => "the bottleneck is unknown".into(),
            Bottleneck::Unknown => "the bottleneck is unknown, because no message was sent or received".into(),
        };
        let mut letters = what.chars();
        let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
        format!("{first}{} ({}).", letters.as_str(), evidence(report))
    }
}

/// Returns whether messages or connections suffered, for any reason.
const fn fell_behind(counters: &LoadCounters) -> bool {
    counters.late + counters.lost + counters.conflated + counters.ended_early + counters.failed > 0
}

/// Lists the measurements behind a verdict.
fn evidence(report: &LoadReport) -> String {
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    let mut parts = vec![format!("busiest thread of the load client {}", percent(report.generator.demand))];
    parts.push(match report.machine.server_busy {
        Some(busy) => format!("of the server {}", percent(busy)),
        None => "that of the server cannot be read from here".into(),
    });
    parts.extend(report.machine.machine_busy.map(|busy| format!("all processors {}", percent(busy))));
    if let Some(us) = report.schedule_lateness.percentile_us(99.0) {
        parts.push(format!("messages sent {:.1} ms after they were due at p99", us / 1e3));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine_load::MachineLoad;

    /// A run with deliveries, the demand of the load client, and the shares of server and machine.
    fn report(demand: f64, server: Option<f64>, machine: f64) -> LoadReport {
        let mut report = LoadReport::default();
        report.counters.deliveries = 1_000;
        (report.generator.demand, report.generator.busy) = (demand, demand);
        report.machine =
            MachineLoad { machine_busy: Some(machine), server_busy: server, server_cpu_ns: server.map(|_| 1) };
        report
    }

    fn with_lost(mut report: LoadReport) -> LoadReport {
        report.counters.lost = 3;
        report
    }

    fn verdict(report: &LoadReport) -> (&'static str, &'static str) {
        let LimitVerdict { bottleneck, confidence } = LimitVerdict::of(report);
        (bottleneck.name(), confidence.name())
    }

    #[test]
    fn saturated_load_client_is_the_bottleneck_for_every_server_load() {
        for server in [None, Some(0.1), Some(0.99)] {
            assert_eq!(verdict(&with_lost(report(0.95, server, 0.6))), ("load_client", "certain"));
        }
        // A thread that had to wait was displaced from a full machine.
        let mut displaced = report(0.95, Some(0.8), 0.99);
        displaced.generator.waiting = 0.4;
        assert_eq!(verdict(&displaced), ("processors", "certain"));
    }

    #[test]
    fn a_late_schedule_is_the_load_clients() {
        let mut late = report(0.4, Some(0.2), 0.5);
        (0..100).for_each(|_| late.schedule_lateness.record(25_000_000));
        assert_eq!(verdict(&late), ("load_client", "likely"));
        assert!(LimitVerdict::of(&late).sentence(&late).contains("messages sent 25.0 ms after they were due at p99"));
    }

    #[test]
    fn losses_of_a_relaxed_load_client_are_the_servers() {
        assert_eq!(verdict(&with_lost(report(0.2, Some(0.97), 0.6))), ("server", "certain"));
        assert_eq!(verdict(&with_lost(report(0.2, Some(0.3), 0.6))), ("server", "likely"));
        assert_eq!(verdict(&with_lost(report(0.2, None, 0.6))), ("server", "likely"));
        assert_eq!(verdict(&with_lost(report(0.7, None, 0.6))), ("unknown", "open"));
        assert_eq!(verdict(&with_lost(report(0.7, Some(0.5), 0.98))), ("processors", "likely"));
    }

    #[test]
    fn without_losses_nothing_is_a_bottleneck_unless_the_server_is_full() {
        assert_eq!(verdict(&report(0.2, Some(0.3), 0.4)), ("nothing", "certain"));
        assert_eq!(verdict(&report(0.2, Some(0.3), 0.99)), ("nothing", "likely"));
        assert_eq!(verdict(&report(0.2, None, 0.4)), ("nothing", "likely"));
        assert_eq!(verdict(&report(0.2, Some(0.97), 0.4)), ("server", "likely"));
        assert_eq!(verdict(&LoadReport::default()), ("unknown", "open"));
    }

    #[test]
    fn the_sentence_states_its_evidence() {
        let lost = with_lost(report(0.12, Some(0.97), 0.61));
        assert_eq!(
            LimitVerdict::of(&lost).sentence(&lost),
            "The server was certainly the bottleneck (busiest thread of the load client 12 %, of the server 97 %, \
             all processors 61 %)."
        );
        let remote = report(0.12, None, 0.61);
        assert_eq!(
            LimitVerdict::of(&remote).sentence(&remote),
            "Probably nothing was a bottleneck: nothing was late or lost (busiest thread of the load client 12 %, \
             that of the server cannot be read from here, all processors 61 %)."
        );
    }
}
