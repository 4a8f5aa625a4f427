//! The session scheduler with an engine double that knows sessions, days and remaining counts, but
//! no orders.

use std::sync::Arc;

use super::*;
use crate::calendar::Boundary;
use pitwire_model::{Lots, NewOrder, OrderId, RemainingSessions, Seq, Side, Ticks};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;
/// A Monday.
const MONDAY: u32 = 20_458;

fn clock(text: &str) -> u64 {
    let parts = text.split(':').map(|part| part.parse::<u64>().unwrap());
    let [hours, minutes, seconds]: [u64; 3] = parts.chain([0]).take(3).collect::<Vec<_>>().try_into().unwrap();
    (hours * 3600 + minutes * 60 + seconds) * SECOND
}

/// A time of day within the test's week; day 0 is the Monday.
fn on(day: u32, text: &str) -> VenueNanos {
    VenueNanos(u64::from(MONDAY + day) * DAY + clock(text))
}

fn clock_text(at: VenueNanos) -> String {
    let (day, rest) = (at.0 / DAY, at.0 / SECOND % 86_400);
    let day = i64::try_from(day).unwrap() - i64::from(MONDAY);
    let ns = at.0 % SECOND;
    let ns = if ns == 0 { String::new() } else { format!(".{ns}") };
    format!("{day} {:02}:{:02}:{:02}{ns}", rest / 3600, rest / 60 % 60, rest % 60)
}

const MAIN: [(&str, Phase); 8] = [
    ("07:00", Phase::StartOfTrading),
    ("08:30", Phase::OpeningCall),
    ("09:00", Phase::Continuous),
    ("16:50", Phase::ClosingCall),
    ("17:00", Phase::ClosingPricePublication),
    ("17:05", Phase::ClosingPriceCross),
    ("17:10", Phase::PostClose),
    ("18:15", Phase::PostClose),
];

/// Days end at 18:15, and nothing trades on weekends. Schedule 0 is the day of the rulebook.
/// Schedule 1 has an intraday call. Schedule 2 has a call of 30 s every 3 min, day and night.
#[derive(Clone, Default)]
struct Week {
    spread_ns: u64,
    draws: u64,
    /// Trade reporting hours of schedule 0, on weekdays.
    hours: Option<[&'static str; 2]>,
}

impl Calendar for Week {
    fn day_of(&self, at: VenueNanos) -> VenueDay {
        VenueDay(u32::try_from((at.0 + DAY - clock("18:15")) / DAY).unwrap())
    }

    fn closes(&self, day: VenueDay) -> VenueNanos {
        VenueNanos(u64::from(day.0) * DAY + clock("18:15"))
    }

    fn schedule_of(&self, instrument: &str) -> Option<usize> {
        ["MAIN", "NOON", "CYCLE"].iter().position(|name| instrument.starts_with(name))
    }

    fn boundaries(&self, schedule: usize, day: VenueDay) -> Arc<[Boundary]> {
        let midnight = u64::from(day.0) * DAY;
        let mut boundaries = Vec::new();
        if schedule == 2 {
            let (mut at, end) = (self.closes(VenueDay(day.0 - 1)).0, self.closes(day).0);
            while at < end {
                boundaries.push(Boundary { at: VenueNanos(at), spread_ns: 0, to: Phase::IntradayCall });
                let back = VenueNanos(at + 30 * SECOND);
                boundaries.push(Boundary { at: back, spread_ns: 0, to: Phase::Continuous });
                at += 180 * SECOND;
            }
            return boundaries.into();
        }
        if (day.0 + 70 - MONDAY) % 7 >= 5 {
            return Arc::new([]);
        }
        for (n, (at, to)) in MAIN[..7].iter().enumerate() {
            let after_call = n.checked_sub(1).is_some_and(|k| MAIN[k].1.is_call());
            let spread_ns = if after_call { self.spread_ns } else { 0 };
            boundaries.push(Boundary { at: VenueNanos(midnight + clock(at)), spread_ns, to: *to });
            if schedule == 1 && n == 2 {
                let noon = [("12:00", Phase::IntradayCall), ("12:15", Phase::Continuous)];
                boundaries.extend(noon.map(|(at, to)| Boundary {
                    at: VenueNanos(midnight + clock(at)),
                    spread_ns: 0,
                    to,
                }));
            }
        }
        boundaries.into()
    }

