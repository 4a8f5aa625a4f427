//! `pitwire sim`: the same engine and flow without sockets.

mod kept;
mod page;
mod report;
mod statistics;
mod watch;

use std::path::PathBuf;
use std::sync::mpsc::sync_channel;
use std::time::Instant;

use clap::{Args, ValueEnum};
use pitwire_engine::Engine;
use pitwire_journal::records::OutputChain;
use pitwire_model::{Command, Event, InstrumentId, Seq, Stamped, VenueNanos};
use pitwire_order_flow::{Flow, FlowConfig, Reading};
use pitwire_projections::{Change, Views};
use pitwire_schedule::{Calendar, RandomEnds, TimerQueue, VenueCalendar};

use crate::output::{hex, say};
use pitwire_configuration::{Preset, PresetName, house_accounts};
use pitwire_failure::Failure;
use pitwire_venue::{DueEvent, EventQueue, LogBackend, Sequencer};
use report::{Figures, Report};

const EXAMPLES: &str = "Examples:
  pitwire sim --seed 7 --events 100000          the same seed gives the same tape_hash, on any machine
  pitwire sim --seed 7 --horizon 3600 --json    an hour of venue time, figures as one JSON object
  pitwire sim --seed 7 --horizon 3600 --out run --report
                                                keeps the run in run/ (pitwire verify run, pitwire export run) and
                                                writes run/report.html and run/report.json
  pitwire sim --preset jse --seed 7             a day of the Johannesburg exchange, from 08:25 to the day's end";

/// Monday, 2026-01-05 09:00:00 UTC: a simulation has no wall clock to start from.
pub const START: VenueNanos = VenueNanos(1_767_603_600_000_000_000);

/// Run a market without sockets or disk, as fast as it goes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Sim {
    /// Which market.
    #[arg(long, value_enum, default_value = "demo")]
    preset: PresetName,
    /// Which order flow.
    #[arg(long, value_enum, default_value = "demo")]
    flow: FlowName,
    /// Equal seeds give equal tapes.
    #[arg(long, value_name = "N")]
    seed: u64,
    /// Stop after so many flow commands.
    #[arg(long, value_name = "N", conflicts_with = "horizon")]
    events: Option<u64>,
    /// Stop after so many seconds of venue time. A preset with a day of sessions needs neither: it stops with the day.
    #[arg(long, value_name = "SECONDS")]
    horizon: Option<u64>,
    /// 2: what listens to the engine (hash chain, views) has a thread of its own. The tape is the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    threads: u8,
    /// Keep the run here: a journal like a venue's, for verify, export, explain and up. Not with --threads 2.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Measure spread, depth, volatility signature, sign autocorrelation, impact, and events beside theory; with --out
    /// also as report.html with plots and report.json.
    #[arg(long)]
    report: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FlowName {
    /// Symmetric, with lifetimes and a market maker: can run for days.
    Demo,
    /// The published eight-type set, on the first instrument, without cancels.
    Paper,
    /// The published set as the original program loaded it.
    PaperAsLoaded,
}

impl Sim {
    pub fn run(self) -> Result<(), Failure> {
        let preset = self.preset.preset();
        let calendar = preset.setup.calendar(RandomEnds::from_seed(self.seed))?;
        let start = preset.start(&calendar, START, VenueNanos::ZERO);
        let end = self.end(&preset, &calendar, start)?;
        if self.out.is_some() && self.threads != 1 {
            return Err(Failure::usage("--out keeps a run as it is made, on one thread").remedy("leave --threads out"));
        }
        let (sequencer, lock) = match &self.out {
            Some(directory) => kept::begin(directory).map(|(sequencer, lock)| (sequencer, Some(lock)))?,
            None => (Sequencer::resume(Engine::new(), LogBackend::memory(), Seq(0), start), None),
        };
        let mut market = Market::new(sequencer, preset.commands()?, calendar, start)?;
        let engine = market.sequencer.engine();
        let house = house_accounts(engine);
        let config = match self.flow {
            FlowName::Demo => FlowConfig::demo(engine, house).at_rate(preset.flow_percent),
            FlowName::Paper => FlowConfig::paper(InstrumentId(0), house, Reading::File),
            FlowName::PaperAsLoaded => FlowConfig::paper(InstrumentId(0), house, Reading::AsLoaded),
        };
        let flow = Flow::new(config, self.seed, start, engine);
        market.event_queue.set_flow(flow.map_err(|error| Failure::new(error.to_string()).remedy(error.remedy()))?);
        let started = Instant::now();
        let mut listener = std::mem::take(&mut market.listener);
        listener.report = self.report.then(|| Report::new(market.sequencer.engine(), start));
        if self.threads == 1 {
            self.advance_alone(&mut market, end, &mut listener)?;
        } else {
            listener = self.advance_beside(&mut market, end, listener)?;
        }
        let wall_s = started.elapsed().as_secs_f64();
        let figures = listener.report.take().zip(market.event_queue.flow());
        let figures = figures.map(|(mut report, flow)| report.figures(market.sequencer.time(), flow));
        self.print(market.flow_commands(), &listener.chain, wall_s, figures.as_ref());
        if let Some(directory) = &self.out {
            kept::finish(market.sequencer, &mut listener.chain)?;
            if let Some(figures) = &figures {
                let title = format!("pitwire sim --preset {} --seed {}", preset.name, self.seed);
                kept::write_report(directory, &title, figures)?;
            }
        }
        drop(lock);
        Ok(())
    }

