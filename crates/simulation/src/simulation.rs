//! A run from its plan to its figures.

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use pitwire_configuration::Preset;
use pitwire_failure::Failure;
use pitwire_flow_models::FlowSource;
use pitwire_journal::records::OutputChain;
use pitwire_model::{Event, SequencedCommand, VenueNanos};
use pitwire_schedule::{Calendar, RandomEnds, VenueCalendar};
use pitwire_venue::{LogBackend, Sequencer};

use crate::command_latency::{CommandLatency, LatencyFigures};
use crate::flow_set::{START, definition, start_flow};
use crate::market::{RunObserver, SimulatedMarket};
use crate::pacer::Pacer;
use crate::run_directory;
use crate::run_report::{RunFigures, RunReport};

/// Commands and their events, as they are passed to the observing thread.
type Batch = Vec<(SequencedCommand, Vec<Event>)>;
/// Commands in a batch. Passing a single command to another thread costs more than executing it.
const BATCH: usize = 256;
/// Batches that the market may be ahead of the observing thread.
const BATCHES_AHEAD: usize = 16;

/// Commands between two reports of the progress.
const REPORT_EVERY: u64 = 4_096;

/// Takes the finished part of a run and the total. An error ends the run.
pub type RunProgress<'a> = &'a mut dyn FnMut(u64, u64) -> Result<(), Failure>;

/// What to run.
pub struct SimulationPlan {
    pub preset: Preset,
    pub flow: FlowSource,
    pub seed: u64,
    /// Stop after this many commands of the flow.
    pub events: Option<u64>,
    /// Stop after this many seconds of venue time.
    pub horizon_s: Option<u64>,
    /// Most seconds of venue time in a second. `None` runs as fast as it goes. The tape is the
    /// same.
    pub speed: Option<u32>,
    /// Run the hash chain and the projections on a second thread. The tape is the same.
    pub has_observer_thread: bool,
    /// Directory for the journal of the run and the report.
    pub out: Option<PathBuf>,
    /// Measure the statistics of the run.
    pub report: bool,
}

/// Result of a run.
pub struct SimulationResult {
    /// Commands of the flow.
    pub events: u64,
    pub orders: u64,
    pub trades: u64,
    pub wall_s: f64,
    /// Hash of all public output.
    pub tape_hash: [u8; 32],
    pub figures: Option<RunFigures>,
    /// Times of the commands of the run, with the figures.
    pub latency: Option<LatencyFigures>,
}

impl SimulationPlan {
    /// Returns a plan without an end, as fast as it goes and without output.
    pub fn new(preset: Preset, flow: FlowSource, seed: u64) -> Self {
        SimulationPlan {
            preset,
            flow,
            seed,
            events: None,
            horizon_s: None,
            speed: None,
            has_observer_thread: false,
            out: None,
            report: false,
        }
    }

    /// Runs the market to its end and writes the journal and the report if the plan has a
    /// directory. Calls `progress` from time to time with the finished part and the total, in
    /// commands of the flow or in venue time.
    ///
    /// # Errors
    ///
    /// Returns a usage failure if the plan has no end or combines `out` with a second thread, a
    /// failure if the directory cannot be written, and the failure of `progress`.
    pub fn run(&self, progress: RunProgress<'_>) -> Result<SimulationResult, Failure> {
        let preset = &self.preset;
        let calendar = preset.setup.calendar(RandomEnds::from_seed(self.seed))?;
        let start = preset.start(&calendar, START, VenueNanos::ZERO);
        let end = self.end(&calendar, start)?;
        if self.out.is_some() && self.has_observer_thread {
            return Err(Failure::usage("--out keeps a run as it is made, on one thread").remedy("leave --threads out"));
        }
        let mut observer = RunObserver::default();
        let (mut market, lock) = SimulatedMarket::open(preset, calendar, start, self.out.as_deref(), &mut observer)?;
        if let Some(command) = definition(&self.flow)? {
            let stamped = market.submit(start, command)?;
            observer.observe(&stamped, &market.events);
        }
        let mut flow = start_flow(&self.flow, preset, self.seed, start, market.sequencer.engine())?;
        if self.report {
            flow.measure(start);
            market.latency = CommandLatency::new();
        }
        market.event_queue.set_flow(flow);
        let started = Instant::now();
        observer.report = self.report.then(|| RunReport::new(market.sequencer.engine(), start));
        if self.has_observer_thread {
            observer = self.advance_with_observer_thread(&mut market, end, progress, observer)?;
        } else {
            self.advance(&mut market, end, progress, |sequencer, stamped, events| {
                observer.observe(stamped, events);
                run_directory::commit_full_group(sequencer, &mut observer.chain)
            })?;
        }
        let wall_s = started.elapsed().as_secs_f64();
        let figures = observer.report.take().zip(market.event_queue.flow());
        let figures = figures.map(|(mut report, flow)| report.figures(market.sequencer.time(), flow));
        let result = self.result(&market, &observer.chain, wall_s, figures);
        if let Some(directory) = &self.out {
            run_directory::finish(market.sequencer, &mut observer.chain)?;
            if let Some(figures) = &result.figures {
                let title = format!("pitwire sim --preset {} --seed {}", preset.name, self.seed);
                run_directory::write_report(directory, &title, figures)?;
            }
        }
        drop(lock);
        Ok(result)
    }

