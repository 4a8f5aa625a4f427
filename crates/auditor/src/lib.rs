//! An independent auditor that judges a run from its commands and events alone.
//!
//! Does        follow the log one command at a time, keep its own plain book, sessions and ledger from what the venue
//!             said, and name the first promise that the rules do not allow to be broken so.
//! Holds       1. shares no code with the engine, only the vocabulary; the two tables it reads in its own way;
//!             2. memory is bounded by live orders, accounts, instruments, busted trades, ten minutes of trading in seconds
//!                and the newest 100,000 trades, not by the length of the run: a bust of an older trade is not held
//!                against it;
//!             3. after an offence it has stopped making sense: nothing it says later is evidence.
//! Leaves out  whether a margin sufficed, index and mark prices, what a deposit or definition was refused for.
//! Costs       a few tree lookups for each event; the orders in reach for a fill-or-kill order; the levels of the book for
//!             each command in a call; all live orders for a session's or day's end, an epoch, a deletion and
//!             a kill of a session or the venue; the orders in reach of each filter.
//! Start at    [`Auditor::observe`], then `commands`, then `turn`.

mod aggress;
mod amends;
mod book;
mod close;
mod commands;
mod cross;
mod days;
mod fault;
mod leaving;
mod ledger;
mod limits;
mod opening;
mod operators;
mod prices;
mod punctual;
mod reporting;
mod sessions;
mod settling;
mod tables;
mod tape;
mod trades;
mod turn;
mod uncross;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pitwire_model::{
    AccountSpec, Command, Currency, Event, InstrumentId, InstrumentSpec, Lots, OrderId, Phase, Reject,
    RemainingSessions, Seq, SessionId, Stamped, Ticks, TradeSeq, TradingRules, VenueDay, VenueNanos,
};

use book::{Book, Live};
use fault::{Fault, Judged, offence};
use ledger::{Ledger, Terms};
use tape::Tape;
use turn::Turn;

pub use close::{Close, Day, Run};
pub use fault::Promise;
pub use opening::{
    Opening, OpeningAccount, OpeningMarket, OpeningOrder, OpeningPlace, OpeningPosition, OpeningSessions,
    OpeningStanding,
};
pub use reporting::Reporting;

/// The first thing that was wrong, at which command, and the promise it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    pub seq: Seq,
    pub promise: Promise,
    pub sentence: String,
}

impl Offence {
    fn at(seq: Seq, fault: Fault) -> Offence {
        Offence { seq, promise: fault.promise, sentence: fault.sentence }
    }
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at command {}: {} ({})", self.seq, self.sentence, self.promise)
    }
}

impl std::error::Error for Offence {}

#[derive(Debug, Default)]
pub struct Auditor {
    seq: Seq,
    at: VenueNanos,
    markets: Vec<Market>,
    orders: BTreeMap<OrderId, Live>,
    /// Orders that are good till a time.
    timed: BTreeSet<(InstrumentId, VenueNanos, OrderId)>,
    ledger: Ledger,
    arrivals: u64,
    /// The venue day, once one has begun, and when it closes.
    today: Option<(VenueDay, VenueNanos)>,
    venue_killed: bool,
    killed_sessions: BTreeSet<SessionId>,
    tape: Tape,
    names: Names,
    /// Whether the timetable is held to its word.
    is_punctual: bool,
    /// What is judged happened under rule version 1.
    first_rules: bool,
}

#[derive(Debug)]
struct Market {
    spec: InstrumentSpec,
    rules: TradingRules,
    terms: Terms,
    phase: Phase,
    ends: Option<VenueNanos>,
    /// The session is a call that was missed whole: it is not held.
    missed: bool,
    remaining: RemainingSessions,
    /// What a call that was interrupted would have ended, times in force and `market`; none: nothing was interrupted.
    unfinished: Option<BTreeSet<String>>,
    /// The call that this volatility call goes on from.
    continues: Option<Phase>,
    change_id: u64,
    trades: u64,
    busted: BTreeSet<TradeSeq>,
    last: Option<Ticks>,
    dynamic: Option<Ticks>,
    static_reference: Option<Ticks>,
    close: Close,
    day: Day,
    /// What was told last of the call: price, volume, imbalance.
    indicated: (Option<Ticks>, Lots, i64),
    /// The priority numbers at which batches ended, ascending.
    batch_ends: Vec<u64>,
    reporting: Reporting,
    book: Book,
}