    fn advance_alone(&self, market: &mut Market, end: VenueNanos, listener: &mut Listener) -> Result<(), Failure> {
        let most = self.events.unwrap_or(u64::MAX);
        while market.flow_commands() < most && market.event_queue.next_due() <= end {
            if let Some(stamped) = market.step(end)? {
                listener.observe(&stamped, &market.events);
                kept::commit_group(&mut market.sequencer, &mut listener.chain)?;
            }
        }
        Ok(())
    }

    fn end(&self, preset: &Preset, calendar: &VenueCalendar, start: VenueNanos) -> Result<VenueNanos, Failure> {
        match (self.horizon, self.events) {
            (Some(seconds), _) => Ok(VenueNanos(start.0.saturating_add(seconds.saturating_mul(1_000_000_000)))),
            (None, Some(_)) => Ok(VenueNanos(u64::MAX)),
            (None, None) if preset.starts.is_some() => Ok(calendar.closes(calendar.day_of(start))),
            (None, None) => Err(Failure::usage(format!("the {} market has no end of its own", preset.name))
                .remedy("give --events N or --horizon SECONDS")),
        }
    }

    /// Runs the market to its end and tells `hear` of each command.
    fn advance(
        &self,
        market: &mut Market,
        end: VenueNanos,
        mut hear: impl FnMut(&Stamped, &[Event]),
    ) -> Result<(), Failure> {
        let most = self.events.unwrap_or(u64::MAX);
        while market.flow_commands() < most && market.event_queue.next_due() <= end {
            if let Some(stamped) = market.step(end)? {
                hear(&stamped, &market.events);
            }
        }
        Ok(())
    }

    /// The same with the listener on a thread of its own, in batches: a handover costs more than a command.
    fn advance_beside(
        &self,
        market: &mut Market,
        end: VenueNanos,
        mut listener: Listener,
    ) -> Result<Listener, Failure> {
        let (sender, receiver) = sync_channel::<Batch>(BATCHES_AHEAD);
        std::thread::scope(|scope| {
            let listening = scope.spawn(move || {
                for batch in receiver {
                    batch.iter().for_each(|(stamped, events)| listener.observe(stamped, events));
                }
                listener
            });
            let mut batch = Batch::with_capacity(BATCH);
            let done = self.advance(market, end, |stamped, events| {
                batch.push((stamped.clone(), events.to_vec()));
                if batch.len() == BATCH {
                    // A listener that is gone has panicked; joining it below tells.
                    let _ = sender.send(std::mem::replace(&mut batch, Batch::with_capacity(BATCH)));
                }
            });
            let _ = sender.send(batch);
            drop(sender);
            let listener = listening.join().map_err(|_| Failure::new("the listening thread failed"))?;
            done.map(|()| listener)
        })
    }

    #[allow(clippy::cast_precision_loss)]
    fn print(&self, events: u64, chain: &OutputChain, wall_s: f64, figures: Option<&Figures>) {
        let (tape, chain) = (chain.tape(), chain.state());
        let tape = hex(&tape);
        let per_second = events as f64 / wall_s.max(1e-9);
        if self.json {
            let report = figures.and_then(|figures| serde_json::to_string(figures).ok());
            let report = report.map_or_else(String::new, |report| format!(",\"report\":{report}"));
            say(&format!(
                "{{\"events\":{events},\"orders\":{},\"trades\":{},\"wall_s\":{wall_s:.6},\"events_per_s\":{per_second:.1},\"tape_hash\":\"{tape}\"{report}}}",
                chain.orders, chain.trades
            ));
            return;
        }
        say(&format!("events        {events}"));
        say(&format!("orders        {}", chain.orders));
        say(&format!("trades        {}", chain.trades));
        say(&format!("wall_s        {wall_s:.3}"));
        say(&format!("events_per_s  {per_second:.0}"));
        say(&format!("tape_hash     {tape}"));
        figures.map(Figures::lines).into_iter().flatten().for_each(|line| say(&line));
    }
}

