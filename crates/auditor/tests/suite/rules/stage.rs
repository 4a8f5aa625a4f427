//! A builder of short runs: one spot instrument at 100, three house accounts, and a day with one
//! session of each kind.

use pitwire_fixtures::{accepted, share};
pub use pitwire_fixtures::{limit_order as order, trade};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, CancelReason, Command, Credit, Currency, CurrencyId, Derivation, Event,
    InstrumentId, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, Reference, RemainingSessions, Seq,
    SequencedCommand, SessionReason, Side, Ticks, TradingRules, VenueDay, VenueNanos,
};

pub const MARKET: InstrumentId = InstrumentId(0);
pub const A: AccountId = AccountId(0);
pub const B: AccountId = AccountId(1);
pub const C: AccountId = AccountId(2);
pub const TODAY: VenueDay = VenueDay(20_000);
pub const SECOND: u64 = 1_000_000_000;

pub type Step = (&'static str, SequencedCommand, Vec<Event>);

pub struct Stage {
    pub steps: Vec<Step>,
    at: u64,
    change: u64,
    phase: Phase,
}

impl Stage {
    /// A market that is set up and open for continuous trading.
    pub fn open(rules: TradingRules) -> Stage {
        let mut stage = Stage { steps: Vec::new(), at: SECOND, change: 0, phase: Phase::Closed };
        let currency = |id, name: &str| Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 2 };
        for currency in [currency(0, "NPN"), currency(1, "ZAR")] {
            stage.say("", Command::AddCurrency(currency.clone()), vec![Event::CurrencyAdded(currency)]);
        }
        for id in [A, B, C] {
            let settings = AccountSettings::default();
            let account = AccountSpec { id, name: format!("house {id}"), credit: Credit::Unlimited, settings };
            stage.say("", Command::AddAccount(account.clone()), vec![Event::AccountAdded(account)]);
        }
        let spec =
            Box::new(InstrumentSpec { id: MARKET, max_resting_orders: 100, rules: Some(Box::new(rules)), ..share() });
        stage.say("", Command::AddInstrument(spec.clone()), vec![Event::InstrumentAdded(spec)]);
        let closes = VenueNanos(100_000 * SECOND);
        stage.say("", Command::BeginDay { day: TODAY, closes }, vec![Event::DayBegun { day: TODAY }]);
        let (instrument, remaining) = (MARKET, RemainingSessions { counts: [1; 16] });
        let set = Event::RemainingSet { instrument };
        stage.say("", Command::SetRemaining { instrument, remaining }, vec![set]);
        stage.session("open", Phase::Continuous, vec![], vec![]);
        stage
    }

    pub fn say(&mut self, name: &'static str, command: Command, events: Vec<Event>) {
        self.at += SECOND;
        let seq = Seq(self.steps.len() as u64 + 1);
        self.steps.push((name, SequencedCommand { seq, at: VenueNanos(self.at), command }, events));
    }

    /// Adds a change number after public events.
    pub fn add(&mut self, name: &'static str, command: Command, mut events: Vec<Event>) {
        if events.iter().any(Event::is_public) {
            self.change += 1;
            events.push(Event::BookChanged { instrument: MARKET, change_id: self.change });
        }
        self.say(name, command, events);
    }

    pub fn enter(&mut self, name: &'static str, new: NewOrder, rest: Vec<Event>) {
        let mut events = vec![accepted(&new)];
        events.extend(rest);
        self.add(name, Command::Enter(new), events);
    }

    /// An order that rests alone at its price.
    pub fn rest(&mut self, new: NewOrder) {
        let level = level(new.side, new.order_type.limit_price().unwrap_or_default().0, new.lots.0);
        self.enter("", new, vec![level]);
    }

    pub fn session(&mut self, name: &'static str, to: Phase, before: Vec<Event>, after: Vec<Event>) {
        let (instrument, from, reason, ends) = (MARKET, self.phase, SessionReason::Scheduled, None);
        let mut events = before;
        events.push(Event::SessionChanged { instrument, from, to, reason, ends });
        events.extend(after);
        self.phase = to;
        let due = VenueNanos(self.at);
        self.add(name, Command::ChangeSession { instrument, to, reason, due, ends }, events);
    }

    /// Sets the phase after a breach, which differs from the commanded one.
    pub fn is_now(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub fn pass(&mut self, seconds: u64) {
        self.at += seconds * SECOND;
    }

    pub fn now(&self) -> u64 {
        self.at
    }
}

pub fn market(id: u64, account: AccountId, side: Side, lots: u64) -> NewOrder {
    NewOrder { order_type: OrderType::Market, ..order(id, account, side, 1, lots) }
}

pub fn hidden(id: u64, account: AccountId, side: Side, price: i64, lots: u64, minimum: u64) -> NewOrder {
    let order_type = OrderType::Hidden { price: Ticks(price), minimum_execution: Lots(minimum) };
    NewOrder { order_type, ..order(id, account, side, price, lots) }
}

pub fn stop(id: u64, account: AccountId, side: Side, stop: i64, lots: u64) -> NewOrder {
    NewOrder { order_type: OrderType::Stop { stop: Ticks(stop) }, ..order(id, account, side, 1, lots) }
}

pub fn level(side: Side, price: i64, lots: u64) -> Event {
    Event::Level { instrument: MARKET, side, price: Ticks(price), lots: Lots(lots) }
}

pub fn cancelled(id: u64, account: AccountId, side: Side, price: i64, open: u64, reason: CancelReason) -> Event {
    let (order, instrument) = (OrderId(id), MARKET);
    Event::Cancelled { order, account, instrument, side, price: Ticks(price), open: Lots(open), reason }
}

pub fn parked(id: u64, account: AccountId, open: u64) -> Event {
    Event::Parked { order: OrderId(id), account, instrument: MARKET, open: Lots(open) }
}

pub fn injected(id: u64, account: AccountId) -> Event {
    Event::Injected { order: OrderId(id), account, instrument: MARKET }
}

pub fn triggered(id: u64, account: AccountId, last: i64) -> Event {
    Event::Triggered { order: OrderId(id), account, instrument: MARKET, last: Ticks(last) }
}

pub fn indicative(price: i64, volume: u64, imbalance: i64) -> Event {
    Event::Indicative { instrument: MARKET, price: Some(Ticks(price)), volume: Lots(volume), imbalance }
}

pub fn uncrossed(call: Phase, price: i64, volume: u64) -> Event {
    Event::Uncrossed { instrument: MARKET, call, price: Ticks(price), volume: Lots(volume) }
}

pub fn breached(price: i64, reference: i64, against: Reference, bps: u32) -> Event {
    Event::Breached { instrument: MARKET, price: Ticks(price), reference: Ticks(reference), against, bps }
}

pub fn broke(from: Phase) -> Event {
    let (to, reason, ends) = (Phase::VolatilityCall, SessionReason::Breaker, None);
    Event::SessionChanged { instrument: MARKET, from, to, reason, ends }
}

pub fn closing(price: i64, derivation: Derivation) -> Event {
    Event::ClosingPriceSet { instrument: MARKET, price: Ticks(price), derivation }
}

pub fn refreshed(id: u64, account: AccountId, side: Side, price: i64, shown: u64) -> Event {
    let (order, instrument) = (OrderId(id), MARKET);
    Event::Refreshed { order, account, instrument, side, price: Ticks(price), shown: Lots(shown) }
}
