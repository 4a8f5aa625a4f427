//! An independent auditor that judges a run from its commands and events alone.
//!
//! Does        follow the log one command at a time, keep its own plain book and ledger from what the venue said,
//!             and name the first thing that the rules do not allow.
//! Holds       1. shares no code with the engine, only the vocabulary;
//!             2. memory is bounded by live orders, accounts, instruments, busted trades and the newest 100,000 trades, not by
//!                the length of the run: a bust of an older trade is not held against it;
//!             3. after an offence it has stopped making sense: nothing it says later is evidence.
//! Leaves out  whether a margin sufficed, index and mark prices, what a deposit or definition was refused for.
//! Costs       a few tree lookups for each event; the orders in reach for a fill-or-kill order; all live orders for a
//!             day's end, an epoch, a deletion and a kill of a session or the venue.
//! Start at    [`Auditor::observe`], then `commands`, then `turn`.

mod amends;
mod book;
mod commands;
mod leaving;
mod ledger;
mod limits;
mod opening;
mod operators;
mod tape;
mod trades;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use pitwire_model::{
    AccountSpec, Command, Currency, Event, InstrumentSpec, Lots, OrderId, Phase, Reject, Seq, SessionId, Stamped,
    Ticks, TradeSeq, VenueNanos,
};

use book::{Book, Live};
use ledger::{Ledger, Terms};
use tape::Tape;

pub use opening::{Opening, OpeningAccount, OpeningMarket, OpeningOrder, OpeningPosition, OpeningStanding};

/// The first thing that was wrong, and at which command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offence {
    pub seq: Seq,
    pub sentence: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at command {}: {}", self.seq, self.sentence)
    }
}

impl std::error::Error for Offence {}

/// Inside the crate an offence is its sentence; who observes adds where.
type Judged<T = ()> = Result<T, String>;

macro_rules! offence {
    ($($text:tt)*) => { return Err(format!($($text)*)) };
}
pub(crate) use offence;

#[derive(Debug, Default)]
pub struct Auditor {
    seq: Seq,
    at: VenueNanos,
    markets: Vec<Market>,
    orders: BTreeMap<OrderId, Live>,
    ledger: Ledger,
    arrivals: u64,
    venue_killed: bool,
    killed_sessions: BTreeSet<SessionId>,
    tape: Tape,
    names: Names,
}

#[derive(Debug)]
struct Market {
    spec: InstrumentSpec,
    terms: Terms,
    phase: Phase,
    change_id: u64,
    trades: u64,
    busted: BTreeSet<TradeSeq>,
    last: Option<Ticks>,
    book: Book,
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

    /// Judges one command and all that the venue said to it.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event]) -> Result<(), Offence> {
        self.judge(stamped, events).map_err(|sentence| Offence { seq: stamped.seq, sentence })
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
        Err(Offence { seq: stamped.seq, sentence: "a quarantined command did something".into() })
    }

    /// Sums every currency over all accounts, signed entry values of perpetual positions included: nothing but
    /// deposits may have changed the sum. [`Self::observe`] does so too, now and then.
    pub fn reckon(&self) -> Result<(), Offence> {
        self.ledger.reckon(&self.markets).map_err(|sentence| Offence { seq: self.seq, sentence })
    }

    pub fn live_orders(&self) -> usize {
        self.orders.len()
    }

    fn judge(&mut self, stamped: &Stamped, events: &[Event]) -> Judged {
        if stamped.seq != self.seq.next() {
            offence!("command {} follows command {}", stamped.seq, self.seq);
        }
        if stamped.at < self.at {
            offence!("venue time went back from {} to {}", self.at, stamped.at);
        }
        (self.seq, self.at) = (stamped.seq, stamped.at);
        match &stamped.command {
            Command::Enter(new) => self.judge_entry(new, events)?,
            Command::Amend(amend) => self.judge_amend(amend, events)?,
            Command::Cancel { account, order } => self.judge_cancel(*account, *order, events)?,
            Command::CancelAll { account, which, reason } => {
                self.judge_cancel_all(*account, which, *reason, events)?;
            }
            Command::EndDay => self.judge_day_end(events)?,
            Command::StartEpoch { epoch } => self.judge_epoch(*epoch, events)?,
            Command::CloseWindow
            | Command::SampleIndex
            | Command::AddCurrency(_)
            | Command::AddInstrument(_)
            | Command::AddAccount(_)
            | Command::Deposit { .. } => self.judge_plain(&stamped.command, events)?,
            other => self.judge_operator(other, events)?,
        }
        if stamped.seq.0.is_multiple_of(Self::RECKON_EVERY) {
            self.ledger.reckon(&self.markets)?;
        }
        Ok(())
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
                offence!("instrument {instrument} is marked at {mark}, beyond its index {index}");
            }
            sampled.push(*instrument);
        }
        if !perpetuals.eq(sampled.iter().copied()) {
            offence!("the index was not sampled for each perpetual once and in order");
        }
        Ok(())
    }

    fn add_currency(&mut self, currency: &Currency) -> Judged {
        if currency.id.0 as usize != self.names.currencies.len() {
            offence!("currency {} is out of sequence", currency.id);
        }
        self.names.currencies.push(currency.clone());
        self.ledger.add_currency(currency);
        Ok(())
    }

    fn add_account(&mut self, spec: &AccountSpec) -> Judged {
        if spec.id.0 as usize != self.names.accounts.len() {
            offence!("account {} is out of sequence", spec.id);
        }
        self.names.accounts.push(spec.clone());
        self.ledger.add_account(spec);
        Ok(())
    }

    fn add_market(&mut self, spec: &InstrumentSpec, phase: Phase, change_id: u64, trades: u64) -> Judged {
        if spec.id.0 as usize != self.markets.len() {
            offence!("instrument {} is out of sequence", spec.id);
        }
        let Some(terms) = self.ledger.terms(spec) else {
            offence!("instrument {} cannot be settled in whole units", spec.id);
        };
        self.markets.push(Market {
            spec: spec.clone(),
            terms,
            phase,
            change_id,
            trades,
            busted: BTreeSet::new(),
            last: None,
            book: Book::default(),
        });
        Ok(())
    }
}

fn not_an_answer(command: &Command, events: &[Event]) -> String {
    match events {
        [] => format!("nothing was said to {command:?}"),
        [event, ..] => format!("{event:?} (of {} events) is no answer to {command:?}", events.len()),
    }
}

/// Whether one order may carry so many lots.
fn legal_lots(lots: Lots) -> Result<(), Reject> {
    if lots.is_zero() || lots > Lots::MAX_ORDER { Err(Reject::QuantityOutOfRange) } else { Ok(()) }
}

fn legal_price(price: Ticks) -> Result<(), Reject> {
    if price < Ticks(1) || price > Ticks::MAX_PRICE { Err(Reject::PriceOutOfRange) } else { Ok(()) }
}
