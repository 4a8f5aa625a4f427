//! A scheduler beside a double of the engine that knows sessions, days and remaining counts, and no orders.

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

/// On that day of the test's week; day 0 is the Monday.
fn on(day: u32, text: &str) -> VenueNanos {
    VenueNanos(u64::from(MONDAY + day) * DAY + clock(text))
}

fn told(at: VenueNanos) -> String {
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

/// Days end at 18:15 and on weekends nothing trades. Schedule 0: the day of the rulebook. 1: with an intraday call.
/// 2: a call of half a minute every three, day and night.
#[derive(Clone, Default)]
struct Week {
    spread_ns: u64,
    draws: u64,
    /// Of trade reporting, on weekdays, by schedule 0.
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

    /// Half of the spread, and a nanosecond for each draw before.
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
    /// Its hours of trade reporting run.
    reports: bool,
}

/// What an engine does of the rulebook's section 5, as far as a timetable can see it.
#[derive(Clone)]
struct Hall {
    markets: Vec<Market>,
    day: Option<VenueDay>,
    expiries: BTreeSet<VenueNanos>,
    now: VenueNanos,
    /// The next uncross breaches.
    breaches: bool,
    log: Vec<String>,
    /// How often the scheduler has asked for a day's remaining sessions.
    asked: std::cell::Cell<usize>,
}

impl InstrumentView for Hall {
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

impl Hall {
    fn new(names: &[&str]) -> Hall {
        let market = |name: &&str| Market {
            name: (*name).to_owned(),
            phase: if Week::default().schedule_of(name).is_some() { Phase::Closed } else { Phase::Continuous },
            ends: None,
            remaining: RemainingSessions::default(),
            rules: None,
            hidden: false,
            reports: false,
        };
        Hall {
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
        if from.is_call() && !to.is_call() && Standing::of(to) == Standing::Scheduled {
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

    /// One line of what was done.
    fn note(&mut self, command: &Command) {
        let name = |id: &InstrumentId| self.markets[id.0 as usize].name.clone();
        let line = match command {
            Command::EndDay => "end of day".into(),
            Command::BeginDay { day, closes } => format!("day {} until {}", day.0 - MONDAY, told(*closes)),
            Command::SetRemaining { instrument, remaining } => {
                let left = Phase::ALL.iter().filter(|phase| remaining.holds(**phase));
                let left: Vec<String> =
                    left.map(|phase| format!("{} {}", remaining.counts[*phase as usize], phase.name())).collect();
                format!("{} still has {}", name(instrument), left.join(", "))
            }
            Command::ChangeSession { instrument, to, reason, due, .. } => {
                format!("{} {} {} due {}", name(instrument), to.name(), reason.name(), told(*due))
            }
            Command::PassTime => "pass time".into(),
            Command::FilterHidden { instrument } => format!("filter {}", name(instrument)),
            Command::RunBatch { instrument } => format!("batch {}", name(instrument)),
            Command::SetReporting { instrument, open, reason, due, .. } => {
                let turn = if *open { "reports" } else { "reports no more" };
                format!("{} {turn} {} due {}", name(instrument), reason.name(), told(*due))
            }
            other => format!("{other:?}"),
        };
        self.log.push(format!("{}  {line}", told(self.now)));
    }
}

/// A hall with its scheduler, and an operator's hand.
struct House {
    hall: Hall,
    scheduler: SessionScheduler,
    week: Week,
}

impl House {
    fn open(hall: Hall, now: VenueNanos, week: Week) -> House {
        let scheduler = SessionScheduler::starting(Box::new(week.clone()), &hall, now, hall.now);
        let mut house = House { hall, scheduler, week };
        house.hall.now = now;
        house
    }

    fn fresh(names: &[&str], now: VenueNanos) -> House {
        House::open(Hall::new(names), now, Week::default())
    }

    /// kill -9 and a new start; `down` is when it was last seen.
    fn restarted(&self, now: VenueNanos) -> House {
        let mut house = House::open(self.hall.clone(), now, self.week.clone());
        house.hall.log.clear();
        house
    }

    fn submit(&mut self, at: VenueNanos, command: Command) {
        self.hall.now = self.hall.now.max(at);
        self.hall.note(&command);
        let events = self.hall.apply(&command);
        let stamped = Stamped { seq: Seq(1), at: self.hall.now, command };
        self.scheduler.observe(&stamped, &events, &self.hall);
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

    /// Whatever is due; more than a thousand things in a test are an endless loop.
    fn run(&mut self, until: VenueNanos) {
        for _ in 0..10_000 {
            let Some((at, command)) = self.scheduler.take(until, &self.hall) else {
                assert!(self.scheduler.next_due() > until);
                return;
            };
            assert!(at <= until.max(self.hall.now));
            self.submit(at, command);
        }
        panic!("endless: {:?}", &self.hall.log[9_980..]);
    }

    /// What happened since the last time this was asked.
    fn said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.hall.log)
    }

    /// The sessions alone, short: `17:00 closing_price_publication`.
    fn sessions(&mut self) -> Vec<String> {
        let said = self.said();
        let changes = said.iter().filter(|line| line.contains(" due "));
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
fn a_day_is_led_through_its_sessions_and_turns_into_the_next() {
    let mut house = House::fresh(&["MAIN", "FOREVER"], on(0, "08:25"));
    house.run(on(1, "07:00"));
    assert_eq!(
        house.said(),
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
fn the_end_that_is_told_is_the_next_boundary_and_over_a_weekend_the_monday() {
    let mut house = House::fresh(&["MAIN"], on(4, "16:51"));
    house.run(on(4, "16:51"));
    assert_eq!(house.hall.markets[0].ends, Some(on(4, "17:00")));
    house.run(on(4, "17:10"));
    assert_eq!(house.hall.markets[0].ends, Some(on(7, "07:00")));
    house.said();
    house.run(on(7, "07:00"));
    let said = house.said();
    assert_eq!(said.iter().filter(|line| line.contains("end of day")).count(), 3, "a day ends each day: {said:?}");
    assert_eq!(said.last().unwrap(), "7 07:00:00  MAIN start_of_trading scheduled due 7 07:00:00");
}

#[test]
fn a_fresh_venue_joins_the_session_that_runs() {
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
        let mut house = House::fresh(&["NOON"], on(1, at));
        house.run(on(1, at));
        assert_eq!(house.sessions(), [format!("{at}:00 {session}")], "{at}");
    }
}

#[test]
fn a_random_end_is_drawn_once_and_told_by_the_command() {
    let week = Week { spread_ns: 30 * SECOND, ..Week::default() };
    let mut house = House::open(Hall::new(&["MAIN"]), on(0, "08:25"), week);
    house.run(on(0, "18:00"));
    assert_eq!(
        house.said()[3..],
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
fn a_cycle_of_calls_runs_day_and_night_and_its_counts_stay_true() {
    let mut house = House::fresh(&["CYCLE"], on(0, "10:00:10"));
    house.run(on(0, "10:06:29"));
    let full = "CYCLE still has 255 continuous, 255 intraday_auction";
    assert_eq!(
        house.said()[1..],
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
    house.run(on(0, "18:16"));
    let said = house.said();
    let turn = said.iter().position(|line| line.contains("end of day")).unwrap();
    assert_eq!(
        said[turn - 1..],
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
fn a_breach_in_continuous_trading_lasts_its_time_and_a_scheduled_call_absorbs_it() {
    let breach = |house: &mut House, at: VenueNanos| {
        house.run(at);
        house.said();
        let market = &mut house.hall.markets[0];
        let ends = Some(VenueNanos(at.0 + 300 * SECOND));
        (market.phase, market.ends) = (Phase::VolatilityCall, ends);
        let reason = SessionReason::Breaker;
        let (from, to) = (Phase::Continuous, Phase::VolatilityCall);
        let event = Event::SessionChanged { instrument: InstrumentId(0), from, to, reason, ends };
        let stamped = Stamped { seq: Seq(1), at, command: Command::SampleIndex };
        house.hall.now = at;
        house.scheduler.observe(&stamped, &[event], &house.hall);
    };
    let mut house = House::fresh(&["NOON"], on(0, "08:25"));
    breach(&mut house, on(0, "10:00:01"));
    house.run(on(0, "12:00"));
    assert_eq!(house.sessions(), ["10:05:01 continuous", "12:00:00 intraday_auction"]);
    // What the return to continuous trading took from the day is given back.
    assert_eq!(house.hall.markets[0].remaining.counts[Phase::Continuous as usize], 1);
    house.run(on(0, "12:20"));
    breach(&mut house, on(0, "16:48"));
    house.run(on(0, "17:20"));
    assert_eq!(
        house.sessions(),
        [
            "16:50:00 closing_auction",
            "17:00:00 closing_price_publication",
            "17:05:00 closing_price_cross",
            "17:10:00 post_close"
        ]
    );
}

#[test]
fn sessions_wait_behind_a_volatility_call_and_are_gone_through_in_order() {
    let mut house = House::fresh(&["MAIN"], on(0, "16:55"));
    house.run(on(0, "16:59"));
    house.said();
    house.hall.breaches = true;
    house.run(on(0, "17:20"));
    // The command asks for the publication; the engine finds the breach.
    assert_eq!(
        house.said(),
        [
            "0 17:00:00  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:05:00  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:05:00  MAIN closing_price_cross scheduled due 0 17:05:00",
            "0 17:10:00  MAIN post_close scheduled due 0 17:10:00",
        ]
    );
    // Made longer, it meets the day's last session, which comes in any case.
    let mut house = House::fresh(&["MAIN"], on(0, "16:55"));
    house.run(on(0, "16:59"));
    house.hall.breaches = true;
    house.run(on(0, "17:01"));
    house.submit(on(0, "17:01"), Command::ExtendSession { instrument: InstrumentId(0), ends: on(0, "17:30") });
    house.said();
    house.run(on(0, "18:00"));
    assert_eq!(
        house.said(),
        [
            "0 17:10:00  MAIN closing_price_publication scheduled due 0 17:00:00",
            "0 17:10:00  MAIN closing_price_cross scheduled due 0 17:05:00",
            "0 17:10:00  MAIN post_close scheduled due 0 17:10:00",
        ]
    );
}

#[test]
fn an_extended_call_ends_at_its_new_time_and_what_waits_follows() {
    let mut house = House::fresh(&["MAIN"], on(0, "16:55"));
    house.run(on(0, "16:56"));
    house.submit(on(0, "16:56"), Command::ExtendSession { instrument: InstrumentId(0), ends: on(0, "17:06") });
    house.said();
    house.run(on(0, "17:09"));
    assert_eq!(house.sessions(), ["17:06:00 closing_price_publication", "17:06:00 closing_price_cross"]);
}

#[test]
fn a_halt_is_ended_by_its_operator_who_finds_the_session_that_runs() {
    let mut house = House::fresh(&["NOON"], on(0, "08:25"));
    house.operate(on(0, "11:50"), Phase::Halted);
    house.said();
    house.run(on(0, "12:20"));
    assert_eq!(
        house.said(),
        ["0 12:15:00  NOON still has 1 continuous, 1 closing_auction, 1 closing_price_publication, \
         1 closing_price_cross, 1 post_close"]
    );
    house.resume(on(0, "12:20"));
    house.run(on(0, "16:50"));
    assert_eq!(house.sessions(), ["12:20:00 continuous operator", "16:50:00 closing_auction"]);
    // Inside a call: the call goes on.
    house.operate(on(0, "16:52"), Phase::Pause);
    house.resume(on(0, "16:53"));
    assert_eq!(house.hall.markets[0].ends, Some(on(0, "17:00")));
    house.run(on(0, "17:00"));
    assert_eq!(house.sessions()[1..], ["16:53:00 closing_auction operator", "17:00:00 closing_price_publication"]);
}

#[test]
fn after_a_halt_the_publication_is_gone_through_if_it_was_passed() {
    let mut house = House::fresh(&["MAIN"], on(0, "08:25"));
    house.operate(on(0, "16:40"), Phase::Halted);
    house.resume(on(0, "17:06"));
    house.run(on(0, "17:09"));
    assert_eq!(
        house.sessions()[3..],
        ["16:40:00 halt operator", "17:06:00 closing_price_publication operator", "17:06:00 closing_price_cross"]
    );
    // Nobody resumes: the day's last session comes, and the closing price with it; the cross does not.
    let mut house = House::fresh(&["MAIN"], on(0, "08:25"));
    house.operate(on(0, "16:40"), Phase::Halted);
    house.run(on(1, "07:00"));
    assert_eq!(
        house.sessions()[4..],
        ["17:10:00 closing_price_publication", "17:10:00 post_close", "07:00:00 start_of_trading"]
    );
}

#[test]
fn a_reopening_call_waits_for_its_operator_or_its_end_or_a_scheduled_call() {
    let mut house = House::fresh(&["NOON"], on(0, "08:25"));
    house.operate(on(0, "10:00"), Phase::Halted);
    house.operate(on(0, "10:10"), Phase::ReopeningCall);
    house.run(on(0, "11:00"));
    assert_eq!(house.sessions()[4..], ["10:10:00 reopening_auction operator"]);
    house.run(on(0, "12:01"));
    assert_eq!(house.sessions(), ["12:00:00 intraday_auction"]);
    house.run(on(0, "13:00"));
    house.operate(on(0, "13:00"), Phase::Halted);
    house.said();
    let until = on(0, "13:05");
    let reopening = change(0, Phase::ReopeningCall, SessionReason::Operator, on(0, "13:01"), Some(until));
    house.submit(on(0, "13:01"), reopening);
    house.run(on(0, "14:00"));
    assert_eq!(house.sessions(), ["13:01:00 reopening_auction operator", "13:05:00 continuous"]);
}

#[test]
fn an_instrument_without_schedule_comes_back_from_a_volatility_call() {
    let mut house = House::fresh(&["FOREVER"], on(0, "08:25"));
    house.operate(on(0, "10:00"), Phase::VolatilityCall);
    house.run(on(0, "11:00"));
    assert_eq!(house.sessions(), ["10:00:00 volatility_auction operator", "10:05:00 continuous"]);
    // One that nobody gave an end has five minutes.
    let endless = change(0, Phase::VolatilityCall, SessionReason::Operator, on(0, "12:00"), None);
    house.submit(on(0, "12:00"), endless);
    house.run(on(0, "12:30"));
    assert_eq!(house.sessions()[1..], ["12:05:00 continuous"]);
}

#[test]
fn time_passes_at_each_expiry_before_anything_else() {
    let mut house = House::fresh(&["MAIN"], on(0, "08:25"));
    house.run(on(0, "09:30"));
    house.said();
    let enter = |house: &mut House, at: VenueNanos, until: VenueNanos| {
        house.hall.expiries.insert(until);
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
        house.hall.now = at;
        let stamped = Stamped { seq: Seq(1), at, command: Command::Enter(NewOrder::PLAIN) };
        house.scheduler.observe(&stamped, &[accepted], &house.hall);
    };
    for until in ["16:50", "10:00", "10:00:01", "16:55"] {
        enter(&mut house, on(0, "09:30"), on(0, until));
    }
    house.run(on(0, "17:00"));
    assert_eq!(
        house.said(),
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
fn what_is_good_till_the_days_close_goes_by_its_time() {
    let mut house = House::fresh(&["FOREVER"], on(0, "18:00"));
    house.run(on(0, "18:00"));
    house.hall.expiries.insert(on(0, "18:15"));
    house.scheduler.expiry = on(0, "18:15");
    house.scheduler.look(&house.hall);
    house.said();
    house.run(on(0, "18:20"));
    assert_eq!(house.said(), ["0 18:15:00  pass time", "0 18:15:00  end of day", "0 18:15:00  day 1 until 1 18:15:00"]);
}

#[test]
fn what_a_halted_call_kept_beyond_its_time_goes_at_once() {
    let mut house = House::fresh(&["MAIN"], on(0, "16:51"));
    house.run(on(0, "16:51"));
    house.hall.expiries.insert(on(0, "16:55"));
    house.scheduler.expiry = on(0, "16:55");
    house.scheduler.look(&house.hall);
    house.run(on(0, "16:56"));
    house.said();
    house.operate(on(0, "16:57"), Phase::Halted);
    house.run(on(0, "16:58"));
    assert_eq!(house.said(), ["0 16:57:00  MAIN halt operator due 0 16:57:00", "0 16:57:00  pass time"]);
}

mod reporting;
mod restarts;
mod timed;
