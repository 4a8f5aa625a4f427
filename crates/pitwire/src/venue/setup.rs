//! What a venue is set up with: currencies, instruments, accounts, by name, from a preset and a configuration file.
//!
//! Does        turn definitions into the commands that bring an engine to them, and say what cannot be brought there.
//! Holds       1. applying a setup twice is applying it once: the second time there is nothing to do;
//!             2. what a setup does not name stays as it is: operators' own instruments, accounts and changes.
//! Start at    [`Setup::commands`].

use std::path::Path;

use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, Phase, SelfMatch, Throttle, Ticks, TradingRules,
};
use serde::{Deserialize, Serialize};

use super::rules::RulesDef;
use super::schedule::{self, CalendarDef, Line, ScheduleDef, SegmentDef};
use pitwire_failure::Failure;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    #[serde(default, rename = "currency")]
    pub currencies: Vec<CurrencyDef>,
    #[serde(default, rename = "instrument")]
    pub instruments: Vec<InstrumentDef>,
    #[serde(default, rename = "account")]
    pub accounts: Vec<AccountDef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarDef>,
    #[serde(default, rename = "schedule", skip_serializing_if = "Vec::is_empty")]
    pub schedules: Vec<ScheduleDef>,
    #[serde(default, rename = "segment", skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<SegmentDef>,
    /// Where it was read from, for messages.
    #[serde(skip)]
    pub file: Option<String>,
    /// Of the process and not of the venue: never journaled, free to change at each start.
    #[serde(default, skip_serializing)]
    pub limits: Option<LimitsDef>,
}

/// `[limits]`: the presence of the table turns them on, with the dialect's figures where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsDef {
    pub connections_per_address: Option<u32>,
    /// Names besides loopback and the bound address under which clients reach the venue.
    #[serde(default)]
    pub hosts: Vec<String>,
    pub orders_per_second: Option<u32>,
    pub orders_burst: Option<u32>,
    pub requests_per_second: Option<u32>,
    pub requests_burst: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurrencyDef {
    pub name: String,
    pub decimals: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Spot,
    InversePerpetual,
}