    fn result(
        &self,
        market: &SimulatedMarket,
        chain: &OutputChain,
        wall_s: f64,
        figures: Option<RunFigures>,
    ) -> SimulationResult {
        let (orders, trades) = (chain.state().orders, chain.state().trades);
        let latency = market.latency.as_ref().map(CommandLatency::figures);
        let (events, tape_hash) = (market.flow_commands(), chain.tape());
        SimulationResult { events, orders, trades, wall_s, tape_hash, figures, latency }
    }

    fn end(&self, calendar: &VenueCalendar, start: VenueNanos) -> Result<VenueNanos, Failure> {
        match (self.horizon_s, self.events) {
            (Some(seconds), _) => Ok(VenueNanos(start.0.saturating_add(seconds.saturating_mul(1_000_000_000)))),
            (None, Some(_)) => Ok(VenueNanos(u64::MAX)),
            (None, None) if self.preset.starts.is_some() => Ok(calendar.closes(calendar.day_of(start))),
            (None, None) => Err(Failure::usage(format!("the {} market has no end of its own", self.preset.name))
                .remedy("give --events N or --horizon SECONDS")),
        }
    }

    /// Runs the market to its end and calls `visit` after each command.
    fn advance(
        &self,
        market: &mut SimulatedMarket,
        end: VenueNanos,
        progress: RunProgress<'_>,
        mut visit: impl FnMut(&mut Sequencer<LogBackend>, &SequencedCommand, &[Event]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let limit = self.events.unwrap_or(u64::MAX);
        let start = market.sequencer.time();
        let started = Instant::now();
        let pacer = self.speed.map(|speed| Pacer::new(start, speed));
        let mut report = |market: &SimulatedMarket| match self.events {
            Some(events) => progress(market.flow_commands(), events),
            None => progress(market.sequencer.time().0.saturating_sub(start.0), end.0.saturating_sub(start.0)),
        };
        let mut steps = 0_u64;
        while market.flow_commands() < limit && market.event_queue.next_due() <= end {
            let pause = pacer.as_ref().and_then(|pacer| pacer.pause(market.event_queue.next_due(), started.elapsed()));
            if let Some(pause) = pause {
                std::thread::sleep(pause);
                report(market)?;
                continue;
            }
            if let Some(stamped) = market.step(end)? {
                visit(&mut market.sequencer, &stamped, &market.events)?;
                steps += 1;
                if steps.is_multiple_of(REPORT_EVERY) {
                    report(market)?;
                }
            }
        }
        Ok(())
    }

    /// Runs the market to its end with `observer` on a separate thread.
    fn advance_with_observer_thread(
        &self,
        market: &mut SimulatedMarket,
        end: VenueNanos,
        progress: RunProgress<'_>,
        mut observer: RunObserver,
    ) -> Result<RunObserver, Failure> {
        let (sender, receiver) = sync_channel::<Batch>(BATCHES_AHEAD);
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                for batch in receiver {
                    batch.iter().for_each(|(stamped, events)| observer.observe(stamped, events));
                }
                observer
            });
            let mut batch = Batch::with_capacity(BATCH);
            let done = self.advance(market, end, progress, |_, stamped, events| {
                batch.push((stamped.clone(), events.to_vec()));
                if batch.len() == BATCH {
                    // Sending fails only if the thread panicked, which joining it reports.
                    let _ = sender.send(std::mem::replace(&mut batch, Batch::with_capacity(BATCH)));
                }
                Ok(())
            });
            let _ = sender.send(batch);
            drop(sender);
            let observer = thread.join().map_err(|_| Failure::new("the observing thread panicked"))?;
            done.map(|()| observer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_configuration::{PresetName, house_accounts};
    use pitwire_engine::Engine;
    use pitwire_model::{Phase, Seq};
    use pitwire_order_flow::{Flow, FlowConfig};

    /// Runs a day of the JSE preset. Returns the sessions of one instrument with their starts in
    /// seconds of the UTC day, and the calls that found a price.
    fn day(instrument: &str, seed: u64) -> (Vec<(u64, &'static str)>, Vec<Phase>) {
        let preset = PresetName::Jse.preset();
        let calendar = preset.setup.calendar(RandomEnds::from_seed(seed)).unwrap();
        let start = preset.start(&calendar, START, VenueNanos::ZERO);
        let end = calendar.closes(calendar.day_of(start));
        let sequencer = Sequencer::resume(Engine::new(), LogBackend::memory(), Seq(0), start);
        let mut observer = RunObserver::default();
        let mut market =
            SimulatedMarket::new(sequencer, preset.commands().unwrap(), calendar, start, &mut observer).unwrap();
        let engine = market.sequencer.engine();
        let config = FlowConfig::demo(engine, house_accounts(engine)).at_rate(3);
        market.event_queue.set_flow(Flow::new(config, seed, start, engine).unwrap());
        let watched = market.sequencer.engine().instrument_named(instrument).unwrap().spec.id;
        let (mut sessions, mut priced) = (Vec::new(), Vec::new());
        while market.event_queue.next_due() <= end {
            let Some(stamped) = market.step(end).unwrap() else { continue };
            for event in &market.events {
                match event {
                    Event::SessionChanged { instrument, to, .. } if *instrument == watched => {
                        sessions.push((stamped.at.0 / 1_000_000_000 % 86_400, to.name()));
                    }
                    Event::Uncrossed { instrument, call, .. } if *instrument == watched => priced.push(*call),
                    _ => {}
                }
            }
        }
        (sessions, priced)
    }

    #[test]
    fn a_day_of_the_jse_passes_through_its_sessions_and_every_call_has_a_price() {
        let (sessions, priced) = day("CLH_ZAR", 7);
        let names: Vec<&str> = sessions.iter().map(|(_, name)| *name).collect();
        assert_eq!(
            names,
            [
                "start_of_trading",
                "opening_auction",
                "continuous",
                "intraday_auction",
                "continuous",
                "closing_auction",
                "closing_price_publication",
                "closing_price_cross",
                "post_close"
            ]
        );
        assert_eq!(priced, [Phase::OpeningCall, Phase::IntradayCall, Phase::ClosingCall]);
        // UTC is two hours behind Johannesburg. Calls end within a random half minute.
        let at = |hours: u64, minutes: u64| ((hours - 2) * 60 + minutes) * 60;
        let due = [at(8, 25), at(8, 30), at(9, 0), at(12, 0), at(12, 15), at(16, 50), at(17, 0), at(17, 5), at(17, 10)];
        let late: Vec<u64> = sessions.iter().zip(due).map(|((at, _), due)| at - due).collect();
        assert!(late.iter().all(|late| *late <= 30), "{late:?}");
        assert_eq!([0, 1, 3, 5, 7, 8].map(|k| late[k]), [0; 6]);
        assert_eq!(day("CLH_ZAR", 7).0, sessions, "one seed, one day");
        assert_ne!(day("CLH_ZAR", 8).0, sessions, "another seed, other random ends");
    }
}