/// Commands with what they caused.
type Batch = Vec<(Stamped, Vec<Event>)>;
const BATCH: usize = 256;
const BATCHES_AHEAD: usize = 16;

/// What hears every command: it decides nothing.
#[derive(Default)]
struct Listener {
    chain: OutputChain,
    views: Views,
    changes: Vec<Change>,
    report: Option<Report>,
}

impl Listener {
    fn observe(&mut self, stamped: &Stamped, events: &[Event]) {
        self.chain.absorb(stamped, events);
        self.views.observe(stamped, events, &mut self.changes);
        self.changes.clear();
        if let Some(report) = &mut self.report {
            report.observe(stamped, events);
        }
    }
}

/// Everything that decides what happens next.
struct Market {
    sequencer: Sequencer<LogBackend>,
    event_queue: EventQueue,
    events: Vec<Event>,
    listener: Listener,
}

impl Market {
    fn new(
        sequencer: Sequencer<LogBackend>,
        definitions: Vec<Command>,
        calendar: VenueCalendar,
        start: VenueNanos,
    ) -> Result<Self, Failure> {
        let timetable = TimerQueue::starting(Box::new(calendar), sequencer.engine(), start, VenueNanos::ZERO);
        let event_queue = EventQueue::new(timetable);
        let listener = Listener::default();
        let mut market = Market { sequencer, event_queue, events: Vec::new(), listener };
        for command in definitions {
            let stamped = market.submit(start, command)?;
            market.listener.observe(&stamped, &market.events);
        }
        Ok(market)
    }

    fn submit(&mut self, at: VenueNanos, command: Command) -> Result<Stamped, Failure> {
        self.events.clear();
        let stamped = self.sequencer.submit(at, command, &mut self.events)?;
        let now = self.sequencer.time();
        self.event_queue.observe(&stamped, &self.events, self.sequencer.engine(), now);
        Ok(stamped)
    }

    /// Runs the next thing due; `None` when it came to nothing.
    fn step(&mut self, until: VenueNanos) -> Result<Option<Stamped>, Failure> {
        match self.event_queue.take(until, self.sequencer.engine()) {
            DueEvent::Nothing | DueEvent::Idle => Ok(None),
            DueEvent::Timed(at, command) | DueEvent::Flow(at, command) => self.submit(at, command).map(Some),
        }
    }

    fn flow_commands(&self) -> u64 {
        self.event_queue.flow().map_or(0, |flow| flow.counts().commands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::Phase;

    /// What a day of the preset told the public about one instrument: its sessions with their beginnings in seconds of
    /// the UTC day, and which of its calls had a price.
    fn day(instrument: &str, seed: u64) -> (Vec<(u64, &'static str)>, Vec<Phase>) {
        let preset = PresetName::Jse.preset();
        let calendar = preset.setup.calendar(RandomEnds::from_seed(seed)).unwrap();
        let start = preset.start(&calendar, START, VenueNanos::ZERO);
        let end = calendar.closes(calendar.day_of(start));
        let sequencer = Sequencer::resume(Engine::new(), LogBackend::memory(), Seq(0), start);
        let mut market = Market::new(sequencer, preset.commands().unwrap(), calendar, start).unwrap();
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
        // Two hours behind Johannesburg; calls end within their random half minute.
        let at = |hours: u64, minutes: u64| ((hours - 2) * 60 + minutes) * 60;
        let due = [at(8, 25), at(8, 30), at(9, 0), at(12, 0), at(12, 15), at(16, 50), at(17, 0), at(17, 5), at(17, 10)];
        let late: Vec<u64> = sessions.iter().zip(due).map(|((at, _), due)| at - due).collect();
        assert!(late.iter().all(|late| *late <= 30), "{late:?}");
        assert_eq!([0, 1, 3, 5, 7, 8].map(|k| late[k]), [0; 6]);
        assert_eq!(day("CLH_ZAR", 7).0, sessions, "one seed, one day");
        assert_ne!(day("CLH_ZAR", 8).0, sessions, "another seed, other random ends");
    }
}
