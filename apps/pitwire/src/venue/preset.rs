//! Ready-made markets.

use pitwire_engine::Engine;
use pitwire_model::{AccountId, Command, Credit};

use super::setup::{AccountDef, CurrencyDef, InstrumentDef, Kind, SelfMatchDef, Setup};
use crate::failure::Failure;

pub struct Preset {
    pub name: &'static str,
    pub setup: Setup,
    /// Client ids and secrets that everybody knows: for a venue to play with.
    pub logins: Vec<(String, String)>,
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

/// Base, quote, tick, lot, start price.
const SPOT: [[&str; 5]; 10] = [
    ["NPN", "ZAR", "0.01", "1", "3250.00"],
    ["AGL", "ZAR", "0.01", "1", "510.00"],
    ["SOL", "ZAR", "0.01", "1", "118.00"],
    ["MTN", "ZAR", "0.01", "1", "96.00"],
    ["FSR", "ZAR", "0.01", "1", "72.00"],
    ["SBK", "ZAR", "0.01", "1", "215.00"],
    ["BHG", "ZAR", "0.01", "1", "480.00"],
    ["BTC", "USDC", "0.5", "0.0001", "60000.0"],
    ["ETH", "USDC", "0.05", "0.001", "3000.00"],
    ["AUC", "ZAR", "0.01", "1", "100.00"],
];

const HOUSE_ACCOUNTS: u32 = 12;

/// Whole coins of each holding of `demo-a` and `demo-b`.
const HOLDINGS: [(&str, &str); 4] = [("ZAR", "10000000"), ("USDC", "1000000"), ("BTC", "20"), ("ETH", "200")];
const SHARES_HELD: &str = "10000";

pub fn demo() -> Preset {
    let currencies =
        CURRENCIES.iter().map(|(name, decimals)| CurrencyDef { name: (*name).into(), decimals: *decimals });
    let logins = ["demo-a", "demo-b", "demo-operator"].map(|name| (name.to_owned(), format!("{name}-secret")));
    Preset {
        name: "demo",
        setup: Setup {
            currencies: currencies.collect(),
            instruments: instruments(),
            accounts: accounts(),
            limits: None,
        },
        logins: logins.into(),
    }
}

fn instruments() -> Vec<InstrumentDef> {
    let spot = SPOT.iter().map(|[base, quote, tick, lot, start]| InstrumentDef {
        name: format!("{base}_{quote}"),
        base: (*base).into(),
        quote: (*quote).into(),
        tick: (*tick).into(),
        lot: (*lot).into(),
        start_price: (*start).into(),
        ..InstrumentDef::default()
    });
    let perpetual = InstrumentDef {
        name: "BTC-PERPETUAL".into(),
        kind: Kind::InversePerpetual,
        base: "BTC".into(),
        quote: "USD".into(),
        index: Some("BTC_USDC".into()),
        tick: "0.5".into(),
        lot: "10".into(),
        start_price: "60000.0".into(),
        ..InstrumentDef::default()
    };
    spot.chain([perpetual]).collect()
}

fn accounts() -> Vec<AccountDef> {
    let member = |name: &str| AccountDef { name: name.into(), balances: endowment(), ..AccountDef::default() };
    let operator = AccountDef { name: "demo-operator".into(), operator: true, ..AccountDef::default() };
    let house = (1..=HOUSE_ACCOUNTS).map(|n| AccountDef {
        name: format!("house-{n:02}"),
        house: true,
        // The flow trades with itself all day.
        self_match: SelfMatchDef::None,
        ..AccountDef::default()
    });
    [member("demo-a"), member("demo-b"), operator].into_iter().chain(house).collect()
}

fn endowment() -> Vec<(String, String)> {
    let shares = CURRENCIES.iter().filter(|(_, decimals)| *decimals == 0).map(|(name, _)| (*name, SHARES_HELD));
    HOLDINGS.into_iter().chain(shares).map(|(name, amount)| (name.into(), amount.into())).collect()
}

impl Preset {
    /// The commands that a fresh venue begins with.
    pub fn commands(&self) -> Result<Vec<Command>, Failure> {
        self.setup.commands(&Engine::new())
    }
}

/// Accounts without bounds on their credit: the resident flow trades from them.
pub fn house_of(engine: &Engine) -> Vec<AccountId> {
    let unlimited = engine.accounts().iter().filter(|account| account.spec.credit == Credit::Unlimited);
    unlimited.map(|account| account.spec.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::{Event, Phase, Seq, Stamped, VenueNanos};

    #[test]
    fn a_fresh_engine_takes_every_command_of_the_demo_and_then_there_is_nothing_to_do() {
        let demo = demo();
        let mut engine = Engine::new();
        for (seq, command) in (1..).zip(demo.commands().unwrap()) {
            let mut events = Vec::new();
            engine.apply(&Stamped { seq: Seq(seq), at: VenueNanos(0), command: command.clone() }, &mut events);
            assert!(!events.iter().any(|event| matches!(event, Event::CommandRefused { .. })), "{command:?}");
        }
        assert_eq!(engine.markets().len(), 11);
        assert!(engine.markets().iter().all(|market| market.phase() == Phase::Continuous));
        let zar = engine.currency_named("ZAR").unwrap().id;
        assert_eq!(engine.available(AccountId(0), zar), 1_000_000_000, "ten million rand in cents");
        let shares = engine.currency_named("NPN").unwrap().id;
        assert_eq!(engine.available(AccountId(1), shares), 10_000);
        assert_eq!(house_of(&engine).len(), 12);
        assert_eq!(demo.setup.commands(&engine).unwrap(), []);
    }
}
