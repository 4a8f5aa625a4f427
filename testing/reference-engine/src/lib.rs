//! The slow engine: the market's rules written a second time, for nothing but to disagree with the fast one.
//!
//! Does        what `pitwire_engine::Engine` does, command by command, and images to the same `EngineImage`.
//! Holds       1. written from the rules and never from the fast code: a mistake has to be made twice to pass;
//!             2. nothing derived is stored: queues are sorted, levels, reserves and open orders counted, whenever one
//!                is asked for.
//! Leaves out  speed. A question costs all the orders of an instrument, some questions those of all of them.
//! Start at    [`ReferenceEngine::apply`], then `entering` and `amending`, then `matching`, then `money`.

mod amending;
mod auction;
mod closing;
mod cross;
mod define;
mod entering;
mod image;
mod leaving;
mod machine;
mod matching;
mod money;
mod operator;
mod reporting;
mod session;
mod settling;
mod tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use pitwire_model::{
    AccountId, AccountSpec, Allocation, Command, Currency, CurrencyId, Derivation, Epoch, Event, FlowSetting,
    InstrumentId, InstrumentSpec, Lots, MatchGroup, OrderId, Phase, Reject, RemainingSessions, SelfMatch, Seq,
    SessionId, Side, Stamped, Ticks, TimeInForce, TradeReport, TradeSeq, TradingRules, VenueDay, VenueNanos,
};

use auction::Indicated;
use closing::Print;
use reporting::Hours;
use settling::Touch;

/// More than this in one balance is refused, so that no sum of them leaves 128 bits.
const MOST_UNITS: i128 = 1 << 100;

#[derive(Debug, Default)]
pub struct ReferenceEngine {
    epoch: Epoch,
    /// Venue time of the command being applied.
    now: VenueNanos,
    day: VenueDay,
    /// When the venue day closes.
    closes: VenueNanos,
    flow: FlowSetting,
    last_session: SessionId,
    venue_killed: bool,
    killed_sessions: BTreeSet<SessionId>,
    currencies: Vec<Currency>,
    markets: Vec<Market>,
    accounts: Vec<Account>,
    /// The priority number given out last.
    times: u64,
    /// Trades reported and not yet answered, in no order at all.
    reports: Vec<(Seq, TradeReport)>,
}

#[derive(Debug)]
struct Market {
    spec: InstrumentSpec,
    phase: Phase,
    /// When the session ends, as far as it was told.
    ends: Option<VenueNanos>,
    /// The call that runs was passed by a venue that was down, and is not held.
    missed: bool,
    remaining: RemainingSessions,
    /// Calls that ended without their expiries and parkings.
    unfinished: BTreeSet<u8>,
    /// The call whose price breached, so that the volatility call goes on from it.
    continues: Option<Phase>,
    change_id: u64,
    trades: u64,
    busted: BTreeSet<TradeSeq>,
    last: Option<Ticks>,
    fixed: Option<Ticks>,
    dynamic: Option<Ticks>,
    index: Ticks,
    mark: Ticks,
    uncross_price: Option<Ticks>,
    /// Today's, once there is one.
    closing: Option<(Ticks, Derivation)>,
    previous_close: Option<Ticks>,
    day_last: Option<Ticks>,
    closing_call: Option<Ticks>,
    /// When continuous trading ended last, today.
    continuous_ended: Option<VenueNanos>,
    /// Today's trades in continuous sessions.
    prints: Vec<Print>,
    /// The touch after which nothing was left to filter; none is like no touch.
    touch: Option<Touch>,
    told: Indicated,
    must_tell: bool,
    /// The priority counter as each frequent batch ended.
    batch_ends: Vec<u64>,
    /// The hours of trade reporting, while they run.
    hours: Option<Hours>,
    /// Trades made beside the book.
    off_book: u64,
    /// Every live order, in no order at all.
    orders: Vec<Order>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Market,
    Limit,
    Hidden,
    Stop,
    StopLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the book, market orders of a call included.
    Active,
    Parked,
    /// A stop whose price has not come.
    Unelected,
    /// A stop that was elected and has not acted yet.
    Elected,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    id: OrderId,
    account: AccountId,
    side: Side,
    kind: Kind,
    place: Place,
    tif: TimeInForce,
    /// Zero for what has no limit price.
    price: Ticks,
    stop: Ticks,
    /// The least that a hidden order executes.
    minimum: u64,
    /// How far an order without a limit price goes.
    bound: Option<Ticks>,
    /// Shown and hidden together.
    open: u64,
    shown: u64,
    peak: Option<Lots>,
    ordered: u64,
    /// Priority number: less came first.
    time: u64,
    entered: VenueDay,
    group: MatchGroup,
    /// Its own word on meeting its own, until it acts.
    mode: Option<SelfMatch>,
    session: SessionId,
    cancel_on_disconnect: bool,
}

