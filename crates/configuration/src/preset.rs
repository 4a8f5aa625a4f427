//! Ready-made setups.

mod jse;

use clap::ValueEnum;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{AccountId, Command, Credit, VenueNanos};

use pitwire_schedule::{ScheduleDef, SessionDef, VenueCalendar};

use crate::plan::setup_commands;
use crate::setup::{AccountDef, CurrencyDef, InstrumentDef, Kind, SelfMatchDef, Setup};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PresetName {
    /// Eleven instruments with order flow; ten trade continuously, AUC_ZAR has an auction every three minutes
    Demo,
    /// A day of the Johannesburg exchange: every session, five segments
    Jse,
    /// Three instruments that trade continuously
    #[value(name = "crypto24x7")]
    Crypto,
}

impl PresetName {
    pub fn preset(self) -> Preset {
        match self {
            PresetName::Demo => demo(),
            PresetName::Jse => jse::jse(),
            PresetName::Crypto => crypto(),
        }
    }
}

pub struct Preset {
    pub name: &'static str,
    pub setup: Setup,
    /// Start of venue time, in seconds after midnight. `None` starts at the wall clock's time.
    pub starts: Option<u32>,
    /// Event rate of the order flow, in percent of its default.
    pub flow_percent: u32,
    /// Client ids and their public secrets, for a venue without real members.
    pub logins: Vec<(String, String)>,
}

/// Name and decimals. Shares have no decimals.
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

/// Initial holdings of `demo-a` and `demo-b`, in whole units.
const HOLDINGS: [(&str, &str); 4] = [("ZAR", "10000000"), ("USDC", "1000000"), ("BTC", "20"), ("ETH", "200")];
const SHARES_HELD: &str = "10000";

pub fn demo() -> Preset {
    let currencies =
        CURRENCIES.iter().map(|(name, decimals)| CurrencyDef { name: (*name).into(), decimals: *decimals });
    let cycle = SessionDef {
        session: "intraday_auction".into(),
        cron: Some("0 */3 * * * *".into()),
        lasts: Some("30s".into()),
        ..SessionDef::default()
    };
    Preset {
        name: "demo",
        setup: Setup {
            currencies: currencies.collect(),
            instruments: instruments(),
            accounts: accounts(endowment()),
            schedules: vec![ScheduleDef { name: "auctions".into(), sessions: vec![cycle], ..ScheduleDef::default() }],
            ..Setup::default()
        },
        starts: None,
        flow_percent: 100,
        logins: logins(),
    }
}

/// The demo's crypto instruments only.
fn crypto() -> Preset {
    let demo = demo();
    let coins = ["USDC", "USD", "BTC", "ETH"];
    let mut setup = demo.setup;
    setup.currencies.retain(|def| coins.contains(&def.name.as_str()));
    setup.instruments.retain(|def| coins.contains(&def.base.as_str()));
    for account in &mut setup.accounts {
        account.balances.retain(|(currency, _)| coins.contains(&currency.as_str()));
    }
    setup.schedules.clear();
    Preset { name: "crypto24x7", setup, ..demo }
}

fn logins() -> Vec<(String, String)> {
    ["demo-a", "demo-b", "demo-operator"].map(|name| (name.to_owned(), format!("{name}-secret"))).into()
}

fn instruments() -> Vec<InstrumentDef> {
    let spot = SPOT.iter().map(|[base, quote, tick, lot, start]| InstrumentDef {
        name: format!("{base}_{quote}"),
        base: (*base).into(),
        quote: (*quote).into(),
        tick: (*tick).into(),
        lot: (*lot).into(),
        start_price: (*start).into(),
        schedule: (*base == "AUC").then(|| "auctions".into()),
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

fn accounts(endowment: Vec<(String, String)>) -> Vec<AccountDef> {
    let member = |name: &str| AccountDef { name: name.into(), balances: endowment.clone(), ..AccountDef::default() };
    let operator = AccountDef { name: "demo-operator".into(), operator: true, ..AccountDef::default() };
    let house = (1..=HOUSE_ACCOUNTS).map(|n| AccountDef {
        name: format!("house-{n:02}"),
        house: true,
        // The order flow may trade with itself.
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
    /// Returns the start of venue time: the preset's time of day on the day of `wall` or on the
    /// next trading day. An unfinished day continues at `last_seen`.
    pub fn start(&self, calendar: &VenueCalendar, wall: VenueNanos, last_seen: VenueNanos) -> VenueNanos {
        match self.starts {
            Some(seconds) => calendar.starting(wall, last_seen, seconds),
            None => wall.max(last_seen),
        }
    }

    /// Returns the commands that a fresh venue begins with.
    ///
    /// # Errors
    ///
    /// Returns a failure if a definition is malformed.
    pub fn commands(&self) -> Result<Vec<Command>, Failure> {
        setup_commands(&self.setup, &Engine::new())
    }
}

/// Returns the accounts with unlimited credit, from which the resident flow trades.
pub fn house_accounts(engine: &Engine) -> Vec<AccountId> {
    let unlimited = engine.accounts().iter().filter(|account| account.spec.credit == Credit::Unlimited);
    unlimited.map(|account| account.spec.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pitwire_model::{Event, Phase, Seq, Stamped, VenueNanos};

    #[test]
    fn demo_setup_applies_once_and_then_is_complete() {
        let demo = demo();
        let mut engine = Engine::new();
        for (seq, command) in (1..).zip(demo.commands().unwrap()) {
            let mut events = Vec::new();
            engine.apply(&Stamped { seq: Seq(seq), at: VenueNanos(0), command: command.clone() }, &mut events);
            assert!(!events.iter().any(|event| matches!(event, Event::CommandRefused { .. })), "{command:?}");
        }
        assert_eq!(engine.markets().len(), 11);
        let closed: Vec<&str> = engine
            .markets()
            .iter()
            .filter(|market| market.phase() != Phase::Continuous)
            .map(|market| market.spec.name.as_str())
            .collect();
        assert_eq!(closed, ["AUC_ZAR"], "opened by its schedule");
        let zar = engine.currency_named("ZAR").unwrap().id;
        assert_eq!(engine.available(AccountId(0), zar), 1_000_000_000, "ten million rand in cents");
        let shares = engine.currency_named("NPN").unwrap().id;
        assert_eq!(engine.available(AccountId(1), shares), 10_000);
        assert_eq!(house_accounts(&engine).len(), 12);
        assert_eq!(setup_commands(&demo.setup, &engine).unwrap(), []);
    }
}
