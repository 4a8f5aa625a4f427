//! A random flow of commands with different habits for each seed.
//!
//! Does        generate commands that mostly make sense: more than a third refer to live orders.
//! Holds       swarm testing: a seed disables some kinds of commands, because a fault that needs,
//!             for example, a full book is not found if every command is equally frequent.
//! Start at    [`Flow::command`], then `orders`, `sessions`, `operators`.

mod define;
mod operators;
mod orders;
mod reports;
mod sessions;

use std::collections::VecDeque;

use pitwire_model::{
    AccountId, Allocation, Bust, CancelFilter, CancelReason, Command, CurrencyId, Epoch, Event, InstrumentId,
    KillScope, Lots, MatchGroup, OrderId, OrderType, Phase, PostOnly, SelfMatch, Seq, SessionId, Side, Ticks,
    TimeInForce, VenueNanos,
};

use super::SplitMix64;
use super::world::{ACCOUNTS, BTC_USDC, INSTRUMENTS, START};

#[derive(Clone, Copy, Debug)]
enum Kind {
    Enter,
    Amend,
    Cancel,
    CancelAll,
    EndDay,
    SetPhase,
    SampleIndex,
    CloseWindow,
    Deposit,
    Define,
    StartEpoch,
    SetLimits,
    Delete,
    SetAccount,
    SetCreditLine,
    Close,
    Kill,
    Bust,
    SetFlow,
    Quarantine,
    ChangeSession,
    ExtendSession,
    SetRemaining,
    BeginDay,
    PassTime,
    FilterHidden,
    RunBatch,
    SetRules,
    SetClosing,
    SetReporting,
    Report,
    Answer,
}

const USUAL: [(Kind, u64); 20] = [
    (Kind::Enter, 600),
    (Kind::Amend, 180),
    (Kind::Cancel, 120),
    (Kind::CancelAll, 6),
    (Kind::EndDay, 1),
    (Kind::SetPhase, 6),
    (Kind::SampleIndex, 20),
    (Kind::CloseWindow, 4),
    (Kind::Deposit, 20),
    (Kind::Define, 6),
    (Kind::StartEpoch, 2),
    (Kind::SetLimits, 8),
    (Kind::Delete, 1),
    (Kind::SetAccount, 12),
    (Kind::SetCreditLine, 6),
    (Kind::Close, 1),
    (Kind::Kill, 6),
    (Kind::Bust, 12),
    (Kind::SetFlow, 2),
    (Kind::Quarantine, 1),
];

/// Kinds that the rulebook adds. Weights are in thousandths of the kinds above.
const RULEBOOK: [(Kind, u64); 12] = [
    (Kind::ChangeSession, 90),
    (Kind::ExtendSession, 4),
    (Kind::SetRemaining, 16),
    (Kind::BeginDay, 8),
    (Kind::PassTime, 16),
    (Kind::FilterHidden, 8),
    (Kind::RunBatch, 40),
    (Kind::SetRules, 8),
    (Kind::SetClosing, 6),
    (Kind::SetReporting, 6),
    (Kind::Report, 24),
    (Kind::Answer, 16),
];

/// The price range of a seed. The engine's book keeps a window of 4,096 ticks around the best
/// prices.
#[derive(Clone, Copy, Debug)]
enum Prices {
    /// A few ticks, so that queues are long and most orders trade.
    Narrow,
    /// Several thousand ticks, so that prices cross the edges of the window all the time.
    Windows,
    /// The whole range of valid prices.
    Everywhere,
    /// Within a few ticks of the highest price.
    Highest,
    /// Within a few ticks of the lowest price.
    Lowest,
}

/// An order as the events described it.
#[derive(Clone, Copy, Debug)]
struct TrackedOrder {
    id: OrderId,
    account: AccountId,
    instrument: InstrumentId,
    side: Side,
    price: Ticks,
    /// The order type. An elected stop has changed its type.
    order_type: OrderType,
    tif: TimeInForce,
    lots: u64,
    open: u64,
}