/// Prices and sizes are texts, `"0.05"`: a binary fraction could not say them exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstrumentDef {
    pub name: String,
    #[serde(default)]
    pub kind: Kind,
    pub base: String,
    pub quote: String,
    /// Perpetuals: the spot instrument whose mid is the index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_leverage: Option<u32>,
    pub tick: String,
    pub lot: String,
    pub start_price: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_resting_orders: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_amount: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_notional: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collar_percent: Option<String>,
    /// Gives it the segment's schedule and rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<String>,
    /// In place of the segment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesDef>,
    #[serde(skip)]
    pub line: Line,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfMatchDef {
    #[default]
    CancelResting,
    CancelIncoming,
    CancelBoth,
    None,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountDef {
    pub name: String,
    /// A house account has no bounds on its credit, and the resident flow trades from it.
    #[serde(default)]
    pub house: bool,
    #[serde(default)]
    pub operator: bool,
    #[serde(default)]
    pub self_match: SelfMatchDef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_open_orders: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_executions: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_window_ms: Option<u64>,
    /// What it begins with, by currency.
    #[serde(default)]
    pub balances: Vec<(String, String)>,
}

const MAX_RESTING_ORDERS: u32 = 2_000_000;
const MAX_LEVERAGE: u32 = 50;

fn wrong(what: impl Into<String>) -> Failure {
    Failure::new(what).remedy("correct it in the configuration")
}

fn decimal(text: &str, of: &str) -> Result<Decimal, Failure> {
    Decimal::parse(text).map_err(|_| wrong(format!("{of}: {text:?} is no decimal number")))
}

/// Of which other numbers are multiples.
fn step(text: &str, of: &str) -> Result<Decimal, Failure> {
    let step = decimal(text, of)?;
    if step.mantissa > 0 { Ok(step) } else { Err(wrong(format!("{of}: {text} is not above zero"))) }
}

fn steps(text: &str, step: Decimal, of: &str) -> Result<i128, Failure> {
    decimal(text, of)?.in_steps_of(step).ok_or_else(|| wrong(format!("{of}: {text} is not a multiple of {step}")))
}

fn narrow<T: TryFrom<i128>>(value: i128, of: &str) -> Result<T, Failure> {
    T::try_from(value).map_err(|_| wrong(format!("{of}: {value} is out of range")))
}

impl Setup {
    /// Reads a configuration file; a mistake is told with its line and key.
    pub fn read(path: &Path) -> Result<Setup, Failure> {
        let failed = |what: String| {
            Failure::new(format!("cannot use the configuration {}: {what}", path.display()))
                .remedy("docs/configuration.md lists every key")
        };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let mut setup: Setup =
            toml::from_str(&text).map_err(|error| failed(error.to_string().trim_end().to_owned()))?;
        schedule::mark(&mut setup, &text);
        setup.file = Some(path.display().to_string());
        Ok(setup)
    }

    /// This with what another adds; an instrument or account of the same name is replaced.
    #[must_use]
    pub fn with(mut self, other: Setup) -> Setup {
        for currency in other.currencies {
            self.currencies.retain(|known| known.name != currency.name);
            self.currencies.push(currency);
        }
        for instrument in other.instruments {
            match self.instruments.iter_mut().find(|known| known.name == instrument.name) {
                Some(known) => *known = instrument,
                None => self.instruments.push(instrument),
            }
        }
        self.limits = other.limits.or(self.limits);
        self.calendar = other.calendar.or(self.calendar);
        self.file = other.file.or(self.file);
        for schedule in other.schedules {
            match self.schedules.iter_mut().find(|known| known.name == schedule.name && known.line.0 == 0) {
                Some(known) => *known = schedule,
                None => self.schedules.push(schedule),
            }
        }
        for segment in other.segments {
            match self.segments.iter_mut().find(|known| known.name == segment.name && known.line.0 == 0) {
                Some(known) => *known = segment,
                None => self.segments.push(segment),
            }
        }
        for account in other.accounts {
            match self.accounts.iter_mut().find(|known| known.name == account.name) {
                Some(known) => *known = account,
                None => self.accounts.push(account),
            }
        }
        self
    }

    /// What stands in the data directory about the setup applied last.
    pub fn canonical(&self) -> Result<String, Failure> {
        serde_json::to_string_pretty(self).map_err(|error| Failure::new(error.to_string()))
    }

    /// The commands that bring an engine to this setup, in an order in which they can be applied.
    pub fn commands(&self, engine: &Engine) -> Result<Vec<Command>, Failure> {
        let mut plan = Plan::of(engine);
        self.currencies.iter().try_for_each(|def| plan.currency(def, engine))?;
        self.instruments.iter().try_for_each(|def| plan.instrument(def, self, engine))?;
        self.accounts.iter().try_for_each(|def| plan.account(def, engine))?;
        // Nothing trades before everything is there.
        let opened = plan.opened.iter().map(|id| Command::SetPhase { instrument: *id, phase: Phase::Continuous });
        let opened: Vec<Command> = opened.collect();
        plan.commands.extend(opened);
        Ok(plan.commands)
    }
}

impl Setup {
    fn segment_of(&self, def: &InstrumentDef) -> Option<&SegmentDef> {
        self.segments.iter().find(|segment| Some(&segment.name) == def.segment.as_ref())
    }

    /// Whether a schedule leads it through its day.
    pub fn is_scheduled(&self, def: &InstrumentDef) -> bool {
        def.schedule.is_some() || self.segment_of(def).is_some_and(|segment| segment.schedule.is_some())
    }

    /// What is said of its rules; `None` when nothing is.
    fn rules_of(&self, def: &InstrumentDef, tick: Decimal, lot: Decimal) -> Result<Option<TradingRules>, Failure> {
        let of_segment = self.segment_of(def).map(|segment| segment.rules.clone().unwrap_or_default());
        let rules = match (of_segment, &def.rules) {
            (None, None) => return Ok(None),
            (Some(rules), None) => rules,
            (None, Some(own)) => own.clone(),
            (Some(rules), Some(own)) => rules.under(own),
        };
        let segment = def.segment.as_deref().unwrap_or_default();
        rules.compile(&format!("instrument {}", def.name), segment, tick, lot).map(Some)
    }

    /// What the calendar is made from, as one text: whether a directory was last opened with another.
    pub fn timing(&self) -> Result<String, Failure> {
        let followed = self.instruments.iter().filter(|def| self.is_scheduled(def));
        let followed: Vec<_> = followed.map(|def| (&def.name, &def.schedule, &def.segment)).collect();
        let segments: Vec<_> = self.segments.iter().map(|segment| (&segment.name, &segment.schedule)).collect();
        let whole = (&self.calendar, &self.schedules, segments, followed);
        serde_json::to_string(&whole).map_err(|error| Failure::new(error.to_string()))
    }
}

/// An engine's names and numbers as they will be once the commands so far have been applied.
struct Plan {
    currencies: Vec<Currency>,
    instruments: Vec<String>,
    accounts: usize,
    commands: Vec<Command>,
    opened: Vec<InstrumentId>,
}

fn dense(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl Plan {
    fn of(engine: &Engine) -> Plan {
        Plan {
            currencies: engine.currencies().to_vec(),
            instruments: engine.markets().iter().map(|market| market.spec.name.clone()).collect(),
            accounts: engine.accounts().len(),
            commands: Vec::new(),
            opened: Vec::new(),
        }
    }

    fn named(&self, name: &str, of: &str) -> Result<&Currency, Failure> {
        let found = self.currencies.iter().find(|currency| currency.name == name);
        found.ok_or_else(|| wrong(format!("{of}: no currency is named {name:?}")))
    }

    fn currency(&mut self, def: &CurrencyDef, engine: &Engine) -> Result<(), Failure> {
        match engine.currency_named(&def.name) {
            Some(held) if held.decimals == def.decimals => Ok(()),
            Some(held) => Err(fixed(&def.name, "decimals", &held.decimals.to_string())),
            None => {
                let id = CurrencyId(dense(self.currencies.len()));
                let currency = Currency { id, name: def.name.clone(), decimals: def.decimals };
                self.currencies.push(currency.clone());
                self.commands.push(Command::AddCurrency(currency));
                Ok(())
            }
        }
    }

    fn instrument(&mut self, def: &InstrumentDef, setup: &Setup, engine: &Engine) -> Result<(), Failure> {
        let held = engine.instrument_named(&def.name);
        let id = held.map_or(InstrumentId(dense(self.instruments.len())), |market| market.spec.id);
        let mut wanted = self.spec(def, id)?;
        wanted.rules = setup.rules_of(def, wanted.tick, wanted.lot)?.map(Box::new);
        let Some(held) = held else {
            self.instruments.push(def.name.clone());
            self.commands.push(Command::AddInstrument(Box::new(wanted)));
            // What goes by a schedule is opened by it.
            if !setup.is_scheduled(def) {
                self.opened.push(id);
            }
            return Ok(());
        };
        let rules = held.spec.rules.clone();
        if (InstrumentSpec { limits: held.spec.limits, rules, ..wanted.clone() }) != held.spec {
            let terms = "kind, currencies, tick, lot, start price, leverage and the cap on resting orders";
            return Err(fixed(&def.name, terms, "what it was made with"));
        }
        if wanted.limits != held.spec.limits {
            self.commands.push(Command::SetInstrumentLimits { instrument: id, limits: wanted.limits });
        }
        let rules = wanted.rules.unwrap_or_default();
        if *rules != held.spec.rules.as_deref().cloned().unwrap_or_default() {
            self.commands.push(Command::SetTradingRules { instrument: id, rules });
        }
        Ok(())
    }

    fn spec(&self, def: &InstrumentDef, id: InstrumentId) -> Result<InstrumentSpec, Failure> {
        let of = |key: &str| format!("instrument {}, {key}", def.name);
        let (tick, lot) = (step(&def.tick, &of("tick"))?, step(&def.lot, &of("lot"))?);
        let (base, quote) = (self.named(&def.base, &of("base"))?, self.named(&def.quote, &of("quote"))?);
        let (kind, money) = match def.kind {
            Kind::Spot => (InstrumentKind::Spot { base: base.id, quote: quote.id }, quote),
            Kind::InversePerpetual => {
                let index = def.index.as_deref().unwrap_or_default();
                let found = self.instruments.iter().position(|name| name == index);
                let index = found.ok_or_else(|| wrong(format!("{}: no instrument is named {index:?}", of("index"))))?;
                let kind = InstrumentKind::InversePerpetual {
                    base: base.id,
                    quote: quote.id,
                    index: InstrumentId(dense(index)),
                    max_leverage: def.max_leverage.unwrap_or(MAX_LEVERAGE),
                };
                (kind, base)
            }
        };
        let units = Decimal::new(1, money.decimals);
        let limit = |text: &Option<String>, step: Decimal, key: &str| {
            text.as_deref().map(|text| steps(text, step, &of(key))).transpose()
        };
        let max_lots = limit(&def.max_amount, lot, "max_amount")?;
        let collar = limit(&def.collar_percent, Decimal::new(1, 2), "collar_percent")?;
        Ok(InstrumentSpec {
            id,
            name: def.name.clone(),
            kind,
            tick,
            lot,
            start_price: Ticks(narrow(steps(&def.start_price, tick, &of("start_price"))?, &of("start_price"))?),
            max_resting_orders: def.max_resting_orders.unwrap_or(MAX_RESTING_ORDERS),
            limits: InstrumentLimits {
                max_lots: max_lots.map(|lots| narrow(lots, &of("max_amount")).map(Lots)).transpose()?,
                max_notional_units: limit(&def.max_notional, units, "max_notional")?,
                collar_bps: collar.map(|bps| narrow(bps, &of("collar_percent"))).transpose()?,
            },
            rules: None,
        })
    }

    fn account(&mut self, def: &AccountDef, engine: &Engine) -> Result<(), Failure> {
        let settings = settings(def)?;
        let credit = if def.house { Credit::Unlimited } else { Credit::Limited };
        if let Some(held) = engine.account_named(&def.name) {
            if held.spec.credit != credit {
                return Err(fixed(&def.name, "house", &(!def.house).to_string()));
            }
            if held.spec.settings != settings {
                self.commands.push(Command::SetAccount { account: held.spec.id, settings });
            }
            return Ok(());
        }
        let id = AccountId(dense(self.accounts));
        self.accounts += 1;
        self.commands.push(Command::AddAccount(AccountSpec { id, name: def.name.clone(), credit, settings }));
        for (currency, amount) in &def.balances {
            let of = format!("account {}, balances", def.name);
            let currency = self.named(currency, &of)?;
            let units = steps(amount, Decimal::new(1, currency.decimals), &of)?;
            self.commands.push(Command::Deposit { account: id, currency: currency.id, units });
        }
        Ok(())
    }
}

fn settings(def: &AccountDef) -> Result<AccountSettings, Failure> {
    let throttle = match (def.max_executions, def.execution_window_ms) {
        (None, None) => None,
        (Some(executions), Some(ms)) => Some(Throttle { executions, window_ns: ms.saturating_mul(1_000_000) }),
        _ => return Err(wrong(format!("account {}: max_executions and execution_window_ms go together", def.name))),
    };
    let self_match = match def.self_match {
        SelfMatchDef::CancelResting => SelfMatch::CancelResting,
        SelfMatchDef::CancelIncoming => SelfMatch::CancelIncoming,
        SelfMatchDef::CancelBoth => SelfMatch::CancelBoth,
        SelfMatchDef::None => SelfMatch::Allow,
    };
    Ok(AccountSettings { self_match, max_open_orders: def.max_open_orders, throttle })
}

/// What nobody can change once it is there.
fn fixed(name: &str, what: &str, held: &str) -> Failure {
    Failure::new(format!("{name} exists already, and its {what} cannot change: the venue holds {held}"))
        .remedy("take another name, or give another directory with --data")
}
