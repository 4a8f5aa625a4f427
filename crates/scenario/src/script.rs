//! The format of a scenario file: initial market state, steps and expected outcome.
//!
//! Holds       every scenario that is accepted here can be turned into commands. The engine may
//!             still refuse them.
//! Start at    [`read`].

use pitwire_model::{Allocation, Phase, PostOnly, SelfMatch, Side};
use serde_json::Value;

use crate::calendar::{date_text, day_of, seconds_of};
use crate::expectation::check_expectation;
use crate::json::{Members, Node, ScenarioError, Source};
use crate::words::{TIFS, TYPES, session_named, sessions};

const OF_FILES: &str = "rulebook: 19";
const OF_SETUP: &str = "rulebook: 19, setup";
const OF_STEPS: &str = "rulebook: 19, steps";

#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    pub name: String,
    pub rule: Option<String>,
    pub setup: Setup,
    pub steps: Vec<Step>,
    /// Expected outcome as JSON. Keys that it omits are not compared.
    pub expect: Value,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    pub tick: i64,
    pub lot: i64,
    pub mrs: Option<u64>,
    pub improvement: i64,
    pub static_reference: Option<i64>,
    pub dynamic_reference: Option<i64>,
    pub last_price: Option<i64>,
    pub closing_price: Option<i64>,
    pub static_tolerance_pct: Option<u32>,
    pub dynamic_tolerance_pct: Option<u32>,
    pub price_band_pct: Option<u32>,
    /// Smallest display of an iceberg, in percent of its quantity.
    pub min_display_pct: u32,
    /// Sessions that remain today; a session that occurs twice is listed twice. `None` means each
    /// session once.
    pub remaining_sessions: Option<Vec<Phase>>,
    /// First trading day, in days since 1970.
    pub date: u32,
    pub self_match: SelfMatch,
    /// Accounts whose self-match prevention differs from `self_match`.
    pub accounts: Vec<AccountSetup>,
    /// How far from the reference price an order may reach. Must be below 100.
    pub collar_pct: Option<u32>,
    pub allocation: Allocation,
    /// Whether the instrument is a perpetual; otherwise it is a spot instrument.
    pub perpetual: bool,
    /// Accounts with limited credit and their initial funds. All other accounts have unlimited
    /// credit.
    pub funds: Vec<Funds>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSetup {
    pub account: String,
    pub self_match: SelfMatch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Funds {
    pub account: String,
    pub goods: i64,
    pub money: i64,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            tick: 1,
            lot: 1,
            mrs: None,
            improvement: 1,
            static_reference: None,
            dynamic_reference: None,
            last_price: None,
            closing_price: None,
            static_tolerance_pct: None,
            dynamic_tolerance_pct: None,
            price_band_pct: None,
            min_display_pct: 1,
            remaining_sessions: None,
            date: FIRST_DAY,
            self_match: SelfMatch::Allow,
            accounts: Vec::new(),
            collar_pct: None,
            allocation: Allocation::PriceTime,
            perpetual: false,
            funds: Vec::new(),
        }
    }
}

/// Default trading day: 2026-01-05, a Monday.
const FIRST_DAY: u32 = 20_458;

/// Last possible date: 2149-06-06 (rulebook 4, check 9).
const LAST_DAY: u32 = 65_535;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Session {
        to: Phase,
    },
    Enter(Box<Entry>),
    Amend(Box<Amendment>),
    Cancel {
        id: String,
    },
    Timer,
    /// Advances the clock to a time of day, in seconds since midnight.
    Clock {
        to: u32,
    },
    EndOfDay,
    /// Opens or closes the trade reporting hours.
    Reporting {
        open: bool,
    },
    Report(Box<Report>),
    Answer(ReportAnswer),
}