/// The order terms that a seed uses.
#[derive(Debug)]
struct Terms {
    /// The codes of the times in force.
    tifs: Vec<u8>,
    markets: bool,
    hidden: bool,
    /// Every other order is hidden.
    mostly_hidden: bool,
    stops: bool,
    /// Not combined with large orders: an iceberg of billions that displays one lot would trade
    /// forever.
    icebergs: bool,
    post_only: bool,
    /// Half of the orders in the perpetual are reduce-only.
    reduces: bool,
    modes: Vec<Option<SelfMatch>>,
    groups: Vec<MatchGroup>,
    sessions: u32,
}

#[derive(Debug)]
pub struct Flow {
    rng: SplitMix64,
    weights: Vec<(Kind, u64)>,
    prices: [Prices; INSTRUMENTS as usize],
    terms: Terms,
    large: bool,
    /// Number of prices that an order draws. It takes the one least likely to trade, so more draws
    /// build deeper books.
    patience: u64,
    live: Vec<TrackedOrder>,
    dead: OrderId,
    /// The phase of each instrument, from the events.
    pub phases: Vec<Phase>,
    /// The sessions that this seed uses.
    favourites: Vec<Phase>,
    day: u32,
    at: VenueNanos,
    /// One in this many commands is preceded by a wait of seconds. Zero disables waits.
    waits: u64,
    allocations: [Allocation; INSTRUMENTS as usize],
    /// Whether the seed uses the rulebook's commands. Other seeds use only commands of the first
    /// release.
    pub by_the_book: bool,
    /// Commands that set the rules of the instruments. They come first.
    prelude: VecDeque<Command>,
    /// Kills that an operator should lift later.
    blocked: Vec<KillScope>,
    trades: VecDeque<Bust>,
    /// Waiting reports, each with its reporter and its counterparty.
    reports: Vec<(Seq, AccountId, AccountId)>,
    /// Some seeds send all reports for one account and instrument, until one is refused.
    reporter: Option<(AccountId, InstrumentId)>,
    /// Whether busts may describe trades wrongly. Only the auditor can detect that.
    pub lies: bool,
    /// Orders per instrument before the next one is refused.
    pub most_resting: u32,
    pub wealth: i128,
}

impl Flow {
    pub fn new(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let by_the_book = !rng.one_in(6);
        let mut weights: Vec<(Kind, u64)> = Vec::new();
        let all = USUAL.into_iter().chain(RULEBOOK.into_iter().filter(|_| by_the_book));
        for (kind, weight) in all {
            if matches!(kind, Kind::Enter) || !rng.one_in(4) {
                weights.push((kind, weight * (1 + rng.below(4))));
            }
        }
        let all = [Prices::Narrow, Prices::Windows, Prices::Everywhere, Prices::Highest, Prices::Lowest];
        let common = rng.pick(if by_the_book {
            &[Prices::Narrow, Prices::Narrow, Prices::Narrow, Prices::Narrow, Prices::Lowest, Prices::Everywhere][..]
        } else {
            &[Prices::Narrow, Prices::Narrow, Prices::Windows, Prices::Everywhere][..]
        });
        let prices = [(); INSTRUMENTS as usize]
            .map(|()| if rng.one_in(if by_the_book { 12 } else { 3 }) { rng.pick(&all) } else { common });
        let large = rng.one_in(if by_the_book { 12 } else { 4 });
        let mut flow = Self {
            weights,
            prices,
            terms: Terms::new(&mut rng, large, by_the_book),
            large,
            patience: rng.pick(&[1, 2, 3, 6, 12]),
            live: Vec::new(),
            dead: OrderId(1),
            blocked: Vec::new(),
            trades: VecDeque::new(),
            reports: Vec::new(),
            reporter: reports::one(&mut rng),
            lies: rng.one_in(8),
            most_resting: rng.pick(&[2, 30, 60, 150, 400, 400]),
            wealth: rng.pick(&[20, 100, 100, 1_000, 1_000_000]),
            phases: vec![Phase::Closed; INSTRUMENTS as usize],
            favourites: sessions::favourites(&mut rng),
            day: 20_000,
            at: VenueNanos(0),
            waits: rng.pick(&[0, 40, 400]),
            allocations: [(); INSTRUMENTS as usize].map(|()| {
                let all =
                    [Allocation::PriceTime, Allocation::PriceTime, Allocation::ProRata, Allocation::FrequentBatch];
                rng.pick(&all)
            }),
            by_the_book,
            prelude: VecDeque::new(),
            rng,
        };
        flow.prelude = flow.prelude();
        flow
    }