    fn reporting(&self, schedule: usize, day: VenueDay) -> Option<(VenueNanos, VenueNanos)> {
        let weekday = (day.0 + 70 - MONDAY) % 7 < 5;
        let hours = self.hours.filter(|_| weekday && schedule == 0)?;
        let [from, until] = hours.map(|text| VenueNanos(u64::from(day.0) * DAY + clock(text)));
        Some((from, until))
    }

    fn draw(&mut self, most_ns: u64) -> u64 {
        self.draws += 1;
        most_ns / 2 + self.draws - 1
    }
}

#[derive(Clone)]
struct Market {
    name: String,
    phase: Phase,
    ends: Option<VenueNanos>,
    remaining: RemainingSessions,
    rules: Option<TradingRules>,
    hidden: bool,
    /// Trade reporting is open.
    reports: bool,
}

/// The parts of section 5 of the rulebook that the scheduler can observe.
#[derive(Clone)]
struct EngineDouble {
    markets: Vec<Market>,
    day: Option<VenueDay>,
    expiries: BTreeSet<VenueNanos>,
    now: VenueNanos,
    /// The next uncross breaches a tolerance.
    breaches: bool,
    log: Vec<String>,
    /// Counts how often the scheduler has read the remaining sessions.
    asked: std::cell::Cell<usize>,
}

impl InstrumentView for EngineDouble {
    fn venue_day(&self) -> Option<VenueDay> {
        self.day
    }

    fn instruments(&self) -> usize {
        self.markets.len()
    }

    fn name(&self, id: InstrumentId) -> &str {
        &self.markets[id.0 as usize].name
    }

    fn phase(&self, id: InstrumentId) -> Phase {
        self.markets[id.0 as usize].phase
    }

    fn ends(&self, id: InstrumentId) -> Option<VenueNanos> {
        self.markets[id.0 as usize].ends
    }

    fn remaining(&self, id: InstrumentId) -> RemainingSessions {
        self.asked.set(self.asked.get() + 1);
        self.markets[id.0 as usize].remaining
    }

    fn rules(&self, id: InstrumentId) -> Option<&TradingRules> {
        self.markets[id.0 as usize].rules.as_ref()
    }

    fn rests_hidden(&self, id: InstrumentId) -> bool {
        self.markets[id.0 as usize].hidden
    }

    fn reports(&self, id: InstrumentId) -> bool {
        self.markets[id.0 as usize].reports
    }

    fn next_expiry(&self, after: VenueNanos) -> Option<VenueNanos> {
        self.expiries.iter().find(|at| **at > after).copied()
    }
}

impl EngineDouble {
    fn new(names: &[&str]) -> EngineDouble {
        let market = |name: &&str| Market {
            name: (*name).to_owned(),
            phase: if Week::default().schedule_of(name).is_some() { Phase::Closed } else { Phase::Continuous },
            ends: None,
            remaining: RemainingSessions::default(),
            rules: None,
            hidden: false,
            reports: false,
        };
        EngineDouble {
            markets: names.iter().map(market).collect(),
            day: None,
            expiries: BTreeSet::new(),
            now: VenueNanos::ZERO,
            breaches: false,
            log: Vec::new(),
            asked: Default::default(),
        }
    }

    fn change(&mut self, id: InstrumentId, to: Phase, reason: SessionReason, ends: Option<VenueNanos>) -> Vec<Event> {
        let market = &mut self.markets[id.0 as usize];
        let from = market.phase;
        if from == to {
            return vec![Event::CommandRefused { reason: pitwire_model::Reject::SessionNotAllowed }];
        }
        let (mut to, mut ends, mut reason) = (to, ends, reason);
        let absorbs = from.is_triggered_call() && to.is_scheduled_call();
        if from.is_call() && from != Phase::VolatilityCall && !absorbs && self.breaches {
            self.breaches = false;
            (to, reason) = (Phase::VolatilityCall, SessionReason::Breaker);
            ends = Some(VenueNanos(self.now.0 + 300 * SECOND));
        }
        if from.is_call() && !to.is_call() && SessionKind::of(to) == SessionKind::Scheduled {
            self.expiries.retain(|at| *at > self.now);
        }
        (market.phase, market.ends) = (to, ends);
        market.remaining.take_one(to);
        vec![Event::SessionChanged { instrument: id, from, to, reason, ends }]
    }