impl Market {
    /// What the call would have ended waits.
    fn interrupt(&mut self, call: Phase) {
        let expire = tables::tables().permits(call).expire.iter().cloned();
        self.unfinished.get_or_insert_default().extend(expire);
    }

    /// Without any of what a session's end brings about.
    fn halt(&mut self, now: VenueNanos) {
        if self.phase == Phase::Halted {
            return;
        }
        if self.phase.is_call() && !self.missed {
            self.interrupt(self.phase);
        }
        if self.phase == Phase::Continuous {
            self.close.ended = Some(now);
        }
        (self.phase, self.ends, self.missed, self.continues) = (Phase::Halted, None, false, None);
        self.indicated = Default::default();
    }
}

#[derive(Debug, Default)]
struct Names {
    currencies: Vec<Currency>,
    accounts: Vec<AccountSpec>,
}

impl Auditor {
    /// How many commands pass between two sums over all accounts.
    const RECKON_EVERY: u64 = 1 << 16;

    /// An audit from the first command on.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is judged from now on happened under these rules; a new auditor judges by the newest. Version 1 let a market
    /// order be good till cancelled, and refused post-only before a display where an order cannot rest.
    pub fn follow(&mut self, rule_version: u16) {
        self.first_rules = rule_version < 2;
    }