#[derive(Debug)]
struct Account {
    spec: AccountSpec,
    totals: Vec<i128>,
    credit_lines: BTreeMap<CurrencyId, i128>,
    /// By perpetual; there is one from the first order that rested or traded.
    holdings: BTreeMap<InstrumentId, Holding>,
    closed: bool,
    killed: bool,
    throttled: bool,
    /// The throttle's window in which a fill was counted last, and how many were.
    window: u64,
    executions: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Holding {
    lots: i64,
    entry_value: i128,
    realized: i128,
}

impl Order {
    /// Whether self-match prevention takes the two for one member's.
    fn is_own(&self, other: &Order) -> bool {
        match (self.group, other.group) {
            (MatchGroup::Key(mine), MatchGroup::Key(theirs)) => mine == theirs,
            (MatchGroup::Account, MatchGroup::Account) => self.account == other.account,
            _ => false,
        }
    }

    fn is_active(&self) -> bool {
        self.place == Place::Active
    }

    fn is_hidden(&self) -> bool {
        self.kind == Kind::Hidden
    }

    fn has_price(&self) -> bool {
        !matches!(self.kind, Kind::Market | Kind::Stop)
    }

    /// Whether it stands in the book that everybody sees, at a price.
    fn is_on_show(&self) -> bool {
        self.is_active() && self.kind == Kind::Limit
    }

    fn acts_at_once(&self) -> bool {
        matches!(self.tif, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }

    /// The worst price at which it trades; none is any.
    fn limit(&self) -> Option<Ticks> {
        if self.has_price() { Some(self.price) } else { self.bound }
    }

    fn accepts(&self, price: Ticks) -> bool {
        self.limit().is_none_or(|limit| match self.side {
            Side::Buy => price <= limit,
            Side::Sell => price >= limit,
        })
    }

    /// What it shows when it comes to the book.
    fn first_show(&self) -> u64 {
        self.peak.map_or(self.open, |peak| peak.0.min(self.open))
    }
}

impl Market {
    fn rules(&self) -> &TradingRules {
        static ABSENT: LazyLock<TradingRules> = LazyLock::new(TradingRules::default);
        self.spec.rules.as_deref().unwrap_or(&ABSENT)
    }

    fn allocation(&self) -> Allocation {
        self.rules().allocation
    }

    /// Whether orders execute on entry: continuous trading, batches excepted.
    fn trades_on_entry(&self) -> bool {
        self.phase == Phase::Continuous && self.allocation() != Allocation::FrequentBatch
    }

    fn is_batching(&self) -> bool {
        self.phase == Phase::Continuous && self.allocation() == Allocation::FrequentBatch
    }

    /// Priced orders of the book, first to trade first: price, then visible before hidden, then time.
    fn queue(&self, side: Side) -> Vec<Order> {
        let here = |order: &&Order| order.side == side && order.is_active() && order.has_price();
        let mut queue: Vec<Order> = self.orders.iter().filter(here).copied().collect();
        queue.sort_by_key(|order| match side {
            Side::Buy => (-order.price.0, order.is_hidden(), order.time),
            Side::Sell => (order.price.0, order.is_hidden(), order.time),
        });
        queue
    }

    /// What everybody sees of the queue.
    fn visible_queue(&self, side: Side) -> Vec<Order> {
        self.queue(side).into_iter().filter(Order::is_on_show).collect()
    }

    /// The queue price by price.
    fn levels(&self, side: Side) -> Vec<(Ticks, Vec<Order>)> {
        let mut levels: Vec<(Ticks, Vec<Order>)> = Vec::new();
        for order in self.queue(side) {
            match levels.last_mut() {
                Some((price, orders)) if *price == order.price => orders.push(order),
                _ => levels.push((order.price, vec![order])),
            }
        }
        levels
    }

    /// Best visible price.
    fn best(&self, side: Side) -> Option<Ticks> {
        self.visible_queue(side).first().map(|order| order.price)
    }