    /// Records live orders from the events, so that later commands can refer to them.
    pub fn learn(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Accepted { order: id, account, instrument, side, order_type, lots, tif, .. } => {
                    let price = order_type.limit_price().unwrap_or(Ticks(0));
                    let (lots, open) = (lots.0, lots.0);
                    self.live.push(TrackedOrder { id, account, instrument, side, price, order_type, tif, lots, open });
                }
                Event::Trade { maker, maker_open, taker, taker_open, .. } => {
                    self.remember(event);
                    for (order, open) in [(maker, maker_open), (taker, taker_open)] {
                        if let Some(known) = self.live.iter_mut().find(|known| known.id == order) {
                            known.open = open.0;
                        }
                        if open.is_zero() {
                            self.forget(order);
                        }
                    }
                }
                Event::Cancelled { order, .. } => self.forget(order),
                Event::Amended { order, price, lots, open, .. } => {
                    if let Some(known) = self.live.iter_mut().find(|known| known.id == order) {
                        (known.price, known.lots, known.open) = (price, lots.0, open.0);
                    }
                }
                Event::Triggered { order, .. } => {
                    if let Some(known) = self.live.iter_mut().find(|known| known.id == order) {
                        known.order_type = match known.order_type {
                            OrderType::Stop { .. } => OrderType::Market,
                            _ => OrderType::Limit { price: known.price },
                        };
                    }
                }
                Event::TradeReported { .. } | Event::ReportEnded { .. } | Event::OffBookTrade(_) => {
                    self.learn_report(event);
                }
                Event::SessionChanged { instrument, to: phase, .. } | Event::PhaseChanged { instrument, phase } => {
                    if let Some(known) = self.phases.get_mut(instrument.0 as usize) {
                        *known = phase;
                    }
                }
                Event::Killed { scope, .. } => self.blocked.push(scope),
                Event::ThrottleTripped { account } => self.blocked.push(KillScope::Account(account)),
                _ => {}
            }
        }
    }

    fn forget(&mut self, order: OrderId) {
        if let Some(at) = self.live.iter().position(|known| known.id == order) {
            self.live.swap_remove(at);
            self.dead = order;
        }
    }

    /// Returns the extra venue time before the next command, in nanoseconds.
    pub fn wait(&mut self) -> u64 {
        if self.waits == 0 || !self.by_the_book || !self.rng.one_in(self.waits) {
            return 0;
        }
        self.rng.pick(&[1_000, 50_000, 400_000_000, 1_000_000_000, 120_000_000_000, 599_900_000_000, 600_000_000_000])
    }

    /// Returns the next command for this number and time.
    pub fn command(&mut self, next: Seq, at: VenueNanos) -> Command {
        self.at = at;
        if let Some(first) = self.prelude.pop_front() {
            return first;
        }
        let total: u64 = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut draw = self.rng.below(total);
        let mut kind = Kind::Enter;
        for (candidate, weight) in &self.weights {
            if draw < *weight {
                kind = *candidate;
                break;
            }
            draw -= weight;
        }
        // A block is lifted soon, because a blocked venue tests little.
        if !self.blocked.is_empty() && self.rng.one_in(12) {
            return self.lift();
        }
        match kind {
            // Limits how much is deleted or closed for good.
            Kind::Delete | Kind::Close if self.by_the_book && !self.rng.one_in(8) => Command::PassTime,
            Kind::Enter if self.rng.one_in(4) && self.phases.iter().any(|phase| sessions::sleeps(*phase)) => {
                self.wake()
            }
            Kind::Enter => self.enter(next),
            Kind::Amend => self.amend(),
            Kind::Cancel => {
                let known = self.target();
                Command::Cancel { account: self.owner_or_another(known.account), order: known.id }
            }
            Kind::CancelAll => {
                let reason = self.rng.pick(&[CancelReason::Requested, CancelReason::Disconnected]);
                Command::CancelAll { account: self.account(), which: self.filter(), reason }
            }
            Kind::EndDay => Command::EndDay,
            Kind::SetPhase => {
                let old = [Phase::Closed, Phase::Continuous, Phase::Halted, Phase::Deleted];
                let all = if self.by_the_book && self.rng.one_in(2) { &Phase::ALL[..] } else { &old[..] };
                let phase = if self.rng.one_in(4) { self.rng.pick(all) } else { Phase::Continuous };
                Command::SetPhase { instrument: self.instrument(), phase }
            }
            Kind::SampleIndex => Command::SampleIndex,
            Kind::CloseWindow => Command::CloseWindow,
            Kind::Deposit => self.deposit(),
            Kind::Define => self.define(),
            Kind::StartEpoch => Command::StartEpoch { epoch: Epoch(next.0) },
            Kind::ChangeSession
            | Kind::ExtendSession
            | Kind::SetRemaining
            | Kind::BeginDay
            | Kind::PassTime
            | Kind::FilterHidden
            | Kind::RunBatch
            | Kind::SetRules
            | Kind::SetClosing => self.run_the_day(kind),
            Kind::SetReporting | Kind::Report | Kind::Answer => self.report(kind),
            other => self.operate(other, next),
        }
    }

    /// Returns the quantity on the other side within the limit, or close to it, to test both sides
    /// of the edge.
    fn about_all_there_is(&mut self, instrument: InstrumentId, side: Side, limit: Option<Ticks>) -> Lots {
        let reaches =
            |price: Ticks| limit.is_none_or(|limit| if side == Side::Buy { price <= limit } else { price >= limit });
        let there = self
            .live
            .iter()
            .filter(|known| known.instrument == instrument && known.side != side && reaches(known.price));
        let most: u64 = there.map(|known| known.open).sum();
        let least = if self.rng.one_in(3) { 1 + self.rng.below(most.max(1)) } else { most };
        Lots((least + self.rng.pick(&[0, 0, 1])).max(1))
    }

    /// Returns a display that is mostly valid.
    fn display(&mut self, may_rest: bool, lots: Lots) -> Option<Lots> {
        if !self.terms.icebergs || !self.rng.one_in(if may_rest { 3 } else { 60 }) {
            return None;
        }
        Some(match self.rng.below(20) {
            0 => Lots(0),
            1 => Lots(lots.0.saturating_add(1)),
            2 => lots,
            _ => Lots(1 + self.rng.below(lots.0.clamp(1, 4))),
        })
    }

    fn post_only(&mut self, may_be: bool) -> PostOnly {
        if self.terms.post_only && self.rng.one_in(if may_be { 5 } else { 60 }) {
            self.rng.pick(&[PostOnly::Reprice, PostOnly::Reprice, PostOnly::Reject])
        } else {
            PostOnly::No
        }
    }

    fn filter(&mut self) -> CancelFilter {
        match self.rng.below(5) {
            0 => CancelFilter::All,
            1 => CancelFilter::Instrument(self.instrument()),
            2 => CancelFilter::Session(SessionId(self.rng.below_u32(self.terms.sessions + 2))),
            _ => CancelFilter::Listed((0..self.rng.below(8)).map(|_| self.target().id).collect()),
        }
    }

    /// Mostly returns a live order, sometimes an old or unknown id.
    fn target(&mut self) -> TrackedOrder {
        let nothing = TrackedOrder {
            id: self.dead,
            account: AccountId(0),
            instrument: BTC_USDC,
            side: Side::Buy,
            price: START,
            order_type: OrderType::Limit { price: START },
            tif: TimeInForce::Day,
            lots: 5,
            open: 5,
        };
        match self.rng.below(40) {
            0 => nothing,
            1 => TrackedOrder { id: OrderId(u64::MAX - self.rng.below(3)), ..nothing },
            _ if self.live.is_empty() => nothing,
            _ => self.rng.pick(&self.live),
        }
    }

    fn owner_or_another(&mut self, owner: AccountId) -> AccountId {
        if self.rng.one_in(30) { self.account() } else { owner }
    }

    fn account(&mut self) -> AccountId {
        if self.rng.one_in(400) { AccountId(90) } else { AccountId(self.rng.below_u32(ACCOUNTS)) }
    }

    fn instrument(&mut self) -> InstrumentId {
        if self.rng.one_in(400) { InstrumentId(90) } else { InstrumentId(self.rng.below_u32(INSTRUMENTS)) }
    }

    fn price(&mut self, instrument: InstrumentId) -> Ticks {
        let most = Ticks::MAX_PRICE.0;
        if self.rng.one_in(300) {
            return Ticks(self.rng.pick(&[0, -1, i64::MIN, most + 1, i64::MAX]));
        }
        let near = self.rng.between_signed(-6, 6);
        let habit = self.prices.get(instrument.0 as usize).copied().unwrap_or(Prices::Narrow);
        let price = match habit {
            Prices::Narrow => START.0 + near,
            Prices::Windows => 20_480 + 2048 * self.rng.between_signed(-8, 8) + near,
            Prices::Everywhere => match self.rng.below(6) {
                0 => 1 + near.abs(),
                1 => most - near.abs(),
                2 => self.rng.between_signed(1, most) >> self.rng.below(32),
                3 => START.0 + 4096 * self.rng.between_signed(0, 4) + near,
                _ => START.0 + near,
            },
            Prices::Highest => most - near.abs(),
            Prices::Lowest => 1 + near.abs(),
        };
        Ticks(price.clamp(1, most))
    }

    fn lots(&mut self) -> Lots {
        let most = Lots::MAX_ORDER.0;
        match self.rng.below(400) {
            0 => Lots(0),
            1 => Lots(self.rng.pick(&[most + 1, u64::MAX])),
            2..=3 if self.large => Lots(most - self.rng.below(3)),
            4..=9 => Lots(1 + self.rng.below(200)),
            _ => Lots(1 + self.rng.below(9)),
        }
    }

    fn deposit(&mut self) -> Command {
        let currency = if self.rng.one_in(20) { CurrencyId(90) } else { CurrencyId(self.rng.below_u32(4)) };
        let limit = 1_i128 << 100;
        let units = match self.rng.below(20) {
            0 => self.rng.pick(&[limit + 1, -limit - 1, i128::MAX, i128::MIN]),
            1 => 0,
            2..=7 => -i128::from(self.rng.below(1 << 20)),
            _ => i128::from(self.rng.below(1 << 20)),
        };
        Command::Deposit { account: self.account(), currency, units }
    }
}

