//! Four currencies, two spot instruments, a perpetual on the first one, and six accounts, four of
//! them limited.

use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, Event, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Phase, Seq, SequencedCommand, Ticks, VenueNanos,
};

pub const BTC: CurrencyId = CurrencyId(0);
pub const USDC: CurrencyId = CurrencyId(1);
pub const NPN: CurrencyId = CurrencyId(2);
pub const ZAR: CurrencyId = CurrencyId(3);

pub const BTC_USDC: InstrumentId = InstrumentId(0);
pub const NPN_ZAR: InstrumentId = InstrumentId(1);
pub const PERPETUAL: InstrumentId = InstrumentId(2);
pub const INSTRUMENTS: u32 = 3;

pub const HOUSE: [AccountId; 2] = [AccountId(0), AccountId(1)];
pub const MEMBERS: [AccountId; 4] = [AccountId(2), AccountId(3), AccountId(4), AccountId(5)];
pub const ACCOUNTS: u32 = 6;

pub const START: Ticks = Ticks(1000);

pub fn currency(id: u32, name: &str, decimals: u8) -> Currency {
    Currency { id: CurrencyId(id), name: name.to_owned(), decimals }
}

pub fn account(id: u32, name: &str, credit: Credit) -> AccountSpec {
    AccountSpec { id: AccountId(id), name: name.to_owned(), credit, settings: AccountSettings::default() }
}

pub fn instrument(id: InstrumentId, most: u32) -> InstrumentSpec {
    let (name, kind, tick, lot) = match id {
        BTC_USDC => ("BTC_USDC", InstrumentKind::Spot { base: BTC, quote: USDC }, (5, 1), (1, 4)),
        NPN_ZAR => ("NPN_ZAR", InstrumentKind::Spot { base: NPN, quote: ZAR }, (1, 2), (1, 0)),
        _ => {
            let kind = InstrumentKind::InversePerpetual { base: BTC, quote: USDC, index: BTC_USDC, max_leverage: 50 };
            ("BTC-PERPETUAL", kind, (5, 1), (10, 0))
        }
    };
    InstrumentSpec {
        id,
        name: name.to_owned(),
        kind,
        tick: Decimal::new(tick.0, tick.1),
        lot: Decimal::new(lot.0, lot.1),
        start_price: START,
        max_resting_orders: most,
        limits: InstrumentLimits::default(),
        rules: None,
    }
}

/// Returns the commands that build the world. Every book is open. Balances are scaled by `wealth`
/// percent.
pub fn opening_commands(most: u32, wealth: i128) -> Vec<Command> {
    let mut commands = vec![
        Command::AddCurrency(currency(0, "BTC", 8)),
        Command::AddCurrency(currency(1, "USDC", 6)),
        Command::AddCurrency(currency(2, "NPN", 0)),
        Command::AddCurrency(currency(3, "ZAR", 2)),
    ];
    for id in 0..ACCOUNTS {
        let credit = if HOUSE.contains(&AccountId(id)) { Credit::Unlimited } else { Credit::Limited };
        commands.push(Command::AddAccount(account(id, &format!("account-{id}"), credit)));
    }
    for id in [BTC_USDC, NPN_ZAR, PERPETUAL] {
        commands.push(Command::AddInstrument(Box::new(instrument(id, most))));
        commands.push(Command::SetPhase { instrument: id, phase: Phase::Continuous });
    }
    for account in MEMBERS {
        for (currency, units) in [(BTC, 2_000_000), (USDC, 5_000_000), (NPN, 100), (ZAR, 100_000)] {
            commands.push(Command::Deposit { account, currency, units: units * wealth / 100 });
        }
    }
    commands
}

/// Numbers commands from 1, one microsecond apart.
#[derive(Debug, Default)]
pub struct Stamper {
    pub seq: Seq,
    pub at: VenueNanos,
}

impl Stamper {
    pub fn stamp(&mut self, command: Command) -> SequencedCommand {
        self.seq = self.seq.next();
        self.at = VenueNanos(self.at.0 + 1000);
        SequencedCommand { seq: self.seq, at: self.at, command }
    }
}

pub fn apply(engine: &mut Engine, stamped: &SequencedCommand) -> Vec<Event> {
    let mut events = Vec::new();
    engine.apply(stamped, &mut events);
    events
}