    fn apply(&mut self, command: &Command) -> Vec<Event> {
        match command {
            Command::EndDay => {
                for market in &mut self.markets {
                    (market.remaining, market.reports) = (RemainingSessions::default(), false);
                }
                vec![Event::DayEnded]
            }
            Command::BeginDay { day, .. } => {
                self.day = Some(*day);
                vec![Event::DayBegun { day: *day }]
            }
            Command::SetRemaining { instrument, remaining } => {
                self.markets[instrument.0 as usize].remaining = *remaining;
                vec![Event::RemainingSet { instrument: *instrument }]
            }
            Command::ChangeSession { instrument, to, reason, ends, .. } => {
                self.change(*instrument, *to, *reason, *ends)
            }
            Command::ExtendSession { instrument, ends } => {
                let market = &mut self.markets[instrument.0 as usize];
                market.ends = Some(*ends);
                let (from, reason) = (market.phase, SessionReason::Extended);
                vec![Event::SessionChanged { instrument: *instrument, from, to: from, reason, ends: market.ends }]
            }
            Command::SetReporting { instrument, open, reason, ends, .. } => {
                let market = &mut self.markets[instrument.0 as usize];
                assert_ne!(market.reports, *open, "what is so already is not asked for");
                market.reports = *open;
                let (instrument, open, reason, ends) = (*instrument, *open, *reason, *ends);
                vec![Event::ReportingChanged { instrument, open, reason, ends }]
            }
            Command::PassTime => {
                let is_call = self.markets[0].phase.is_call();
                self.expiries.retain(|at| *at > self.now || is_call);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Writes one line about a command to the log.
    fn note(&mut self, command: &Command) {
        let name = |id: &InstrumentId| self.markets[id.0 as usize].name.clone();
        let line = match command {
            Command::EndDay => "end of day".into(),
            Command::BeginDay { day, closes } => format!("day {} until {}", day.0 - MONDAY, clock_text(*closes)),
            Command::SetRemaining { instrument, remaining } => {
                let left = Phase::ALL.iter().filter(|phase| remaining.holds(**phase));
                let left: Vec<String> =
                    left.map(|phase| format!("{} {}", remaining.counts[*phase as usize], phase.name())).collect();
                format!("{} still has {}", name(instrument), left.join(", "))
            }
            Command::ChangeSession { instrument, to, reason, due, .. } => {
                format!("{} {} {} due {}", name(instrument), to.name(), reason.name(), clock_text(*due))
            }
            Command::PassTime => "pass time".into(),
            Command::FilterHidden { instrument } => format!("filter {}", name(instrument)),
            Command::RunBatch { instrument } => format!("batch {}", name(instrument)),
            Command::SetReporting { instrument, open, reason, due, .. } => {
                let turn = if *open { "reports" } else { "reports no more" };
                format!("{} {turn} {} due {}", name(instrument), reason.name(), clock_text(*due))
            }
            other => format!("{other:?}"),
        };
        self.log.push(format!("{}  {line}", clock_text(self.now)));
    }
}

/// An engine double with its scheduler, and an operator's commands.
struct Fixture {
    engine: EngineDouble,
    scheduler: SessionScheduler,
    week: Week,
}

impl Fixture {
    fn open(engine: EngineDouble, now: VenueNanos, week: Week) -> Fixture {
        let scheduler = SessionScheduler::starting(Box::new(week.clone()), &engine, now, engine.now);
        let mut fixture = Fixture { engine, scheduler, week };
        fixture.engine.now = now;
        fixture
    }

    fn fresh(names: &[&str], now: VenueNanos) -> Fixture {
        Fixture::open(EngineDouble::new(names), now, Week::default())
    }

    /// Simulates `kill -9` and a new start. `down` is the time of the last command before it.
    fn restarted(&self, now: VenueNanos) -> Fixture {
        let mut fixture = Fixture::open(self.engine.clone(), now, self.week.clone());
        fixture.engine.log.clear();
        fixture
    }

    fn submit(&mut self, at: VenueNanos, command: Command) {
        self.engine.now = self.engine.now.max(at);
        self.engine.note(&command);
        let events = self.engine.apply(&command);
        let stamped = SequencedCommand { seq: Seq(1), at: self.engine.now, command };
        self.scheduler.observe(&stamped, &events, &self.engine);
    }

    fn operate(&mut self, at: VenueNanos, to: Phase) {
        self.run(at);
        let ends = (to == Phase::VolatilityCall).then_some(VenueNanos(at.0 + 300 * SECOND));
        self.submit(at, change(0, to, SessionReason::Operator, at, ends));
    }

    fn resume(&mut self, at: VenueNanos) {
        self.run(at);
        let (to, ends) = self.scheduler.scheduled(InstrumentId(0), at);
        self.submit(at, change(0, to, SessionReason::Operator, at, ends));
    }

    /// Runs everything that is due. More than 1,000 commands in one test are an endless loop.
    fn run(&mut self, until: VenueNanos) {
        for _ in 0..10_000 {
            let Some((at, command)) = self.scheduler.take(until, &self.engine) else {
                assert!(self.scheduler.next_due() > until);
                return;
            };
            assert!(at <= until.max(self.engine.now));
            self.submit(at, command);
        }
        panic!("endless: {:?}", &self.engine.log[9_980..]);
    }

    /// Returns the log lines since the last call.
    fn log_lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.engine.log)
    }

    /// Returns only the sessions, in short form: `17:00 closing_price_publication`.
    fn sessions(&mut self) -> Vec<String> {
        let lines = self.log_lines();
        let changes = lines.iter().filter(|line| line.contains(" due "));
        changes
            .map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                let reason = if words[4] == "scheduled" { String::new() } else { format!(" {}", words[4]) };
                format!("{} {}{reason}", words[1], words[3])
            })
            .collect()
    }
}

