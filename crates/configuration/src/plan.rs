//! The commands that bring an engine to a setup.
//!
//! Does        compare a setup with an engine's state, and return the commands that are missing.
//! Holds       applying a setup twice equals applying it once: the second plan is empty.
//! Start at    [`setup_commands`].

use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Decimal, InstrumentId,
    InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, Phase, SelfMatch, Throttle, Ticks, TradingRules,
};

use crate::setup::{AccountDef, CurrencyDef, InstrumentDef, InstrumentKindName, SelfMatchDef, Setup};

const MAX_RESTING_ORDERS: u32 = 2_000_000;
const MAX_LEVERAGE: u32 = 50;

fn wrong(what: impl Into<String>) -> Failure {
    Failure::new(what).remedy("correct it in the configuration")
}

fn decimal(text: &str, of: &str) -> Result<Decimal, Failure> {
    Decimal::parse(text).map_err(|_| wrong(format!("{of}: {text:?} is no decimal number")))
}

/// Parses a tick or lot size. It must be above zero.
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

/// Returns the commands that bring an engine to a setup, in an order in which the engine accepts
/// them.
///
/// # Errors
///
/// Returns a failure if a definition is malformed, or if it changes something that cannot change
/// after creation.
pub fn setup_commands(setup: &Setup, engine: &Engine) -> Result<Vec<Command>, Failure> {
    let mut plan = SetupPlan::of(engine);
    setup.currencies.iter().try_for_each(|def| plan.currency(def, engine))?;
    setup.instruments.iter().try_for_each(|def| plan.instrument(def, setup, engine))?;
    setup.accounts.iter().try_for_each(|def| plan.account(def, engine))?;
    // Instruments open after all definitions are in place.
    let opened = plan.opened.iter().map(|id| Command::SetPhase { instrument: *id, phase: Phase::Continuous });
    let opened: Vec<Command> = opened.collect();
    plan.commands.extend(opened);
    Ok(plan.commands)
}

/// Returns the rules of an instrument, or `None` if neither it nor its segment has any.
fn rules_of(setup: &Setup, def: &InstrumentDef, tick: Decimal, lot: Decimal) -> Result<Option<TradingRules>, Failure> {
    let of_segment = setup.segment_of(def).map(|segment| segment.rules.clone().unwrap_or_default());
    let rules = match (of_segment, &def.rules) {
        (None, None) => return Ok(None),
        (Some(rules), None) => rules,
        (None, Some(own)) => own.clone(),
        (Some(rules), Some(own)) => rules.under(own),
    };
    let segment = def.segment.as_deref().unwrap_or_default();
    rules.compile(&format!("instrument {}", def.name), segment, tick, lot).map(Some)
}

/// The names and numbers of an engine after the planned commands.
struct SetupPlan {
    currencies: Vec<Currency>,
    instruments: Vec<String>,
    accounts: usize,
    commands: Vec<Command>,
    opened: Vec<InstrumentId>,
}

fn dense(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

impl SetupPlan {
    fn of(engine: &Engine) -> SetupPlan {
        SetupPlan {
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
        wanted.rules = rules_of(setup, def, wanted.tick, wanted.lot)?.map(Box::new);
        let Some(held) = held else {
            self.instruments.push(def.name.clone());
            self.commands.push(Command::AddInstrument(Box::new(wanted)));
            // An instrument with a schedule is opened by its schedule.
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
            InstrumentKindName::Spot => (InstrumentKind::Spot { base: base.id, quote: quote.id }, quote),
            InstrumentKindName::InversePerpetual => {
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

/// Returns the failure for a definition that cannot change after creation.
fn fixed(name: &str, what: &str, held: &str) -> Failure {
    Failure::new(format!("{name} exists already, and its {what} cannot change: the venue holds {held}"))
        .remedy("take another name, or give another directory with --data")
}