/// An off-book trade as one of its parties reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub id: String,
    pub by: String,
    pub with: String,
    /// Side of the reporting party.
    pub side: Side,
    pub qty: u64,
    pub price: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAnswer {
    pub id: String,
    pub by: String,
    pub confirm: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: String,
    pub side: Side,
    /// Order type in the spelling of the contract tables. Fields that the type requires are
    /// present; others have their defaults.
    pub kind: &'static str,
    pub qty: u64,
    pub price: i64,
    pub stop: i64,
    /// Minimum execution size of a hidden order, in lots. The default is the whole quantity.
    pub mes: u64,
    pub display: Option<u64>,
    pub tif: &'static str,
    pub expires: Option<Expires>,
    pub account: Option<String>,
    pub smp_key: Option<String>,
    pub post_only: PostOnly,
    pub reduce_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expires {
    /// Expiry time in seconds since midnight.
    Time(u32),
    /// Expiry date in days since 1970.
    Day(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amendment {
    pub id: String,
    pub qty: Option<u64>,
    pub price: Option<i64>,
    pub stop: Option<i64>,
    pub mes: Option<u64>,
    pub display: Option<u64>,
    pub expires: Option<Expires>,
    pub post_only: PostOnly,
    /// Whether the amend asks to change a field that cannot change.
    pub asks_the_fixed: bool,
}

/// Reads the scenarios of a file: one object, an array of objects, or several objects in sequence.
///
/// # Errors
///
/// Fails on text that is not JSON and on any key, word or value that the format does not allow.
pub fn read(name: &str, text: &str) -> Result<Vec<Scenario>, ScenarioError> {
    let values = Source { name, text }.values(OF_FILES)?;
    let nodes = match values.as_slice() {
        [one] if one.is_array() => one.items()?,
        [] => {
            let what = "no scenario in this file".to_owned();
            return Err(ScenarioError { file: name.to_owned(), line: 1, scenario: None, what, rule: OF_FILES });
        }
        _ => values,
    };
    nodes.into_iter().map(scenario).collect()
}

fn scenario(node: Node<'_>) -> Result<Scenario, ScenarioError> {
    const KEYS: [&str; 7] = ["name", "rule", "inferred", "note", "setup", "steps", "expect"];
    let members = node.members(&KEYS)?;
    let name = members.need("name")?.text()?;
    let of = |malformed: ScenarioError| ScenarioError { scenario: Some(name.clone()), ..malformed };
    let read = || {
        // `note` and `inferred` are comments for readers and are ignored.
        let setup = members.get("setup").map(setup).transpose()?.unwrap_or_default();
        let nodes = members.need("steps")?.under(OF_STEPS).items()?;
        let mut steps = Vec::with_capacity(nodes.len());
        let mut today = setup.date;
        for (at, node) in nodes.into_iter().enumerate() {
            let read = step(node).and_then(|step| {
                today += u32::from(step == Step::EndOfDay);
                let too_late = || node.fault(format!("no day comes after {}", date_text(LAST_DAY)));
                if today > LAST_DAY { Err(too_late()) } else { Ok(step) }
            });
            let placed = |malformed: ScenarioError| ScenarioError {
                what: format!("step {}: {}", at + 1, malformed.what),
                ..malformed
            };
            steps.push(read.map_err(placed)?);
        }
        let expect = match members.get("expect") {
            Some(node) => check_expectation(node, steps.len())?,
            None => Value::Object(serde_json::Map::new()),
        };
        let rule = members.get("rule").map(Node::text).transpose()?;
        Ok(Scenario { name: name.clone(), rule, setup, steps, expect })
    };
    read().map_err(of)
}

fn setup(node: Node<'_>) -> Result<Setup, ScenarioError> {
    const KEYS: [&str; 20] = [
        "tick",
        "lot",
        "mrs",
        "improvement",
        "static_reference",
        "dynamic_reference",
        "last_price",
        "closing_price",
        "static_tolerance_pct",
        "dynamic_tolerance_pct",
        "price_band_pct",
        "min_display_pct",
        "remaining_sessions",
        "date",
        "smp",
        "accounts",
        "collar_pct",
        "allocation",
        "perpetual",
        "funds",
    ];
    let members = node.under(OF_SETUP).members(&KEYS)?;
    let price = |key: &str| members.get(key).map(|node| tick_price(node)).transpose();
    let percent = |key: &str| members.get(key).map(percentage).transpose();
    let absent = Setup::default();
    Ok(Setup {
        tick: members.get("tick").map(|node| node.number(1)).transpose()?.unwrap_or(absent.tick),
        lot: members.get("lot").map(|node| node.number(1)).transpose()?.unwrap_or(absent.lot),
        mrs: members.get("mrs").map(quantity).transpose()?,
        improvement: price("improvement")?.unwrap_or(absent.improvement),
        static_reference: price("static_reference")?,
        dynamic_reference: price("dynamic_reference")?,
        last_price: price("last_price")?,
        closing_price: price("closing_price")?,
        static_tolerance_pct: percent("static_tolerance_pct")?,
        dynamic_tolerance_pct: percent("dynamic_tolerance_pct")?,
        price_band_pct: percent("price_band_pct")?,
        min_display_pct: members
            .get("min_display_pct")
            .map(display_share)
            .transpose()?
            .unwrap_or(absent.min_display_pct),
        remaining_sessions: members.get("remaining_sessions").map(remaining_sessions).transpose()?,
        date: members.get("date").map(date).transpose()?.unwrap_or(absent.date),
        self_match: members.get("smp").map(self_match).transpose()?.unwrap_or(absent.self_match),
        accounts: members.get("accounts").map(accounts).transpose()?.unwrap_or_default(),
        collar_pct: members.get("collar_pct").map(collar).transpose()?,
        allocation: members.get("allocation").map(allocation).transpose()?.unwrap_or(absent.allocation),
        perpetual: members.get("perpetual").map(Node::truth).transpose()?.unwrap_or(absent.perpetual),
        funds: members.get("funds").map(funds).transpose()?.unwrap_or_default(),
    })
}

/// Parses a reference price: at least 1 and at most `u32::MAX` ticks.
fn tick_price(node: Node<'_>) -> Result<i64, ScenarioError> {
    let price = node.number(1)?;
    match price <= i64::from(u32::MAX) {
        true => Ok(price),
        false => Err(node.fault(format!("{price} is above the highest price there is, {}", u32::MAX))),
    }
}

fn funds(node: Node<'_>) -> Result<Vec<Funds>, ScenarioError> {
    let mut all: Vec<Funds> = Vec::new();
    for node in node.items()? {
        let members = node.members(&["account", "goods", "money"])?;
        let account = name_or_number(members.need("account")?)?;
        if all.iter().any(|other| other.account == account) {
            return Err(node.fault(format!("the funds of {account:?} a second time")));
        }
        let units = |key: &str| members.get(key).map(|node| node.number(0)).transpose();
        all.push(Funds { account, goods: units("goods")?.unwrap_or(0), money: units("money")?.unwrap_or(0) });
    }
    Ok(all)
}

fn accounts(node: Node<'_>) -> Result<Vec<AccountSetup>, ScenarioError> {
    let mut all: Vec<AccountSetup> = Vec::new();
    for node in node.items()? {
        let members = node.members(&["account", "smp"])?;
        let account = name_or_number(members.need("account")?)?;
        if all.iter().any(|other| other.account == account) {
            return Err(node.fault(format!("the account {account:?} a second time")));
        }
        all.push(AccountSetup { account, self_match: self_match(members.need("smp")?)? });
    }
    Ok(all)
}

/// Parses the width of the collar in percent. A collar of 100 % would not bound a sale.
fn collar(node: Node<'_>) -> Result<u32, ScenarioError> {
    u32::try_from(node.number(0)?)
        .ok()
        .filter(|percent| *percent < 100)
        .ok_or_else(|| node.fault(format!("{} where a percentage below 100 belongs", node.shortened())))
}

fn display_share(node: Node<'_>) -> Result<u32, ScenarioError> {
    u32::try_from(node.number(1)?)
        .ok()
        .filter(|percent| *percent <= 100)
        .ok_or_else(|| node.fault(format!("{} where a percentage from 1 to 100 belongs", node.shortened())))
}

fn post_only(node: Node<'_>) -> Result<PostOnly, ScenarioError> {
    choice(node, "post_only", &[("reject", PostOnly::Reject), ("reprice", PostOnly::Reprice)])
}

fn percentage(node: Node<'_>) -> Result<u32, ScenarioError> {
    const MOST: u32 = 10_000;
    u32::try_from(node.number(0)?)
        .ok()
        .filter(|percent| *percent <= MOST)
        .ok_or_else(|| node.fault(format!("{} where a percentage up to {MOST} belongs", node.shortened())))
}

fn quantity(node: Node<'_>) -> Result<u64, ScenarioError> {
    node.number(0).map(i64::cast_unsigned)
}

fn remaining_sessions(node: Node<'_>) -> Result<Vec<Phase>, ScenarioError> {
    const MOST: usize = 255;
    let sessions = node.items()?.into_iter().map(session).collect::<Result<Vec<_>, _>>()?;
    match sessions.len() <= MOST {
        true => Ok(sessions),
        false => Err(node.fault(format!("more than {MOST} sessions in one day"))),
    }
}

fn date(node: Node<'_>) -> Result<u32, ScenarioError> {
    let text = node.text()?;
    let day = day_of(&text).ok_or_else(|| node.fault(format!("{text:?} is no date; write it as 2026-01-05")))?;
    match day <= LAST_DAY {
        true => Ok(day),
        false => Err(node.fault(format!("{text} is after {}, the last date there is", date_text(LAST_DAY)))),
    }
}

fn clock(node: Node<'_>) -> Result<u32, ScenarioError> {
    let text = node.text()?;
    seconds_of(&text).ok_or_else(|| node.fault(format!("{text:?} is no time of day; write it as 09:00:00")))
}

fn session(node: Node<'_>) -> Result<Phase, ScenarioError> {
    let word = node.text()?;
    session_named(&word).ok_or_else(|| {
        let names: Vec<&str> = sessions().map(Phase::name).collect();
        node.fault(format!("unknown session {word:?}; one of {}", names.join(", ")))
    })
}

fn self_match(node: Node<'_>) -> Result<SelfMatch, ScenarioError> {
    choice(node, "smp", &SelfMatch::ALL.map(|mode| (mode.name(), mode)))
}

fn allocation(node: Node<'_>) -> Result<Allocation, ScenarioError> {
    const RULES: [(&str, Allocation); 3] = [
        ("price_time", Allocation::PriceTime),
        ("pro_rata", Allocation::ProRata),
        ("frequent_batch", Allocation::FrequentBatch),
    ];
    choice(node, "allocation", &RULES)
}

fn choice<T: Copy>(node: Node<'_>, what: &str, choices: &[(&str, T)]) -> Result<T, ScenarioError> {
    let word = node.text()?;
    choices.iter().find(|(name, _)| *name == word).map(|(_, chosen)| *chosen).ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        node.fault(format!("unknown {what} {word:?}; one of {}", names.join(", ")))
    })
}

fn word_of(node: Node<'_>, what: &str, words: &[&'static str]) -> Result<&'static str, ScenarioError> {
    let choices: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
    choice(node, what, &choices)
}