fn change(id: u32, to: Phase, reason: SessionReason, due: VenueNanos, ends: Option<VenueNanos>) -> Command {
    Command::ChangeSession { instrument: InstrumentId(id), to, reason, due, ends }
}

#[test]
fn day_runs_through_its_sessions_into_the_next_day() {
    let mut fixture = Fixture::fresh(&["MAIN", "FOREVER"], on(0, "08:25"));
    fixture.run(on(1, "07:00"));
    assert_eq!(
        fixture.log_lines(),
        [
            "0 08:25:00  day 0 until 0 18:15:00",
            "0 08:25:00  MAIN still has 1 continuous, 1 start_of_trading, 1 opening_auction, 1 closing_auction, \
         1 closing_price_publication, 1 closing_price_cross, 1 post_close",
            "0 08:25:00  MAIN start_of_trading scheduled due 0 07:00:00",
            "0 08:30:00  MAIN opening_auction scheduled due 0 08:30:00",
            "0 09:00:00  MAIN continuous scheduled due 0 09:00:00",
            "0 16:50:00  MAIN closing_auction scheduled due 0 16:50:00",
            "0 17:00:00  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:05:00  MAIN closing_price_cross scheduled due 0 17:05:00",
            "0 17:10:00  MAIN post_close scheduled due 0 17:10:00",
            "0 18:15:00  end of day",
            "0 18:15:00  day 1 until 1 18:15:00",
            "0 18:15:00  MAIN still has 1 continuous, 1 start_of_trading, 1 opening_auction, 1 closing_auction, \
         1 closing_price_publication, 1 closing_price_cross, 1 post_close",
            "1 07:00:00  MAIN start_of_trading scheduled due 1 07:00:00",
        ]
    );
}

#[test]
fn session_end_is_the_next_boundary_even_across_a_weekend() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(4, "16:51"));
    fixture.run(on(4, "16:51"));
    assert_eq!(fixture.engine.markets[0].ends, Some(on(4, "17:00")));
    fixture.run(on(4, "17:10"));
    assert_eq!(fixture.engine.markets[0].ends, Some(on(7, "07:00")));
    fixture.log_lines();
    fixture.run(on(7, "07:00"));
    let lines = fixture.log_lines();
    assert_eq!(lines.iter().filter(|line| line.contains("end of day")).count(), 3, "a day ends each day: {lines:?}");
    assert_eq!(lines.last().unwrap(), "7 07:00:00  MAIN start_of_trading scheduled due 7 07:00:00");
}

#[test]
fn fresh_venue_joins_the_running_session() {
    for (at, session) in [
        ("06:00", "post_close"),
        ("08:30", "opening_auction"),
        ("12:05", "intraday_auction"),
        ("12:20", "continuous"),
        ("17:06", "closing_price_cross"),
        ("18:14", "post_close"),
        ("18:15", "post_close"),
        ("23:00", "post_close"),
    ] {
        let mut fixture = Fixture::fresh(&["NOON"], on(1, at));
        fixture.run(on(1, at));
        assert_eq!(fixture.sessions(), [format!("{at}:00 {session}")], "{at}");
    }
}

