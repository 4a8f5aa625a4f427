//! A random flow of commands, in which each seed has its own habits.
//!
//! Does        make commands that mostly mean something: a third and more aim at orders that live.
//! Holds       swarm testing: a seed switches some kinds off altogether, because a fault that needs a full book, say,
//!             is never met by a flow in which everything happens equally often.
//! Start at    [`Flow::command`], then `operators`.

mod define;
mod operators;

use std::collections::VecDeque;

use pitwire_model::{
    AccountId, Amend, Bust, CancelFilter, CancelReason, Command, CurrencyId, Epoch, Event, InstrumentId, KillScope,
    Label, Lots, MatchGroup, NewOrder, OrderId, OrderType, Phase, PostOnly, Priority, SelfMatch, Seq, SessionId, Side,
    Ticks, TimeInForce,
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

/// Where a seed's prices lie. The fast book keeps a window of 4096 ticks by the touch and the rest elsewhere.
#[derive(Clone, Copy, Debug)]
enum Prices {
    /// A few ticks, so that queues are long and most orders meet.
    Narrow,
    /// Several thousand ticks, so that the window's edges are crossed all the time.
    Windows,
    /// The whole range a price may have.
    Everywhere,
    /// Within a few ticks of the highest price.
    Ceiling,
    /// Within a few ticks of the lowest.
    Floor,
}

/// An order as the events told of it.
#[derive(Clone, Copy, Debug)]
struct Known {
    id: OrderId,
    account: AccountId,
    instrument: InstrumentId,
    side: Side,
    price: Ticks,
    lots: u64,
    open: u64,
}

/// Which terms a seed's orders carry.
#[derive(Debug)]
struct Terms {
    tifs: Vec<TimeInForce>,
    markets: bool,
    /// Never with large orders: an iceberg of billions that shows one lot would trade for ever.
    icebergs: bool,
    post_only: bool,
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
    /// How many prices an order draws before it takes the one least likely to trade: more build deeper books.
    patience: u64,
    live: Vec<Known>,
    dead: OrderId,
    /// What an operator should lift some day.
    blocked: Vec<KillScope>,
    trades: VecDeque<Bust>,
    /// Busts of trades that were not so: the engine cannot know, the auditor does.
    pub lies: bool,
    /// Orders per instrument after which one more is refused.
    pub most_resting: u32,
    pub wealth: i128,
}

impl Flow {
    pub fn new(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let mut weights: Vec<(Kind, u64)> = Vec::new();
        for (kind, weight) in USUAL {
            if matches!(kind, Kind::Enter) || !rng.one_in(4) {
                weights.push((kind, weight * (1 + rng.below(4))));
            }
        }
        let all = [Prices::Narrow, Prices::Windows, Prices::Everywhere, Prices::Ceiling, Prices::Floor];
        let common = rng.pick(&[Prices::Narrow, Prices::Narrow, Prices::Windows, Prices::Everywhere]);
        let prices = [(); INSTRUMENTS as usize].map(|()| if rng.one_in(3) { rng.pick(&all) } else { common });
        let large = rng.one_in(4);
        Self {
            weights,
            prices,
            terms: Terms::new(&mut rng, large),
            large,
            patience: rng.pick(&[1, 2, 3, 6, 12]),
            live: Vec::new(),
            dead: OrderId(1),
            blocked: Vec::new(),
            trades: VecDeque::new(),
            lies: rng.one_in(8),
            most_resting: rng.pick(&[2, 30, 60, 150, 400, 400]),
            wealth: rng.pick(&[20, 100, 100, 1_000, 1_000_000]),
            rng,
        }
    }

    /// Learns from what was said which orders live, so that later commands can aim at them.
    pub fn learn(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Accepted { order: id, account, instrument, side, order_type, lots, .. } => {
                    let price = order_type.limit_price().unwrap_or(START);
                    self.live.push(Known { id, account, instrument, side, price, lots: lots.0, open: lots.0 });
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

    pub fn command(&mut self, next: Seq) -> Command {
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
        // Whatever is blocked is lifted before long: a venue at rest proves little.
        if !self.blocked.is_empty() && self.rng.one_in(12) {
            return self.lift();
        }
        match kind {
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
                let phase = if self.rng.one_in(4) { self.rng.pick(&Phase::ALL) } else { Phase::Continuous };
                Command::SetPhase { instrument: self.instrument(), phase }
            }
            Kind::SampleIndex => Command::SampleIndex,
            Kind::CloseWindow => Command::CloseWindow,
            Kind::Deposit => self.deposit(),
            Kind::Define => self.define(),
            Kind::StartEpoch => Command::StartEpoch { epoch: Epoch(next.0) },
            other => self.operate(other, next),
        }
    }

    fn enter(&mut self, next: Seq) -> Command {
        let instrument = self.instrument();
        let market = self.terms.markets && self.rng.one_in(8);
        let side = self.rng.pick(&[Side::Buy, Side::Sell]);
        let drawn: Vec<Ticks> = (0..self.patience).map(|_| self.price(instrument)).collect();
        let price = match side {
            Side::Buy => drawn.into_iter().min(),
            Side::Sell => drawn.into_iter().max(),
        };
        let price = price.unwrap_or(START);
        let id = match self.rng.below(300) {
            0 => self.target().id,
            1 => self.dead,
            _ => OrderId(next.0),
        };
        let tif = self.rng.pick(&self.terms.tifs);
        let mut lots = self.lots();
        if tif == TimeInForce::FillOrKill && self.rng.one_in(2) {
            lots = self.about_all_there_is(instrument, side, (!market).then_some(price));
        }
        let session = SessionId(self.rng.small(self.terms.sessions + 1));
        let may_rest = !market && tif.rests();
        Command::Enter(NewOrder {
            id,
            account: self.account(),
            instrument,
            side,
            order_type: if market { OrderType::Market } else { OrderType::Limit { price } },
            lots,
            tif,
            display: self.display(may_rest, lots),
            post_only: self.post_only(may_rest),
            self_match: self.rng.pick(&self.terms.modes),
            match_group: self.rng.pick(&self.terms.groups),
            session,
            cancel_on_disconnect: session.0 > 0 && self.rng.one_in(4),
            label: Label::default(),
            client_order_id: Label::default(),
        })
    }

    /// As much as the other side holds within the limit, or a lot more or less: what just fits, and what just does not.
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

    /// A peak that fits, or now and then one that does not.
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

    fn post_only(&mut self, may_rest: bool) -> PostOnly {
        if self.terms.post_only && self.rng.one_in(if may_rest { 5 } else { 60 }) {
            self.rng.pick(&[PostOnly::Reprice, PostOnly::Reprice, PostOnly::Reject])
        } else {
            PostOnly::No
        }
    }

    fn amend(&mut self) -> Command {
        let known = self.target();
        let price = if self.rng.one_in(2) { known.price } else { self.price(known.instrument) };
        let lots = match self.rng.below(4) {
            0 => self.lots(),
            1 => Lots(known.lots + self.rng.below(3)),
            _ => Lots(known.lots.saturating_sub(self.rng.below(4))),
        };
        let priority = self.rng.pick(&[Priority::KeepWhenReduced, Priority::KeepWhenReduced, Priority::AlwaysLose]);
        let display = if self.rng.one_in(3) { self.display(true, lots) } else { None };
        Command::Amend(Amend {
            account: self.owner_or_another(known.account),
            order: known.id,
            price,
            lots,
            priority,
            display,
            post_only: self.post_only(true),
            ..Amend::PLAIN
        })
    }

    fn filter(&mut self) -> CancelFilter {
        match self.rng.below(5) {
            0 => CancelFilter::All,
            1 => CancelFilter::Instrument(self.instrument()),
            2 => CancelFilter::Session(SessionId(self.rng.small(self.terms.sessions + 2))),
            _ => CancelFilter::Listed((0..self.rng.below(8)).map(|_| self.target().id).collect()),
        }
    }

    /// Mostly a live order, now and then one that is gone or never was.
    fn target(&mut self) -> Known {
        let nothing = Known {
            id: self.dead,
            account: AccountId(0),
            instrument: BTC_USDC,
            side: Side::Buy,
            price: START,
            lots: 5,
            open: 5,
        };
        match self.rng.below(40) {
            0 => nothing,
            1 => Known { id: OrderId(u64::MAX - self.rng.below(3)), ..nothing },
            _ if self.live.is_empty() => nothing,
            _ => self.rng.pick(&self.live),
        }
    }

    fn owner_or_another(&mut self, owner: AccountId) -> AccountId {
        if self.rng.one_in(30) { self.account() } else { owner }
    }

    fn account(&mut self) -> AccountId {
        if self.rng.one_in(400) { AccountId(90) } else { AccountId(self.rng.small(ACCOUNTS)) }
    }

    fn instrument(&mut self) -> InstrumentId {
        if self.rng.one_in(400) { InstrumentId(90) } else { InstrumentId(self.rng.small(INSTRUMENTS)) }
    }

    fn price(&mut self, instrument: InstrumentId) -> Ticks {
        let most = Ticks::MAX_PRICE.0;
        if self.rng.one_in(300) {
            return Ticks(self.rng.pick(&[0, -1, i64::MIN, most + 1, i64::MAX]));
        }
        let near = self.rng.between(-6, 6);
        let habit = self.prices.get(instrument.0 as usize).copied().unwrap_or(Prices::Narrow);
        let price = match habit {
            Prices::Narrow => START.0 + near,
            Prices::Windows => 20_480 + 2048 * self.rng.between(-8, 8) + near,
            Prices::Everywhere => match self.rng.below(6) {
                0 => 1 + near.abs(),
                1 => most - near.abs(),
                2 => self.rng.between(1, most) >> self.rng.below(32),
                3 => START.0 + 4096 * self.rng.between(0, 4) + near,
                _ => START.0 + near,
            },
            Prices::Ceiling => most - near.abs(),
            Prices::Floor => 1 + near.abs(),
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
        let currency = if self.rng.one_in(20) { CurrencyId(90) } else { CurrencyId(self.rng.small(4)) };
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
    fn new(rng: &mut SplitMix64, large: bool) -> Self {
        let mut tifs = vec![TimeInForce::GoodTillCancel];
        for tif in [TimeInForce::Day, TimeInForce::ImmediateOrCancel, TimeInForce::FillOrKill] {
            if !rng.one_in(4) {
                tifs.push(tif);
            }
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
            icebergs: !large && !rng.one_in(4),
            post_only: !rng.one_in(4),
            modes,
            groups,
            sessions: rng.pick(&[0, 2, 4]),
        }
    }
}