impl Terms {
    fn new(rng: &mut SplitMix64, large: bool, by_the_book: bool) -> Self {
        let day_or_cancelled = [TimeInForce::GoodTillCancel.code(), TimeInForce::Day.code()];
        let mut tifs = vec![rng.pick(&day_or_cancelled)];
        for tif in 0..if by_the_book { 11 } else { 4 } {
            if !rng.one_in(4) {
                tifs.push(tif);
            }
        }
        // Most orders are plain orders.
        if by_the_book && rng.one_in(2) {
            tifs.extend([TimeInForce::Day.code(); 12]);
        }
        let mut modes = vec![None, None, None];
        if rng.one_in(2) {
            modes.extend(SelfMatch::ALL.map(Some));
        }
        if rng.one_in(4) {
            modes = vec![Some(rng.pick(&SelfMatch::ALL))];
        }
        let mut groups = vec![MatchGroup::Account];
        if rng.one_in(2) {
            groups.extend([MatchGroup::Account, MatchGroup::Order, MatchGroup::Key(1), MatchGroup::Key(2)]);
        }
        Terms {
            tifs,
            markets: !rng.one_in(4),
            hidden: by_the_book && !rng.one_in(3),
            mostly_hidden: by_the_book && rng.one_in(4),
            stops: by_the_book && !rng.one_in(3),
            reduces: by_the_book && rng.one_in(2),
            icebergs: !large && !rng.one_in(4),
            post_only: !rng.one_in(4),
            modes,
            groups,
            sessions: rng.pick(&[0, 2, 4]),
        }
    }
}