    /// Halfway between the best prices; without both of them the last trade, and before any trade the start.
    fn middle(&self) -> Ticks {
        match (self.best(Side::Buy), self.best(Side::Sell)) {
            (Some(bid), Some(ask)) => Ticks((bid.0 + ask.0) / 2),
            _ => self.last.unwrap_or(self.spec.start_price),
        }
    }

    /// What calls and filters refer to.
    fn reference(&self) -> Option<Ticks> {
        self.last.or(self.fixed)
    }

    fn get(&self, id: OrderId) -> Option<&Order> {
        self.orders.iter().find(|order| order.id == id)
    }

    fn get_mut(&mut self, id: OrderId) -> &mut Order {
        self.orders.iter_mut().find(|order| order.id == id).expect("the caller has seen it")
    }

    /// The numbers of the orders that qualify, in order of entry.
    fn numbers(&self, qualifies: impl Fn(&Order) -> bool) -> Vec<OrderId> {
        let mut ids: Vec<OrderId> = self.orders.iter().filter(|order| qualifies(order)).map(|order| order.id).collect();
        ids.sort();
        ids
    }
}

impl ReferenceEngine {
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives an instrument the prices that trading would have left behind.
    pub fn prime(
        &mut self,
        instrument: InstrumentId,
        last: Option<Ticks>,
        fixed: Option<Ticks>,
        dynamic: Option<Ticks>,
        previous_close: Option<Ticks>,
    ) {
        let market = &mut self.markets[instrument.0 as usize];
        (market.last, market.fixed) = (last, fixed);
        (market.dynamic, market.previous_close) = (dynamic.or(last), previous_close);
    }

    pub fn apply(&mut self, stamped: &Stamped, out: &mut Vec<Event>) {
        self.now = stamped.at;
        let done = match &stamped.command {
            Command::Enter(order) => {
                self.enter(order, out);
                Ok(())
            }
            Command::Amend(amend) => {
                self.amend(amend, out);
                Ok(())
            }
            Command::Cancel { account, order } => {
                self.cancel(*account, *order, out);
                Ok(())
            }
            Command::CancelAll { account, which, reason } => {
                self.cancel_all(*account, which, *reason, out);
                Ok(())
            }
            Command::CloseWindow => {
                out.push(Event::WindowClosed);
                Ok(())
            }
            Command::SampleIndex => {
                self.sample_index(out);
                Ok(())
            }
            Command::EndDay => {
                self.end_day(out);
                Ok(())
            }
            Command::StartEpoch { epoch } => {
                self.start_epoch(*epoch, out);
                Ok(())
            }
            Command::AddCurrency(currency) => self.add_currency(currency, out),
            Command::AddInstrument(spec) => self.add_instrument(spec, out),
            Command::AddAccount(spec) => self.add_account(spec, out),
            Command::Deposit { account, currency, units } => self.deposit(*account, *currency, *units, out),
            Command::SetPhase { .. }
            | Command::ChangeSession { .. }
            | Command::ExtendSession { .. }
            | Command::SetRemaining { .. }
            | Command::BeginDay { .. }
            | Command::PassTime
            | Command::FilterHidden { .. }
            | Command::RunBatch { .. }
            | Command::SetTradingRules { .. }
            | Command::SetClosingPrice { .. } => self.run_sessions(&stamped.command, out),
            Command::SetReporting { .. } | Command::ReportTrade(_) | Command::AnswerReport { .. } => {
                self.run_reports(stamped.seq, &stamped.command, out)
            }
            other => self.operate(other, out),
        };
        if let Err(reason) = done {
            out.push(Event::CommandRefused { reason });
        }
    }

    fn market(&self, id: InstrumentId) -> Option<&Market> {
        self.markets.get(id.0 as usize)
    }

    /// A market that is there and not deleted.
    fn standing(&self, id: InstrumentId) -> Result<usize, Reject> {
        let market = self.market(id).ok_or(Reject::UnknownInstrument)?;
        if market.phase == Phase::Deleted {
            return Err(Reject::InstrumentDeleted);
        }
        Ok(id.0 as usize)
    }

    fn account(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get(id.0 as usize)
    }

    fn find(&self, id: OrderId) -> Option<(InstrumentId, Order)> {
        self.markets.iter().find_map(|market| Some((market.spec.id, *market.get(id)?)))
    }

    fn next_time(&mut self) -> u64 {
        self.times += 1;
        self.times
    }
}