#[test]
fn random_end_is_drawn_once_and_is_in_the_command() {
    let week = Week { spread_ns: 30 * SECOND, ..Week::default() };
    let mut fixture = Fixture::open(EngineDouble::new(&["MAIN"]), on(0, "08:25"), week);
    fixture.run(on(0, "18:00"));
    assert_eq!(
        fixture.log_lines()[3..],
        [
            "0 08:30:00  MAIN opening_auction scheduled due 0 08:30:00",
            "0 09:00:15  MAIN continuous scheduled due 0 09:00:00",
            "0 16:50:00  MAIN closing_auction scheduled due 0 16:50:00",
            "0 17:00:15.1  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:05:00  MAIN closing_price_cross scheduled due 0 17:05:00",
            "0 17:10:00  MAIN post_close scheduled due 0 17:10:00",
        ]
    );
}

#[test]
fn repeated_calls_run_all_day_and_keep_counts_exact() {
    let mut fixture = Fixture::fresh(&["CYCLE"], on(0, "10:00:10"));
    fixture.run(on(0, "10:06:29"));
    let full = "CYCLE still has 255 continuous, 255 intraday_auction";
    assert_eq!(
        fixture.log_lines()[1..],
        [
            "0 10:00:10  CYCLE still has 167 continuous, 166 intraday_auction",
            "0 10:00:10  CYCLE intraday_auction scheduled due 0 10:00:00",
            "0 10:00:30  CYCLE continuous scheduled due 0 10:00:30",
            "0 10:03:00  CYCLE intraday_auction scheduled due 0 10:03:00",
            "0 10:03:30  CYCLE continuous scheduled due 0 10:03:30",
            "0 10:06:00  CYCLE intraday_auction scheduled due 0 10:06:00",
        ]
        .map(|line| line.replace("167 continuous, 166", "165 continuous, 165"))
    );
    fixture.run(on(0, "18:16"));
    let lines = fixture.log_lines();
    let turn = lines.iter().position(|line| line.contains("end of day")).unwrap();
    assert_eq!(
        lines[turn - 1..],
        [
            "0 18:12:30  CYCLE continuous scheduled due 0 18:12:30".into(),
            "0 18:15:00  end of day".into(),
            "0 18:15:00  day 1 until 1 18:15:00".into(),
            format!("0 18:15:00  {full}"),
            "0 18:15:00  CYCLE intraday_auction scheduled due 0 18:15:00".into(),
            format!("0 18:15:00  {full}"),
            "0 18:15:30  CYCLE continuous scheduled due 0 18:15:30".into(),
            format!("0 18:15:30  {full}"),
        ]
    );
}

#[test]
fn scheduled_call_absorbs_a_volatility_call() {
    let breach = |fixture: &mut Fixture, at: VenueNanos| {
        fixture.run(at);
        fixture.log_lines();
        let market = &mut fixture.engine.markets[0];
        let ends = Some(VenueNanos(at.0 + 300 * SECOND));
        (market.phase, market.ends) = (Phase::VolatilityCall, ends);
        let reason = SessionReason::Breaker;
        let (from, to) = (Phase::Continuous, Phase::VolatilityCall);
        let event = Event::SessionChanged { instrument: InstrumentId(0), from, to, reason, ends };
        let stamped = SequencedCommand { seq: Seq(1), at, command: Command::SampleIndex };
        fixture.engine.now = at;
        fixture.scheduler.observe(&stamped, &[event], &fixture.engine);
    };
    let mut fixture = Fixture::fresh(&["NOON"], on(0, "08:25"));
    breach(&mut fixture, on(0, "10:00:01"));
    fixture.run(on(0, "12:00"));
    assert_eq!(fixture.sessions(), ["10:05:01 continuous", "12:00:00 intraday_auction"]);
    // The session that the return to continuous trading used is counted again.
    assert_eq!(fixture.engine.markets[0].remaining.counts[Phase::Continuous as usize], 1);
    fixture.run(on(0, "12:20"));
    breach(&mut fixture, on(0, "16:48"));
    fixture.run(on(0, "17:20"));
    assert_eq!(
        fixture.sessions(),
        [
            "16:50:00 closing_auction",
            "17:00:00 closing_price_publication",
            "17:05:00 closing_price_cross",
            "17:10:00 post_close"
        ]
    );
}

