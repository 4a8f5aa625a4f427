//! `pitwire operator`: running a venue from the command line, over its API.

mod show;

use clap::{Args, Subcommand, ValueEnum};
use pitwire_client::{Error, Number};
use serde_json::{Map, Value, json};

use super::reach::{Reach, watch};
use crate::output::say;
use pitwire_failure::Failure;

const EXAMPLES: &str = "Examples:
  export PITWIRE_CLIENT_ID=demo-operator PITWIRE_CLIENT_SECRET=demo-operator-secret
  pitwire operator status
  pitwire operator halt NPN_ZAR                      or all of a segment: halt --segment ZA01
  pitwire operator reopen NPN_ZAR --seconds 120      a call, then on by the schedule
  pitwire operator kill account demo-a --reason 'runaway strategy'
  pitwire operator lift account demo-a
  pitwire operator create-account carol              prints her secret, once
  pitwire operator watch                             the drop copy of every account

Credentials as for `pitwire trade`; they must have the operator scope.";

/// Run a venue: instruments, accounts, flow, halts, kills, busts, drop copy.
#[derive(Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = false)]
pub struct Operator {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Epoch, venue time, newest command, flow, kills.
    #[command(after_help = "Examples:\n  pitwire operator status\n  pitwire operator status --json")]
    Status,
    /// All accounts with their limits.
    #[command(after_help = "Example:\n  pitwire operator accounts")]
    Accounts,
    /// Live orders with owners and sessions.
    #[command(after_help = "Examples:\n  pitwire operator orders\n  pitwire operator orders demo-a --count 10")]
    Orders {
        /// Of this account only.
        name: Option<String>,
        /// The oldest so many.
        #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
    },
    /// Stop entries and matching; resting orders stay, cancels are taken.
    #[command(after_help = "Examples:\n  pitwire operator halt NPN_ZAR\n  pitwire operator halt --segment ZA01")]
    Halt(Target),
    /// The same, and a closing price is set.
    #[command(after_help = "Example:\n  pitwire operator halt-and-close NPN_ZAR")]
    HaltAndClose(Target),
    /// Take orders, but execute nothing.
    #[command(after_help = "Examples:\n  pitwire operator pause NPN_ZAR\n  pitwire operator pause --segment ZA01")]
    Pause(Target),
    /// Go on with the session that the schedule says is current.
    #[command(after_help = "Example:\n  pitwire operator resume NPN_ZAR")]
    Resume(Target),
    /// After a halt or a pause: a call first.
    #[command(after_help = "Example:\n  pitwire operator reopen NPN_ZAR --seconds 120")]
    Reopen {
        #[command(flatten)]
        target: Target,
        /// Ends by itself after so many seconds; else `resume` ends it.
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Interrupt continuous trading by a call, as a breach would.
    #[command(after_help = "Example:\n  pitwire operator volatility-call NPN_ZAR")]
    VolatilityCall(Target),
    /// A later end for the call that runs.
    #[command(after_help = "Example:\n  pitwire operator extend NPN_ZAR --seconds 60")]
    Extend {
        #[command(flatten)]
        target: Target,
        /// From now.
        #[arg(long)]
        seconds: u64,
    },
    /// Set the day's closing price by hand, until the closing price cross begins.
    #[command(after_help = "Example:\n  pitwire operator closing-price NPN_ZAR 3201.50")]
    ClosingPrice {
        instrument: String,
        /// In the instrument's quote currency, on its tick.
        price: Number,
    },
    CreateInstrument(Instrument),
    /// Change an instrument's limits; 0 takes one away.
    #[command(
        after_help = "Examples:\n  pitwire operator change-instrument NPN_ZAR --collar 5 --max-amount 10000\n  pitwire operator change-instrument NPN_ZAR --collar 0"
    )]
    ChangeInstrument {
        instrument: String,
        #[command(flatten)]
        limits: Limits,
    },
    /// Cancel what rests and end trading for good.
    #[command(after_help = "Example:\n  pitwire operator delete-instrument XYZ_ZAR")]
    DeleteInstrument {
        instrument: String,
    },
    /// A member's account, with credentials that are shown this once.
    #[command(after_help = "Example:\n  pitwire operator create-account carol")]
    CreateAccount {
        name: String,
    },
    /// Further credentials for an account.
    #[command(after_help = "Example:\n  pitwire operator create-credential carol")]
    CreateCredential {
        name: String,
    },
    ChangeAccount(Account),
    /// Cancel its orders and take no more of them, for good.
    #[command(after_help = "Example:\n  pitwire operator delete-account carol")]
    DeleteAccount {
        name: String,
    },
    /// Add to a balance, or take away with a negative amount.
    #[command(
        after_help = "Examples:\n  pitwire operator deposit carol ZAR 1000000\n  pitwire operator deposit carol ZAR -250.50"
    )]
    Deposit {
        name: String,
        currency: String,
        #[arg(allow_hyphen_values = true)]
        amount: String,
    },
    /// How far below zero an account's free balance may fall.
    #[command(after_help = "Example:\n  pitwire operator credit-line carol ZAR 50000")]
    CreditLine {
        name: String,
        currency: String,
        /// 0 for none.
        amount: String,
    },
    /// Start, stop, scale or ask after the resident order flow.
    #[command(
        after_help = "Examples:\n  pitwire operator flow\n  pitwire operator flow start --rate 200\n  pitwire operator flow stop"
    )]
    Flow {
        #[arg(value_enum, default_value = "status")]
        action: FlowAction,
        /// Events per second, in percent of the flow's own.
        #[arg(long, value_name = "PERCENT")]
        rate: Option<u32>,
    },
    /// Cancel everything in a scope and take nothing new from it until it is lifted.
    #[command(
        after_help = "Examples:\n  pitwire operator kill account demo-a --reason 'runaway strategy'\n  pitwire operator kill order 1234 --reason 'asked by phone'\n  pitwire operator kill venue --reason drill"
    )]
    Kill {
        #[command(flatten)]
        scope: Scope,
        /// For the log.
        #[arg(long)]
        reason: String,
    },
    /// Take a kill, or an account's tripped throttle, back.
    #[command(after_help = "Examples:\n  pitwire operator lift account demo-a\n  pitwire operator lift venue")]
    Lift {
        #[command(flatten)]
        scope: Scope,
    },
    /// Take a trade back: goods, cash and positions return, orders do not.
    #[command(after_help = "Example:\n  pitwire operator bust 1000000000042 --reason 'wrong price'")]
    Bust {
        /// As the trade's own lists and channels have it.
        trade_id: String,
        /// For the log.
        #[arg(long)]
        reason: String,
    },
    /// Print the drop copy, one line of JSON each, until stopped.
    #[command(after_help = "Examples:\n  pitwire operator watch\n  pitwire operator watch demo-a --count 10")]
    Watch {
        /// Of this account only.
        name: Option<String>,
        /// Stop after so many.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Move the time of a venue with --clock manual.
    #[command(after_help = "Example:\n  pitwire operator advance 1000000000")]
    Advance {
        /// Nanoseconds.
        ns: u64,
    },
}

