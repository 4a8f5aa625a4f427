//! Ready-made markets: the commands that a fresh venue begins with.

use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Phase, SelfMatch, Ticks,
};
use pitwire_order_entry::Credential;

pub struct Preset {
    pub name: &'static str,
    pub commands: Vec<Command>,
    /// Accounts that the resident flow trades from.
    pub house: Vec<AccountId>,
    pub credentials: Vec<Credential>,
}

/// Name and decimals. Shares are counted whole.
const CURRENCIES: [(&str, u8); 13] = [
    ("ZAR", 2),
    ("USDC", 6),
    ("USD", 2),
    ("BTC", 8),
    ("ETH", 8),
    ("NPN", 0),
    ("AGL", 0),
    ("SOL", 0),
    ("MTN", 0),
    ("FSR", 0),
    ("SBK", 0),
    ("BHG", 0),
    ("AUC", 0),
];

struct Row {
    base: &'static str,
    quote: &'static str,
    /// Mantissa and scale.
    tick: (i128, u8),
    lot: (i128, u8),
    start_ticks: i64,
}

const fn share(base: &'static str, start_cents: i64) -> Row {
    Row { base, quote: "ZAR", tick: (1, 2), lot: (1, 0), start_ticks: start_cents }
}

const SPOT: [Row; 10] = [
    share("NPN", 325_000),
    share("AGL", 51_000),
    share("SOL", 11_800),
    share("MTN", 9_600),
    share("FSR", 7_200),
    share("SBK", 21_500),
    share("BHG", 48_000),
    Row { base: "BTC", quote: "USDC", tick: (5, 1), lot: (1, 4), start_ticks: 120_000 },
    Row { base: "ETH", quote: "USDC", tick: (5, 2), lot: (1, 3), start_ticks: 60_000 },
    share("AUC", 10_000),
];

const MAX_RESTING_ORDERS: u32 = 2_000_000;
const HOUSE_ACCOUNTS: u32 = 12;
const LEVERAGE: u32 = 50;

/// Whole coins or shares of each holding of `demo-a` and `demo-b`.
const HOLDINGS: [(&str, i128); 4] = [("ZAR", 10_000_000), ("USDC", 1_000_000), ("BTC", 20), ("ETH", 200)];
const SHARES_HELD: i128 = 10_000;

fn currency(name: &str) -> CurrencyId {
    let at = CURRENCIES.iter().position(|(known, _)| *known == name).unwrap_or(0);
    CurrencyId(u32::try_from(at).unwrap_or(0))
}

pub fn demo() -> Preset {
    let mut commands = Vec::new();
    for (name, decimals) in CURRENCIES {
        commands.push(Command::AddCurrency(Currency { id: currency(name), name: name.into(), decimals }));
    }
    let instruments = instruments();
    let ids: Vec<InstrumentId> = instruments.iter().map(|spec| spec.id).collect();
    commands.extend(instruments.into_iter().map(|spec| Command::AddInstrument(Box::new(spec))));
    let members = ["demo-a", "demo-b", "demo-operator"];
    let mut names: Vec<(String, Credit)> = members.iter().map(|name| ((*name).into(), Credit::Limited)).collect();
    names.extend((1..=HOUSE_ACCOUNTS).map(|n| (format!("house-{n:02}"), Credit::Unlimited)));
    let mut house = Vec::new();
    for (id, (name, credit)) in (0..).map(AccountId).zip(names) {
        if credit == Credit::Unlimited {
            house.push(id);
        }
        // The flow trades with itself all day.
        let self_match = if credit == Credit::Unlimited { SelfMatch::Allow } else { SelfMatch::default() };
        let settings = AccountSettings { self_match, ..AccountSettings::default() };
        commands.push(Command::AddAccount(AccountSpec { id, name, credit, settings }));
    }
    for account in [AccountId(0), AccountId(1)] {
        commands.extend(endowment(account));
    }
    commands.extend(ids.into_iter().map(|instrument| Command::SetPhase { instrument, phase: Phase::Continuous }));
    let credentials = (0..).map(AccountId).zip(members).map(|(account, name)| Credential {
        client_id: name.into(),
        secret: format!("{name}-secret"),
        account,
        operator: name == "demo-operator",
    });
    Preset { name: "demo", commands, house, credentials: credentials.collect() }
}

fn instruments() -> Vec<InstrumentSpec> {
    let mut specs = Vec::new();
    for (id, row) in (0..).map(InstrumentId).zip(&SPOT) {
        specs.push(InstrumentSpec {
            id,
            name: format!("{}_{}", row.base, row.quote),
            kind: InstrumentKind::Spot { base: currency(row.base), quote: currency(row.quote) },
            tick: Decimal::new(row.tick.0, row.tick.1),
            lot: Decimal::new(row.lot.0, row.lot.1),
            start_price: Ticks(row.start_ticks),
            max_resting_orders: MAX_RESTING_ORDERS,
            limits: InstrumentLimits::default(),
        });
    }
    let index = specs.iter().find(|spec| spec.name == "BTC_USDC").map_or(InstrumentId(0), |spec| spec.id);
    specs.push(InstrumentSpec {
        id: InstrumentId(u32::try_from(specs.len()).unwrap_or(0)),
        name: "BTC-PERPETUAL".into(),
        kind: InstrumentKind::InversePerpetual {
            base: currency("BTC"),
            quote: currency("USD"),
            index,
            max_leverage: LEVERAGE,
        },
        tick: Decimal::new(5, 1),
        lot: Decimal::new(10, 0),
        start_price: Ticks(120_000),
        max_resting_orders: MAX_RESTING_ORDERS,
        limits: InstrumentLimits::default(),
    });
    specs
}

fn endowment(account: AccountId) -> Vec<Command> {
    let held = |name: &str| {
        let share = CURRENCIES.iter().any(|(known, decimals)| *known == name && *decimals == 0);
        let whole = HOLDINGS.iter().find(|(known, _)| *known == name).map(|(_, whole)| *whole);
        whole.or(share.then_some(SHARES_HELD))
    };
    CURRENCIES
        .iter()
        .filter_map(|(name, decimals)| held(name).map(|whole| (name, whole * 10_i128.pow(u32::from(*decimals)))))
        .map(|(name, units)| Command::Deposit { account, currency: currency(name), units })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_engine::Engine;
    use pitwire_model::{Event, Seq, Stamped, VenueNanos};

    #[test]
    fn a_fresh_engine_takes_every_command_of_the_demo() {
        let mut engine = Engine::new();
        for (seq, command) in (1..).zip(demo().commands) {
            let mut events = Vec::new();
            engine.apply(&Stamped { seq: Seq(seq), at: VenueNanos(0), command: command.clone() }, &mut events);
            assert!(!events.iter().any(|event| matches!(event, Event::CommandRefused { .. })), "{command:?}");
        }
        assert_eq!(engine.markets().len(), 11);
        assert!(engine.markets().iter().all(|market| market.phase() == Phase::Continuous));
        let zar = engine.available(AccountId(0), currency("ZAR"));
        assert_eq!(zar, 1_000_000_000, "ten million rand in cents");
        assert_eq!(engine.available(AccountId(1), currency("NPN")), 10_000);
    }
}
