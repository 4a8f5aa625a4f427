//! The presets `demo` and `crypto24x7`.

use pitwire_schedule::{ScheduleDef, SessionDef};

use crate::preset::definition::Preset;
use crate::setup::{AccountDef, CurrencyDef, InstrumentDef, InstrumentKindName, SelfMatchDef, Setup};

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

/// Returns the demo market: spot, one perpetual, and an instrument with repeated auctions.
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
        warm_up_s: 6 * 3600,
        logins: logins(),
    }
}

/// The demo's crypto instruments only.
pub(crate) fn crypto() -> Preset {
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

pub(crate) fn logins() -> Vec<(String, String)> {
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
        kind: InstrumentKindName::InversePerpetual,
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

pub(crate) fn accounts(endowment: Vec<(String, String)>) -> Vec<AccountDef> {
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
