//! A small venue in memory: four instruments, three accounts, orders on both sides of a book.

use pitwire_deribit::{Venue, VenueStatus};
use pitwire_engine::Engine;
use pitwire_journal::LogError;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, Event, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, Seq, Side, Stamped,
    Ticks, VenueNanos,
};
use pitwire_projections::{Change, Views};

pub const NOW: VenueNanos = VenueNanos(1_795_219_359_707_000_000);
pub const MEMBERS: [&str; 3] = ["alice", "bob", "operator"];

/// Currency names with their decimals.
const CURRENCIES: [(&str, u8); 6] = [("ZAR", 2), ("USDC", 6), ("USD", 2), ("BTC", 8), ("NPN", 0), ("ETH", 8)];
const HELD_WHOLE: i128 = 1_000_000;

pub struct SmallVenue {
    pub engine: Engine,
    pub views: Views,
    pub changes: Vec<Change>,
    events: Vec<Event>,
    commands: u64,
    now: VenueNanos,
}

impl Venue for SmallVenue {
    fn submit(&mut self, mut command: Command) -> Result<Seq, LogError> {
        self.commands += 1;
        if let Command::Enter(order) = &mut command {
            order.id = OrderId(self.commands);
        }
        let stamped = Stamped { seq: Seq(self.commands), at: self.now, command };
        self.events.clear();
        self.engine.apply(&stamped, &mut self.events);
        self.views.observe(&stamped, &self.events, &mut self.changes);
        Ok(stamped.seq)
    }

    fn events(&self) -> &[Event] {
        &self.events
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn views(&self) -> &Views {
        &self.views
    }

    fn now(&self) -> VenueNanos {
        self.now
    }

    fn takes_orders(&self) -> bool {
        true
    }

    fn standing(&self) -> VenueStatus {
        VenueStatus { last: Seq(self.commands), is_durable: false, tape_hash: [0; 32] }
    }

    fn advance(&mut self, ns: u64) -> Option<Result<VenueNanos, LogError>> {
        self.now = VenueNanos(self.now.0.saturating_add(ns));
        Some(Ok(self.now))
    }
}

impl SmallVenue {
    pub fn new() -> Self {
        let mut venue = SmallVenue {
            engine: Engine::new(),
            views: Views::new(),
            changes: Vec::new(),
            events: Vec::new(),
            commands: 0,
            now: NOW,
        };
        for command in opening() {
            // Memory does not fail.
            let _ = venue.submit(command);
        }
        venue
    }
}

fn currency(name: &str) -> CurrencyId {
    (0..).zip(CURRENCIES).find(|(_, (known, _))| *known == name).map_or(CurrencyId(0), |(id, _)| CurrencyId(id))
}

/// The commands that set the venue up.
pub fn opening() -> Vec<Command> {
    let mut commands = Vec::new();
    for (id, (name, decimals)) in (0..).map(CurrencyId).zip(CURRENCIES) {
        commands.push(Command::AddCurrency(Currency { id, name: name.into(), decimals }));
    }
    for (id, name) in (0..).map(AccountId).zip(MEMBERS) {
        let settings = AccountSettings::default();
        commands.push(Command::AddAccount(AccountSpec { id, name: name.into(), credit: Credit::Limited, settings }));
        for (currency, (_, decimals)) in (0..).map(CurrencyId).zip(CURRENCIES) {
            let units = HELD_WHOLE * 10_i128.pow(u32::from(decimals));
            commands.push(Command::Deposit { account: id, currency, units });
        }
    }
    for spec in instruments() {
        let instrument = spec.id;
        commands.push(Command::AddInstrument(Box::new(spec)));
        commands.push(Command::SetPhase { instrument, phase: Phase::Continuous });
    }
    for spec in instruments() {
        for (side, offset) in [(Side::Buy, -2), (Side::Buy, -1), (Side::Sell, 1), (Side::Sell, 2)] {
            let price = Ticks(spec.start_price.0 + offset);
            commands.push(limit(AccountId(1), spec.id, side, price, Lots(5)));
        }
    }
    commands
}

pub fn limit(account: AccountId, instrument: InstrumentId, side: Side, price: Ticks, lots: Lots) -> Command {
    let order_type = OrderType::Limit { price };
    Command::Enter(NewOrder { account, instrument, side, order_type, lots, ..NewOrder::PLAIN })
}

fn instruments() -> Vec<InstrumentSpec> {
    let spot = |base, quote| InstrumentKind::Spot { base: currency(base), quote: currency(quote) };
    let perpetual = InstrumentKind::InversePerpetual {
        base: currency("BTC"),
        quote: currency("USD"),
        index: InstrumentId(1),
        max_leverage: 50,
    };
    let rows = [
        ("NPN_ZAR", spot("NPN", "ZAR"), (1, 2), (1, 0), 320_000),
        ("BTC_USDC", spot("BTC", "USDC"), (5, 1), (1, 4), 120_000),
        ("ETH_USDC", spot("ETH", "USDC"), (5, 2), (1, 3), 60_000),
        ("BTC-PERPETUAL", perpetual, (5, 1), (10, 0), 120_000),
    ];
    (0..)
        .zip(rows)
        .map(|(id, (name, kind, tick, lot, start))| InstrumentSpec {
            id: InstrumentId(id),
            name: name.into(),
            kind,
            tick: Decimal::new(tick.0, tick.1),
            lot: Decimal::new(lot.0, lot.1),
            start_price: Ticks(start),
            max_resting_orders: 10_000,
            limits: InstrumentLimits::default(),
            rules: None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_of_the_opening_is_taken() {
        let mut venue = SmallVenue::new();
        assert_eq!((venue.engine.markets().len(), venue.engine.live_orders()), (4, 16));
        for command in opening() {
            if !matches!(command, Command::Enter(_)) {
                continue;
            }
            venue.submit(command).unwrap();
            assert!(matches!(venue.events.first(), Some(Event::Accepted { .. })), "{:?}", venue.events);
        }
    }
}