const SIDES: [(&str, Side); 2] = [("buy", Side::Buy), ("sell", Side::Sell)];

/// Keys that occur only in steps other than entries and amends.
const OTHER_KEYS: [&str; 5] = ["to", "open", "by", "with", "confirm"];

/// Keys of an entry or an amend.
const ORDER_KEYS: [&str; 15] = [
    "post_only",
    "reduce_only",
    "op",
    "id",
    "side",
    "type",
    "qty",
    "price",
    "stop",
    "mes",
    "display",
    "tif",
    "expires",
    "account",
    "smp_key",
];

fn step(node: Node<'_>) -> Result<Step, ScenarioError> {
    const OPS: [&str; 10] =
        ["session", "enter", "amend", "cancel", "timer", "clock", "end_of_day", "reporting", "report", "answer"];
    // The reader of each operation then checks the keys of that operation.
    let keys = [&ORDER_KEYS[..], &OTHER_KEYS].concat();
    let op = word_of(node.members(&keys)?.need("op")?, "op", &OPS)?;
    match op {
        "session" => Ok(Step::Session { to: session(node.members(&["op", "to"])?.need("to")?)? }),
        "enter" => entry(node, &node.members(&ORDER_KEYS)?).map(|entry| Step::Enter(Box::new(entry))),
        "amend" => amendment(&node.members(&ORDER_KEYS)?).map(|amendment| Step::Amend(Box::new(amendment))),
        "cancel" => Ok(Step::Cancel { id: id(&node.members(&["op", "id"])?)? }),
        "clock" => Ok(Step::Clock { to: clock(node.members(&["op", "to"])?.need("to")?)? }),
        "reporting" => Ok(Step::Reporting { open: node.members(&["op", "open"])?.need("open")?.truth()? }),
        "report" => {
            let members = node.members(&["op", "id", "by", "with", "side", "qty", "price"])?;
            report(&members).map(|report| Step::Report(Box::new(report)))
        }
        "answer" => {
            let members = node.members(&["op", "id", "by", "confirm"])?;
            let (id, by) = (id(&members)?, name_or_number(members.need("by")?)?);
            Ok(Step::Answer(ReportAnswer { id, by, confirm: members.need("confirm")?.truth()? }))
        }
        "timer" => node.members(&["op"]).map(|_| Step::Timer),
        _ => node.members(&["op"]).map(|_| Step::EndOfDay),
    }
}