/// One instrument, or all of a segment in order of number.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Target {
    instrument: Option<String>,
    /// All instruments of this segment.
    #[arg(long, value_name = "NAME")]
    segment: Option<String>,
}

impl Target {
    fn params(&self) -> Value {
        given(vec![
            ("instrument_name", self.instrument.as_deref().map(Value::from)),
            ("segment", self.segment.as_deref().map(Value::from)),
        ])
    }
}

/// A new spot instrument, open for trading.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pitwire operator create-instrument XYZ ZAR --tick 0.01 --lot 1 --start 12.50 --collar 10"
)]
struct Instrument {
    /// What is traded; a currency that nobody has yet is made with it.
    base: String,
    /// What it is paid in.
    quote: String,
    /// BASE_QUOTE when left out.
    #[arg(long)]
    name: Option<String>,
    /// The least step of a price.
    #[arg(long)]
    tick: Number,
    /// The least step of an amount.
    #[arg(long)]
    lot: Number,
    /// Where trading starts.
    #[arg(long)]
    start: Number,
    #[command(flatten)]
    limits: Limits,
}

#[derive(Args)]
struct Limits {
    /// Most that one order may carry.
    #[arg(long, value_name = "NUMBER", value_parser = limit)]
    max_amount: Option<String>,
    /// Most that one order may be worth.
    #[arg(long, value_name = "NUMBER", value_parser = limit)]
    max_notional: Option<String>,
    /// How far a price may lie on the bad side of the reference.
    #[arg(long, value_name = "PERCENT", value_parser = limit)]
    collar: Option<String>,
}