#[test]
fn sessions_wait_for_a_volatility_call_and_then_run_in_order() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "16:55"));
    fixture.run(on(0, "16:59"));
    fixture.log_lines();
    fixture.engine.breaches = true;
    fixture.run(on(0, "17:20"));
    // The command requests the publication; the engine finds the breach.
    assert_eq!(
        fixture.log_lines(),
        [
            "0 17:00:00  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:05:00  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:05:00  MAIN closing_price_cross scheduled due 0 17:05:00",
            "0 17:10:00  MAIN post_close scheduled due 0 17:10:00",
        ]
    );
    // A longer pause meets the day's last session, which begins in every state.
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "16:55"));
    fixture.run(on(0, "16:59"));
    fixture.engine.breaches = true;
    fixture.run(on(0, "17:01"));
    fixture.submit(on(0, "17:01"), Command::ExtendSession { instrument: InstrumentId(0), ends: on(0, "17:30") });
    fixture.log_lines();
    fixture.run(on(0, "18:00"));
    assert_eq!(
        fixture.log_lines(),
        [
            "0 17:10:00  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:10:00  MAIN closing_price_cross scheduled due 0 17:05:00",
            "0 17:10:00  MAIN post_close scheduled due 0 17:10:00",
        ]
    );
}

#[test]
fn extended_call_ends_at_its_new_time_before_waiting_sessions() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "16:55"));
    fixture.run(on(0, "16:56"));
    fixture.submit(on(0, "16:56"), Command::ExtendSession { instrument: InstrumentId(0), ends: on(0, "17:06") });
    fixture.log_lines();
    fixture.run(on(0, "17:09"));
    assert_eq!(fixture.sessions(), ["17:06:00 closing_price_publication", "17:06:00 closing_price_cross"]);
}

#[test]
fn resume_after_a_halt_enters_the_planned_session() {
    let mut fixture = Fixture::fresh(&["NOON"], on(0, "08:25"));
    fixture.operate(on(0, "11:50"), Phase::Halted);
    fixture.log_lines();
    fixture.run(on(0, "12:20"));
    assert_eq!(
        fixture.log_lines(),
        ["0 12:15:00  NOON still has 1 continuous, 1 closing_auction, 1 closing_price_publication, \
         1 closing_price_cross, 1 post_close"]
    );
    fixture.resume(on(0, "12:20"));
    fixture.run(on(0, "16:50"));
    assert_eq!(fixture.sessions(), ["12:20:00 continuous operator", "16:50:00 closing_auction"]);
    // Inside a call, the call continues.
    fixture.operate(on(0, "16:52"), Phase::Pause);
    fixture.resume(on(0, "16:53"));
    assert_eq!(fixture.engine.markets[0].ends, Some(on(0, "17:00")));
    fixture.run(on(0, "17:00"));
    assert_eq!(fixture.sessions()[1..], ["16:53:00 closing_auction operator", "17:00:00 closing_price_publication"]);
}

#[test]
fn closing_price_publication_is_not_skipped_by_a_halt() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "08:25"));
    fixture.operate(on(0, "16:40"), Phase::Halted);
    fixture.resume(on(0, "17:06"));
    fixture.run(on(0, "17:09"));
    assert_eq!(
        fixture.sessions()[3..],
        ["16:40:00 halt operator", "17:06:00 closing_price_publication operator", "17:06:00 closing_price_cross"]
    );
    // Without a resume, the day's last session begins, with the closing price but without the
    // cross.
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "08:25"));
    fixture.operate(on(0, "16:40"), Phase::Halted);
    fixture.run(on(1, "07:00"));
    assert_eq!(
        fixture.sessions()[4..],
        ["17:10:00 closing_price_publication", "17:10:00 post_close", "07:00:00 start_of_trading"]
    );
}

