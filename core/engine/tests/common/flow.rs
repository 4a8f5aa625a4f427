//! A random flow of commands, in which each seed has its own habits.
//!
//! Does        make commands that mostly mean something: a third and more aim at orders that live.
//! Holds       swarm testing: a seed switches some kinds off altogether, because a fault that needs a full book, say,
//!             is never met by a flow in which everything happens equally often.
//! Start at    [`Flow::command`].

use pitwire_model::{
    AccountId, Amend, CancelFilter, CancelReason, Command, Credit, CurrencyId, Decimal, Epoch, Event, InstrumentId,
    InstrumentKind, Label, Lots, NewOrder, OrderId, OrderType, Phase, Priority, Seq, Side, Ticks, TimeInForce,
};

use super::SplitMix64;
use super::world::{ACCOUNTS, BTC_USDC, INSTRUMENTS, PERPETUAL, START, account, currency, instrument};

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
}

const USUAL: [(Kind, u64); 11] = [
    (Kind::Enter, 600),
    (Kind::Amend, 180),
    (Kind::Cancel, 120),
    (Kind::CancelAll, 3),
    (Kind::EndDay, 1),
    (Kind::SetPhase, 6),
    (Kind::SampleIndex, 20),
    (Kind::CloseWindow, 4),
    (Kind::Deposit, 20),
    (Kind::Define, 6),
    (Kind::StartEpoch, 1),
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

#[derive(Debug)]
pub struct Flow {
    rng: SplitMix64,
    weights: Vec<(Kind, u64)>,
    prices: [Prices; INSTRUMENTS as usize],
    tifs: Vec<TimeInForce>,
    markets: bool,
    large: bool,
    /// How many prices an order draws before it takes the one least likely to trade: more build deeper books.
    patience: u64,
    live: Vec<(OrderId, AccountId, InstrumentId, Ticks, u64)>,
    dead: OrderId,
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
        let mut tifs = vec![TimeInForce::GoodTillCancel];
        for tif in [TimeInForce::Day, TimeInForce::ImmediateOrCancel] {
            if !rng.one_in(4) {
                tifs.push(tif);
            }
        }
        Self {
            weights,
            prices,
            tifs,
            markets: !rng.one_in(4),
            large: rng.one_in(3),
            patience: rng.pick(&[1, 2, 3, 6, 12]),
            live: Vec::new(),
            dead: OrderId(1),
            most_resting: rng.pick(&[2, 30, 60, 150, 400, 400]),
            wealth: rng.pick(&[20, 100, 100, 1_000, 1_000_000]),
            rng,
        }
    }

    /// Learns from what was said which orders live, so that later commands can aim at them.
    pub fn learn(&mut self, events: &[Event]) {
        for event in events {
            match *event {
                Event::Accepted { order, account, instrument, order_type, lots, .. } => {
                    let price = order_type.limit_price().unwrap_or(START);
                    self.live.push((order, account, instrument, price, lots.0));
                }
                Event::Trade { maker, maker_open, taker, taker_open, .. } => {
                    for (order, open) in [(maker, maker_open), (taker, taker_open)] {
                        if open.is_zero() {
                            self.forget(order);
                        }
                    }
                }
                Event::Cancelled { order, .. } => self.forget(order),
                Event::Amended { order, price, lots, .. } => {
                    if let Some(known) = self.live.iter_mut().find(|known| known.0 == order) {
                        (known.3, known.4) = (price, lots.0);
                    }
                }
                _ => {}
            }
        }
    }

    fn forget(&mut self, order: OrderId) {
        if let Some(at) = self.live.iter().position(|known| known.0 == order) {
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
        match kind {
            Kind::Enter => self.enter(next),
            Kind::Amend => self.amend(),
            Kind::Cancel => {
                let (order, owner, ..) = self.target();
                Command::Cancel { account: self.owner_or_another(owner), order }
            }
            Kind::CancelAll => {
                let instrument = self.instrument();
                let all = self.rng.one_in(2);
                Command::CancelAll {
                    account: self.account(),
                    which: if all { CancelFilter::All } else { CancelFilter::Instrument(instrument) },
                    reason: CancelReason::Requested,
                }
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
        }
    }

    fn enter(&mut self, next: Seq) -> Command {
        let instrument = self.instrument();
        let market = self.markets && self.rng.one_in(8);
        let side = self.rng.pick(&[Side::Buy, Side::Sell]);
        let drawn: Vec<Ticks> = (0..self.patience).map(|_| self.price(instrument)).collect();
        let price = match side {
            Side::Buy => drawn.into_iter().min(),
            Side::Sell => drawn.into_iter().max(),
        };
        let price = price.unwrap_or(START);
        let id = match self.rng.below(300) {
            0 => self.target().0,
            1 => self.dead,
            _ => OrderId(next.0),
        };
        Command::Enter(NewOrder {
            id,
            account: self.account(),
            instrument,
            side,
            order_type: if market { OrderType::Market } else { OrderType::Limit { price } },
            lots: self.lots(),
            tif: self.rng.pick(&self.tifs),
            label: Label::default(),
            ..NewOrder::PLAIN
        })
    }

    fn amend(&mut self) -> Command {
        let (order, owner, instrument, price, lots) = self.target();
        let price = if self.rng.one_in(2) { price } else { self.price(instrument) };
        let lots = match self.rng.below(4) {
            0 => self.lots(),
            1 => Lots(lots + self.rng.below(3)),
            _ => Lots(lots.saturating_sub(self.rng.below(4))),
        };
        let priority = self.rng.pick(&[Priority::KeepWhenReduced, Priority::KeepWhenReduced, Priority::AlwaysLose]);
        Command::Amend(Amend { account: self.owner_or_another(owner), order, price, lots, priority, ..Amend::PLAIN })
    }

    /// Mostly a live order, now and then one that is gone or never was.
    fn target(&mut self) -> (OrderId, AccountId, InstrumentId, Ticks, u64) {
        let nothing = (self.dead, AccountId(0), BTC_USDC, START, 5);
        match self.rng.below(40) {
            0 => nothing,
            1 => (OrderId(u64::MAX - self.rng.below(3)), AccountId(0), BTC_USDC, START, 5),
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

    /// Mostly definitions that must be refused, each for one fault.
    fn define(&mut self) -> Command {
        let bad = |change: fn(&mut pitwire_model::InstrumentSpec), of: InstrumentId| {
            let mut spec = instrument(of, 10);
            (spec.id, spec.name) = (InstrumentId(INSTRUMENTS), "FAULTY".to_owned());
            change(&mut spec);
            Command::AddInstrument(Box::new(spec))
        };
        let unknown = CurrencyId(90);
        match self.rng.below(16) {
            0 => Command::AddCurrency(currency(0, "COPY", 2)),
            1 => Command::AddCurrency(currency(4, "BTC", 2)),
            2 => Command::AddCurrency(currency(4, "FINE", 200)),
            3 => Command::AddAccount(account(0, "copy", Credit::Limited)),
            4 => Command::AddAccount(account(ACCOUNTS, "account-0", Credit::Limited)),
            5 => Command::AddAccount(account(ACCOUNTS, "late", Credit::Limited)),
            6 => Command::AddCurrency(currency(4, "LATE", 3)),
            7 => Command::AddInstrument(Box::new(instrument(BTC_USDC, 10))),
            8 => bad(|spec| spec.tick = Decimal::ZERO, BTC_USDC),
            9 => bad(|spec| spec.lot = Decimal::new(-1, 0), BTC_USDC),
            10 => bad(|spec| spec.start_price = Ticks(0), BTC_USDC),
            11 => bad(|spec| spec.lot = Decimal::new(1, 12), BTC_USDC),
            12 => bad(|spec| spec.id = InstrumentId(77), BTC_USDC),
            13 => bad(|spec| perpetual(spec, |_, index, _| *index = InstrumentId(90)), PERPETUAL),
            14 => bad(|spec| perpetual(spec, |_, _, leverage| *leverage = 0), PERPETUAL),
            _ => {
                let mut spec = instrument(BTC_USDC, 10);
                (spec.id, spec.name) = (InstrumentId(INSTRUMENTS), "FAULTY".to_owned());
                spec.kind = InstrumentKind::Spot { base: unknown, quote: CurrencyId(1) };
                Command::AddInstrument(Box::new(spec))
            }
        }
    }
}

fn perpetual(spec: &mut pitwire_model::InstrumentSpec, change: fn(&mut CurrencyId, &mut InstrumentId, &mut u32)) {
    if let InstrumentKind::InversePerpetual { base, index, max_leverage, .. } = &mut spec.kind {
        change(base, index, max_leverage);
    }
}