    /// Judges one command and all that the venue said to it.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event]) -> Result<(), Offence> {
        self.judge(stamped, events).map_err(|fault| Offence::at(stamped.seq, fault))
    }

    /// Judges a command that is quarantined: it may have been refused, and nothing else.
    pub fn pass_over(&mut self, stamped: &Stamped, events: &[Event]) -> Result<(), Offence> {
        let is_refusal = match events {
            [Event::Rejected { reason, .. }]
            | [Event::AmendRefused { reason, .. }]
            | [Event::CancelRefused { reason, .. }]
            | [Event::CommandRefused { reason }] => *reason == Reject::Quarantined,
            _ => false,
        };
        (self.seq, self.at) = (stamped.seq, stamped.at);
        if is_refusal {
            return Ok(());
        }
        let sentence = "a quarantined command did something".into();
        Err(Offence { seq: stamped.seq, promise: Promise::S1, sentence })
    }

    /// Sums every currency over all accounts, signed entry values of perpetual positions included: nothing but
    /// deposits may have changed the sum. [`Self::observe`] does so too, now and then.
    pub fn reckon(&self) -> Result<(), Offence> {
        self.ledger.reckon(&self.markets).map_err(|fault| Offence::at(self.seq, fault))
    }

    pub fn live_orders(&self) -> usize {
        self.orders.len()
    }

    fn judge(&mut self, stamped: &Stamped, events: &[Event]) -> Judged {
        if stamped.seq != self.seq.next() {
            offence!(M9, "command {} follows command {}", stamped.seq, self.seq);
        }
        if stamped.at < self.at {
            offence!(M9, "venue time went back from {} to {}", self.at, stamped.at);
        }
        self.judge_timetable(stamped)?;
        (self.seq, self.at) = (stamped.seq, stamped.at);
        let turn = &mut Turn::new(events);
        self.judge_command(turn, stamped, events).map_err(|fault| self.level_first(turn, fault))?;
        if stamped.seq.0.is_multiple_of(Self::RECKON_EVERY) {
            self.ledger.reckon(&self.markets)?;
        }
        Ok(())
    }

    fn judge_command(&mut self, turn: &mut Turn<'_>, stamped: &Stamped, events: &[Event]) -> Judged {
        match &stamped.command {
            Command::Enter(new) => self.judge_entry(turn, new),
            Command::Amend(amend) => self.judge_amend(turn, amend),
            Command::Cancel { account, order } => self.judge_cancel(turn, *account, *order),
            Command::CancelAll { account, which, reason } => self.judge_cancel_all(turn, *account, which, *reason),
            Command::EndDay => self.judge_day_end(turn),
            Command::StartEpoch { epoch } => self.judge_epoch(turn, *epoch),
            Command::CloseWindow
            | Command::SampleIndex
            | Command::AddCurrency(_)
            | Command::AddInstrument(_)
            | Command::AddAccount(_)
            | Command::Deposit { .. } => self.judge_plain(&stamped.command, events),
            Command::SetReporting { .. } | Command::ReportTrade(_) | Command::AnswerReport { .. } => {
                self.judge_reporting(turn, stamped.seq, &stamped.command)
            }
            other => self.judge_operator(turn, other, events),
        }
    }

    /// Commands that are answered by their echo alone, or refused.
    fn judge_plain(&mut self, command: &Command, events: &[Event]) -> Judged {
        match (command, events) {
            (Command::CloseWindow, [Event::WindowClosed]) => Ok(()),
            (Command::SampleIndex, sampled) => self.judge_samples(sampled),
            (Command::AddCurrency(asked), [Event::CurrencyAdded(told)]) if asked == told => self.add_currency(told),
            (Command::AddInstrument(asked), [Event::InstrumentAdded(told)]) if asked == told => {
                self.add_market(told, Phase::Closed, 0, 0)
            }
            (Command::AddAccount(asked), [Event::AccountAdded(told)]) if asked == told => self.add_account(told),
            (
                Command::Deposit { account, currency, units },
                [Event::Deposited { account: to, currency: of, units: moved }],
            ) if (account, currency, units) == (to, of, moved) => self.ledger.deposit(*account, *currency, *units),
            (Command::CloseWindow, _) => Err(not_an_answer(command, events)),
            (_, [Event::CommandRefused { .. }]) => Ok(()),
            _ => Err(not_an_answer(command, events)),
        }
    }

    fn judge_samples(&self, events: &[Event]) -> Judged {
        let perpetuals = self.markets.iter().filter(|market| !market.spec.is_spot()).map(|market| market.spec.id);
        let mut sampled = Vec::new();
        for event in events {
            let Event::IndexSampled { instrument, index, mark } = event else {
                return Err(not_an_answer(&Command::SampleIndex, events));
            };
            if index.0 < 1 || (mark.0 - index.0).abs() > index.0 / 200 {
                offence!(M10, "instrument {instrument} is marked at {mark}, beyond its index {index}");
            }
            sampled.push(*instrument);
        }
        if !perpetuals.eq(sampled.iter().copied()) {
            offence!(S1, "the index was not sampled for each perpetual once and in order");
        }
        Ok(())
    }

    fn add_currency(&mut self, currency: &Currency) -> Judged {
        if currency.id.0 as usize != self.names.currencies.len() {
            offence!(M9, "currency {} is out of sequence", currency.id);
        }
        self.names.currencies.push(currency.clone());
        self.ledger.add_currency(currency);
        Ok(())
    }

    fn add_account(&mut self, spec: &AccountSpec) -> Judged {
        if spec.id.0 as usize != self.names.accounts.len() {
            offence!(M9, "account {} is out of sequence", spec.id);
        }
        self.names.accounts.push(spec.clone());
        self.ledger.add_account(spec);
        Ok(())
    }

    fn add_market(&mut self, spec: &InstrumentSpec, phase: Phase, change_id: u64, trades: u64) -> Judged {
        if spec.id.0 as usize != self.markets.len() {
            offence!(M9, "instrument {} is out of sequence", spec.id);
        }
        let Some(terms) = self.ledger.terms(spec) else {
            offence!(M10, "instrument {} cannot be settled in whole units", spec.id);
        };
        self.markets.push(Market {
            rules: spec.rules.as_deref().cloned().unwrap_or_default(),
            static_reference: Some(spec.start_price),
            spec: spec.clone(),
            terms,
            phase,
            ends: None,
            missed: false,
            remaining: RemainingSessions::default(),
            unfinished: None,
            continues: None,
            change_id,
            trades,
            busted: BTreeSet::new(),
            last: None,
            dynamic: None,
            close: Close::default(),
            day: Day::default(),
            indicated: Default::default(),
            batch_ends: Vec::new(),
            reporting: Reporting::default(),
            book: Book::default(),
        });
        Ok(())
    }

    fn market_of(&self, instrument: InstrumentId) -> &Market {
        &self.markets[instrument.0 as usize]
    }

    fn market_mut(&mut self, instrument: InstrumentId) -> &mut Market {
        &mut self.markets[instrument.0 as usize]
    }
}

fn not_an_answer(command: &Command, events: &[Event]) -> Fault {
    let sentence = match events {
        [] => format!("nothing was said to {command:?}"),
        [event, ..] => format!("{event:?} (of {} events) is no answer to {command:?}", events.len()),
    };
    Fault { promise: Promise::S1, sentence }
}

/// Whether one order may carry so many lots.
fn legal_lots(lots: Lots) -> Result<(), Reject> {
    if lots.is_zero() || lots > Lots::MAX_ORDER { Err(Reject::QuantityOutOfRange) } else { Ok(()) }
}

fn legal_price(price: Ticks) -> Result<(), Reject> {
    if price < Ticks(1) || price > Ticks::MAX_PRICE { Err(Reject::PriceOutOfRange) } else { Ok(()) }
}