fn id(members: &Members<'_>) -> Result<String, ScenarioError> {
    let node = members.need("id")?;
    let id = node.text()?;
    match id.is_empty() {
        true => Err(node.fault("an empty id")),
        false => Ok(id),
    }
}

fn report(members: &Members<'_>) -> Result<Report, ScenarioError> {
    Ok(Report {
        id: id(members)?,
        by: name_or_number(members.need("by")?)?,
        with: name_or_number(members.need("with")?)?,
        side: choice(members.need("side")?, "side", &SIDES)?,
        qty: quantity(members.need("qty")?)?,
        price: members.need("price")?.number(i64::MIN)?,
    })
}

fn entry(node: Node<'_>, members: &Members<'_>) -> Result<Entry, ScenarioError> {
    let kind = word_of(members.need("type")?, "type", &TYPES)?;
    let tif = members.get("tif").map(time_in_force).transpose()?.unwrap_or("day");
    let priced = ["limit", "hidden", "stop_limit", "iceberg"].contains(&kind);
    let dated = ["gtd", "gtt"].contains(&tif);
    for (key, belongs, owner) in [
        ("price", priced, kind),
        ("stop", ["stop", "stop_limit"].contains(&kind), kind),
        ("display", kind == "iceberg", kind),
        ("expires", dated, tif),
    ] {
        match (members.get(key), belongs) {
            (Some(stray), false) => return Err(stray.fault(format!("{key:?} on a {owner} order, which has none"))),
            (None, true) => return Err(node.fault(format!("a {owner} order without {key:?}"))),
            _ => {}
        }
    }
    if let Some(stray) = members.get("mes").filter(|_| kind != "hidden") {
        return Err(stray.fault(format!("\"mes\" on a {kind} order, which has none")));
    }
    let qty = quantity(members.need("qty")?)?;
    let number = |key: &str| members.get(key).map(|node| node.number(i64::MIN)).transpose();
    Ok(Entry {
        id: id(members)?,
        side: choice(members.need("side")?, "side", &SIDES)?,
        kind,
        qty,
        price: number("price")?.unwrap_or(0),
        stop: number("stop")?.unwrap_or(0),
        mes: members.get("mes").map(quantity).transpose()?.unwrap_or(qty),
        display: members.get("display").map(quantity).transpose()?,
        tif,
        expires: members.get("expires").map(|node| expires(node, tif)).transpose()?,
        account: members.get("account").map(name_or_number).transpose()?,
        smp_key: members.get("smp_key").map(name_or_number).transpose()?,
        post_only: members.get("post_only").map(post_only).transpose()?.unwrap_or_default(),
        reduce_only: members.get("reduce_only").map(Node::truth).transpose()?.unwrap_or_default(),
    })
}