#[test]
fn reopening_call_ends_by_operator_or_end_time_or_scheduled_call() {
    let mut fixture = Fixture::fresh(&["NOON"], on(0, "08:25"));
    fixture.operate(on(0, "10:00"), Phase::Halted);
    fixture.operate(on(0, "10:10"), Phase::ReopeningCall);
    fixture.run(on(0, "11:00"));
    assert_eq!(fixture.sessions()[4..], ["10:10:00 reopening_auction operator"]);
    fixture.run(on(0, "12:01"));
    assert_eq!(fixture.sessions(), ["12:00:00 intraday_auction"]);
    fixture.run(on(0, "13:00"));
    fixture.operate(on(0, "13:00"), Phase::Halted);
    fixture.log_lines();
    let until = on(0, "13:05");
    let reopening = change(0, Phase::ReopeningCall, SessionReason::Operator, on(0, "13:01"), Some(until));
    fixture.submit(on(0, "13:01"), reopening);
    fixture.run(on(0, "14:00"));
    assert_eq!(fixture.sessions(), ["13:01:00 reopening_auction operator", "13:05:00 continuous"]);
}

#[test]
fn instrument_without_schedule_returns_from_a_volatility_call() {
    let mut fixture = Fixture::fresh(&["FOREVER"], on(0, "08:25"));
    fixture.operate(on(0, "10:00"), Phase::VolatilityCall);
    fixture.run(on(0, "11:00"));
    assert_eq!(fixture.sessions(), ["10:00:00 volatility_auction operator", "10:05:00 continuous"]);
    // A volatility call without an end lasts five minutes.
    let endless = change(0, Phase::VolatilityCall, SessionReason::Operator, on(0, "12:00"), None);
    fixture.submit(on(0, "12:00"), endless);
    fixture.run(on(0, "12:30"));
    assert_eq!(fixture.sessions()[1..], ["12:05:00 continuous"]);
}

#[test]
fn pass_time_comes_first_at_each_expiry() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "08:25"));
    fixture.run(on(0, "09:30"));
    fixture.log_lines();
    let enter = |fixture: &mut Fixture, at: VenueNanos, until: VenueNanos| {
        fixture.engine.expiries.insert(until);
        let tif = TimeInForce::GoodTillTime { at: until };
        let order_type = OrderType::Limit { price: Ticks(5) };
        let accepted = Event::Accepted {
            order: OrderId(1),
            account: pitwire_model::AccountId(0),
            instrument: InstrumentId(0),
            side: Side::Buy,
            order_type,
            lots: Lots(1),
            tif,
            display: None,
        };
        fixture.engine.now = at;
        let stamped = SequencedCommand { seq: Seq(1), at, command: Command::Enter(NewOrder::PLAIN) };
        fixture.scheduler.observe(&stamped, &[accepted], &fixture.engine);
    };
    for until in ["16:50", "10:00", "10:00:01", "16:55"] {
        enter(&mut fixture, on(0, "09:30"), on(0, until));
    }
    fixture.run(on(0, "17:00"));
    assert_eq!(
        fixture.log_lines(),
        [
            "0 10:00:00  pass time",
            "0 10:00:01  pass time",
            "0 16:50:00  pass time",
            "0 16:50:00  MAIN closing_auction scheduled due 0 16:50:00",
            "0 16:55:00  pass time",
            "0 17:00:00  MAIN closing_price_publication scheduled due 0 17:00:00",
        ]
    );
}

#[test]
fn order_good_till_the_close_expires_by_its_time() {
    let mut fixture = Fixture::fresh(&["FOREVER"], on(0, "18:00"));
    fixture.run(on(0, "18:00"));
    fixture.engine.expiries.insert(on(0, "18:15"));
    fixture.scheduler.expiry = on(0, "18:15");
    fixture.scheduler.look(&fixture.engine);
    fixture.log_lines();
    fixture.run(on(0, "18:20"));
    assert_eq!(
        fixture.log_lines(),
        ["0 18:15:00  pass time", "0 18:15:00  end of day", "0 18:15:00  day 1 until 1 18:15:00"]
    );
}

#[test]
fn orders_kept_by_a_halted_call_expire_when_it_ends() {
    let mut fixture = Fixture::fresh(&["MAIN"], on(0, "16:51"));
    fixture.run(on(0, "16:51"));
    fixture.engine.expiries.insert(on(0, "16:55"));
    fixture.scheduler.expiry = on(0, "16:55");
    fixture.scheduler.look(&fixture.engine);
    fixture.run(on(0, "16:56"));
    fixture.log_lines();
    fixture.operate(on(0, "16:57"), Phase::Halted);
    fixture.run(on(0, "16:58"));
    assert_eq!(fixture.log_lines(), ["0 16:57:00  MAIN halt operator due 0 16:57:00", "0 16:57:00  pass time"]);
}

mod reporting;
mod restarts;
mod timed;