/// A positive number as it is written, or 0 for none.
fn limit(text: &str) -> Result<String, String> {
    match text.parse::<Number>() {
        _ if text == "0" => Ok(text.to_owned()),
        Ok(number) => Ok(number.as_str().to_owned()),
        Err(wrong) => Err(format!("{wrong}, or 0 for no limit")),
    }
}

/// Change an account's settings; 0 takes a limit away.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pitwire operator change-account demo-a --max-executions 100 --execution-window-ms 1000"
)]
struct Account {
    name: String,
    /// Orders that may rest at a time.
    #[arg(long)]
    max_open_orders: Option<u32>,
    /// Fills that one window allows before the account is stopped.
    #[arg(long)]
    max_executions: Option<u32>,
    /// That window's length.
    #[arg(long)]
    execution_window_ms: Option<u64>,
    /// What becomes of two orders of this account that would meet.
    #[arg(long, value_enum)]
    self_match: Option<SelfMatch>,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum SelfMatch {
    CancelResting,
    CancelIncoming,
    CancelBoth,
    None,
}

#[derive(Clone, Copy, ValueEnum)]
enum FlowAction {
    Start,
    Stop,
    Status,
}

#[derive(Args)]
struct Scope {
    #[arg(value_enum)]
    scope: ScopeName,
    /// The account's name, the session's number or the order's id.
    #[arg(required_if_eq_any([("scope", "account"), ("scope", "session"), ("scope", "order")]))]
    target: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScopeName {
    Venue,
    Account,
    Session,
    Order,
}

impl Scope {
    fn params(&self) -> Result<Value, Failure> {
        let target = self.target.as_deref().unwrap_or_default();
        Ok(match self.scope {
            // Whoever names somebody does not mean everybody.
            ScopeName::Venue if self.target.is_some() => {
                return Err(Failure::usage(format!("venue means all of it, and {target:?} is named besides")).remedy(
                    format!("say `account {target}`, `session {target}` or `order {target}`, or `venue` alone"),
                ));
            }
            ScopeName::Venue => json!({"scope": "venue"}),
            ScopeName::Account => json!({"scope": "account", "name": target}),
            ScopeName::Session => json!({"scope": "session", "session": target}),
            ScopeName::Order => json!({"scope": "order", "order_id": target}),
        })
    }
}

/// Leaves out what was not given.
fn given(pairs: Vec<(&str, Option<Value>)>) -> Value {
    Value::Object(pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect::<Map<_, _>>())
}

/// A number goes as its text: the venue reads it exactly, and no float comes near it.
fn text(number: Option<&Number>) -> Option<Value> {
    number.map(|number| Value::from(number.as_str()))
}

fn with(mut params: Value, key: &str, value: impl Into<Value>) -> Value {
    params[key] = value.into();
    params
}

fn word(value: impl ValueEnum) -> Option<Value> {
    value.to_possible_value().map(|value| Value::from(value.get_name()))
}

impl Limits {
    fn params(&self) -> Value {
        given(vec![
            ("max_amount", self.max_amount.as_deref().map(Value::from)),
            ("max_notional", self.max_notional.as_deref().map(Value::from)),
            ("collar_percent", self.collar.as_deref().map(Value::from)),
        ])
    }
}

impl Instrument {
    fn params(&self) -> Value {
        let mut params = given(vec![
            ("base_currency", Some(self.base.as_str().into())),
            ("quote_currency", Some(self.quote.as_str().into())),
            ("instrument_name", self.name.as_deref().map(Value::from)),
            ("tick_size", text(Some(&self.tick))),
            ("lot_size", text(Some(&self.lot))),
            ("start_price", text(Some(&self.start))),
        ]);
        if let (Value::Object(all), Value::Object(limits)) = (&mut params, self.limits.params()) {
            all.extend(limits);
        }
        params
    }
}

impl Account {
    fn params(&self) -> Value {
        given(vec![
            ("name", Some(self.name.as_str().into())),
            ("max_open_orders", self.max_open_orders.map(Value::from)),
            ("max_executions", self.max_executions.map(Value::from)),
            ("execution_window_ms", self.execution_window_ms.map(Value::from)),
            ("self_match", self.self_match.and_then(word)),
        ])
    }
}

impl Verb {
    /// The method, without `private/pitwire_`, and its parameters.
    fn request(&self) -> Result<(&'static str, Value), Failure> {
        let instrument = |name: &str| json!({"instrument_name": name});
        let account = |name: &str| json!({"name": name});
        let money =
            |name: &str, currency: &str, amount: &str| json!({"name": name, "currency": currency, "amount": amount});
        Ok(match self {
            Verb::Status => ("status", json!({})),
            Verb::Accounts => ("get_accounts", json!({})),
            Verb::Orders { name, count } => (
                "get_orders",
                given(vec![("name", name.as_deref().map(Value::from)), ("count", Some((*count).into()))]),
            ),
            Verb::Halt(target) => ("halt", target.params()),
            Verb::HaltAndClose(target) => ("halt_and_close", target.params()),
            Verb::Pause(target) => ("pause", target.params()),
            Verb::Resume(target) => ("resume", target.params()),
            Verb::Reopen { target, seconds: None } => ("reopen", target.params()),
            Verb::Reopen { target, seconds: Some(seconds) } => ("reopen", with(target.params(), "seconds", *seconds)),
            Verb::VolatilityCall(target) => ("volatility_call", target.params()),
            Verb::Extend { target, seconds } => ("extend", with(target.params(), "seconds", *seconds)),
            Verb::ClosingPrice { instrument: name, price } => {
                ("closing_price", with(instrument(name), "price", price.as_str()))
            }
            Verb::CreateInstrument(definition) => ("create_instrument", definition.params()),
            Verb::ChangeInstrument { instrument: name, limits } => {
                ("change_instrument", with(limits.params(), "instrument_name", name.as_str()))
            }
            Verb::DeleteInstrument { instrument: name } => ("delete_instrument", instrument(name)),
            Verb::CreateAccount { name } => ("create_account", account(name)),
            Verb::CreateCredential { name } => ("create_credential", account(name)),
            Verb::ChangeAccount(settings) => ("change_account", settings.params()),
            Verb::DeleteAccount { name } => ("delete_account", account(name)),
            Verb::Deposit { name, currency, amount } => ("deposit", money(name, currency, amount)),
            Verb::CreditLine { name, currency, amount } => ("set_credit_line", money(name, currency, amount)),
            Verb::Flow { action, rate } => {
                ("flow", given(vec![("action", word(*action)), ("rate_percent", rate.map(Value::from))]))
            }
            Verb::Kill { scope, reason } => ("kill", with(scope.params()?, "reason", reason.as_str())),
            Verb::Lift { scope } => ("lift", scope.params()?),
            Verb::Bust { trade_id, reason } => ("bust", json!({"trade_id": trade_id, "reason": reason})),
            Verb::Advance { ns } => ("advance", json!({"ns": ns})),
            // A channel, not a method: see `Operator::watch`.
            Verb::Watch { .. } => ("status", json!({})),
        })
    }
}

impl Operator {
    pub fn run(self) -> Result<(), Failure> {
        // Before anybody is asked: what is wrong with the command line is said without a venue.
        let (method, params) = self.verb.request()?;
        let mut connection = self.reach.open(true)?;
        if let Verb::Watch { name, count } = &self.verb {
            let channel = format!("drop_copy.{}", name.as_deref().unwrap_or("any"));
            return watch(&mut connection, &[channel], *count);
        }
        let result = connection.call(&format!("private/pitwire_{method}"), &params)?;
        connection.close();
        if self.reach.json {
            say(result.get());
            return Ok(());
        }
        let shown = show::table(result.get()).map_err(|error| Error::Garbled { what: error.to_string() })?;
        say(shown.trim_end());
        Ok(())
    }
}