fn time_in_force(node: Node<'_>) -> Result<&'static str, ScenarioError> {
    let word = node.text()?.to_ascii_lowercase();
    TIFS.into_iter()
        .find(|tif| *tif == word)
        .ok_or_else(|| node.fault(format!("unknown tif {word:?}; one of {}", TIFS.join(", "))))
}

fn expires(node: Node<'_>, tif: &str) -> Result<Expires, ScenarioError> {
    match tif {
        "gtt" => clock(node).map(Expires::Time),
        _ => date(node).map(Expires::Day),
    }
}

/// Parses an account name or a self-match key, which may be written as text or as a number.
fn name_or_number(node: Node<'_>) -> Result<String, ScenarioError> {
    node.text().or_else(|_| node.number(0).map(|number| number.to_string()))
}

fn amendment(members: &Members<'_>) -> Result<Amendment, ScenarioError> {
    let whole = |key: &str| members.get(key).map(quantity).transpose();
    let number = |key: &str| members.get(key).map(|node| node.number(i64::MIN)).transpose();
    let expires = |node: Node<'_>| match clock(node) {
        Ok(time) => Ok(Expires::Time(time)),
        Err(_) => date(node).map(Expires::Day),
    };
    Ok(Amendment {
        id: id(members)?,
        qty: whole("qty")?,
        price: number("price")?,
        stop: number("stop")?,
        mes: whole("mes")?,
        display: whole("display")?,
        expires: members.get("expires").map(expires).transpose()?,
        post_only: members.get("post_only").map(post_only).transpose()?.unwrap_or_default(),
        asks_the_fixed: ["side", "type", "tif", "account", "smp_key", "reduce_only"].iter().any(|key| members.has(key)),
    })
}
