//! The commands of `pitwire operator`: their arguments, and the request that each sends.

use clap::{Args, Subcommand, ValueEnum};
use pitwire_client::Number;
use pitwire_failure::Failure;
use serde_json::{Map, Value, json};

use super::simulations::SimulationVerb;

#[derive(Subcommand)]
pub enum Verb {
    /// Show epoch, venue time, newest command, flow and kills.
    #[command(after_help = "Examples:\n  pitwire operator status\n  pitwire operator status --json")]
    Status,
    /// Show all accounts with their limits.
    #[command(after_help = "Examples:\n  pitwire operator accounts\n  pitwire operator accounts --json")]
    Accounts,
    /// Show live orders with accounts and sessions.
    #[command(after_help = "Examples:\n  pitwire operator orders\n  pitwire operator orders demo-a --count 10")]
    Orders {
        /// Only this account.
        name: Option<String>,
        /// Show this many of the oldest orders.
        #[arg(long, default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
    },
    /// Stop entries and matching, but keep resting orders and accept cancels.
    #[command(after_help = "Examples:\n  pitwire operator halt NPN_ZAR\n  pitwire operator halt --segment ZA01")]
    Halt(Target),
    /// Halt and set a closing price.
    #[command(
        after_help = "Examples:\n  pitwire operator halt-and-close NPN_ZAR\n  pitwire operator halt-and-close --segment ZA01"
    )]
    HaltAndClose(Target),
    /// Accept orders, but execute none.
    #[command(after_help = "Examples:\n  pitwire operator pause NPN_ZAR\n  pitwire operator pause --segment ZA01")]
    Pause(Target),
    /// Continue with the session that the schedule has for now.
    #[command(after_help = "Examples:\n  pitwire operator resume NPN_ZAR\n  pitwire operator resume --segment ZA01")]
    Resume(Target),
    /// Reopen with a call after a halt or a pause.
    #[command(
        after_help = "Examples:\n  pitwire operator reopen NPN_ZAR\n  pitwire operator reopen NPN_ZAR --seconds 120"
    )]
    Reopen {
        #[command(flatten)]
        target: Target,
        /// End the call after this many seconds. Without it `resume` ends the call.
        #[arg(long)]
        seconds: Option<u64>,
    },
    /// Interrupt continuous trading with a call, as a price breach does.
    #[command(
        after_help = "Examples:\n  pitwire operator volatility-call NPN_ZAR\n  pitwire operator volatility-call --segment ZA01"
    )]
    VolatilityCall(Target),
    /// Extend the current call.
    #[command(
        after_help = "Examples:\n  pitwire operator extend NPN_ZAR --seconds 60\n  pitwire operator extend --segment ZA01 --seconds 60"
    )]
    Extend {
        #[command(flatten)]
        target: Target,
        /// New end in seconds from now.
        #[arg(long)]
        seconds: u64,
    },
    /// Set the closing price of the day, until the closing price cross begins.
    #[command(
        after_help = "Examples:\n  pitwire operator closing-price NPN_ZAR 3201.50\n  pitwire operator closing-price NPN_ZAR 3201.50 --json"
    )]
    ClosingPrice {
        /// Name of the instrument, such as NPN_ZAR.
        instrument: String,
        /// Price in the quote currency, a multiple of the tick.
        price: Number,
    },
    CreateInstrument(InstrumentArguments),
    /// Change the limits of an instrument, where 0 removes a limit.
    #[command(
        after_help = "Examples:\n  pitwire operator change-instrument NPN_ZAR --collar 5 --max-amount 10000\n  pitwire operator change-instrument NPN_ZAR --collar 0"
    )]
    ChangeInstrument {
        /// Name of the instrument, such as NPN_ZAR.
        instrument: String,
        #[command(flatten)]
        limits: AccountLimits,
    },
    /// Cancel all resting orders and end trading permanently.
    #[command(
        after_help = "Examples:\n  pitwire operator delete-instrument XYZ_ZAR\n  pitwire operator delete-instrument XYZ_ZAR --json"
    )]
    DeleteInstrument {
        /// Name of the instrument, such as NPN_ZAR.
        instrument: String,
    },
    /// Create a member account and show its credentials once.
    #[command(
        after_help = "Examples:\n  pitwire operator create-account carol\n  pitwire operator create-account carol --json"
    )]
    CreateAccount {
        /// Name of the account.
        name: String,
    },
    /// Create further credentials for an account.
    #[command(
        after_help = "Examples:\n  pitwire operator create-credential carol\n  pitwire operator create-credential carol --json"
    )]
    CreateCredential {
        /// Name of the account.
        name: String,
    },
    /// Show the credentials of all accounts, without their secrets.
    #[command(after_help = "Examples:\n  pitwire operator credentials\n  pitwire operator credentials carol --json")]
    Credentials {
        /// Only this account.
        name: Option<String>,
    },
    /// Replace the secret of a credential, show the new one, and end the logins with the old one.
    #[command(
        after_help = "Examples:\n  pitwire operator rotate-credential carol\n  pitwire operator rotate-credential carol.2 --json"
    )]
    RotateCredential {
        /// Client id of the credential, as `credentials` shows it.
        client_id: String,
    },
    /// Remove a credential permanently and end its logins.
    #[command(
        after_help = "Examples:\n  pitwire operator remove-credential carol.2\n  pitwire operator remove-credential carol --json"
    )]
    RemoveCredential {
        /// Client id of the credential, as `credentials` shows it.
        client_id: String,
    },
    ChangeAccount(Account),
    /// Cancel the orders of an account and refuse new ones permanently.
    #[command(
        after_help = "Examples:\n  pitwire operator delete-account carol\n  pitwire operator delete-account carol --json"
    )]
    DeleteAccount {
        /// Name of the account.
        name: String,
    },
    /// Add to a balance, or withdraw with a negative amount.
    #[command(
        after_help = "Examples:\n  pitwire operator deposit carol ZAR 1000000\n  pitwire operator deposit carol ZAR -250.50"
    )]
    Deposit {
        /// Name of the account.
        name: String,
        /// Currency, such as ZAR.
        currency: String,
        /// Amount to add; negative to withdraw.
        #[arg(allow_hyphen_values = true)]
        amount: String,
    },
    /// Set how far the free balance of an account may fall below zero.
    #[command(
        after_help = "Examples:\n  pitwire operator credit-line carol ZAR 50000\n  pitwire operator credit-line carol ZAR 0"
    )]
    CreditLine {
        /// Name of the account.
        name: String,
        /// Currency, such as ZAR.
        currency: String,
        /// The amount, 0 or more.
        amount: String,
    },
    /// Start, stop, scale or show the built-in order flow, of the venue or of one instrument.
    #[command(
        after_help = "Examples:\n  pitwire operator flow start --rate 200\n  pitwire operator flow stop --instrument NPN_ZAR"
    )]
    Flow {
        /// Start, stop or show the flow.
        #[arg(value_enum, default_value = "status")]
        action: FlowAction,
        /// Event rate in percent of the default; with --instrument, in percent of the venue's flow.
        #[arg(long, value_name = "PERCENT")]
        rate: Option<u32>,
        /// Only the flow of this instrument, until the venue stops.
        #[arg(long, value_name = "NAME")]
        instrument: Option<String>,
    },
    /// Cancel all orders in a scope, refuse new ones until the kill is lifted, and end the logins
    /// of a killed account.
    #[command(
        after_help = "Examples:\n  pitwire operator kill account demo-a --reason 'runaway strategy'\n  pitwire operator kill venue --reason drill"
    )]
    Kill {
        #[command(flatten)]
        scope: Scope,
        /// Reason for the log.
        #[arg(long)]
        reason: String,
    },
    /// Lift a kill, or the tripped throttle of an account.
    #[command(after_help = "Examples:\n  pitwire operator lift account demo-a\n  pitwire operator lift venue")]
    Lift {
        #[command(flatten)]
        scope: Scope,
    },
    /// Cancel a trade: assets, cash and positions are restored, orders are not.
    #[command(
        after_help = "Examples:\n  pitwire operator bust 1000000000042 --reason 'wrong price'\n  pitwire operator bust 1000000000042 --reason 'wrong price' --json"
    )]
    Bust {
        /// Id of the trade, as in trade lists and channels.
        trade_id: String,
        /// Reason for the log.
        #[arg(long)]
        reason: String,
    },
    /// Print the drop copy, one line of JSON each, until stopped.
    #[command(after_help = "Examples:\n  pitwire operator watch\n  pitwire operator watch demo-a --count 10")]
    Watch {
        /// Only this account.
        name: Option<String>,
        /// Stop after this many messages.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Start, show, stop and export simulations of the venue, and save their reports.
    #[command(
        subcommand,
        after_help = "Examples:\n  pitwire operator simulation list\n  pitwire operator simulation start --seconds 3600 --seed 7"
    )]
    Simulation(SimulationVerb),
    /// Advance the time of a venue that runs with --clock manual.
    #[command(
        after_help = "Examples:\n  pitwire operator advance 1000000000\n  pitwire operator advance 1000000000 --json"
    )]
    Advance {
        /// Nanoseconds to advance.
        ns: u64,
    },
}

/// One instrument, or all instruments of a segment in order of their numbers.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct Target {
    /// Name of one instrument, such as NPN_ZAR.
    pub instrument: Option<String>,
    /// All instruments of this segment.
    #[arg(long, value_name = "NAME")]
    pub segment: Option<String>,
}

impl Target {
    fn params(&self) -> Value {
        given(vec![
            ("instrument_name", self.instrument.as_deref().map(Value::from)),
            ("segment", self.segment.as_deref().map(Value::from)),
        ])
    }
}

/// Create a spot instrument that is open for trading.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pitwire operator create-instrument XYZ ZAR --tick 0.01 --lot 1 --start 12.50\n  pitwire operator create-instrument XYZ ZAR --tick 0.01 --lot 1 --start 12.50 --collar 10"
)]
pub struct InstrumentArguments {
    /// Base currency. A new one is created with the instrument.
    base: String,
    /// Quote currency.
    quote: String,
    /// Name of the instrument. Default: BASE_QUOTE.
    #[arg(long)]
    name: Option<String>,
    /// Smallest price step.
    #[arg(long, value_name = "N")]
    pub tick: Number,
    /// Smallest amount step.
    #[arg(long, value_name = "N")]
    pub lot: Number,
    /// Start price.
    #[arg(long, value_name = "N")]
    pub start: Number,
    #[command(flatten)]
    limits: AccountLimits,
}

#[derive(Args)]
pub struct AccountLimits {
    /// Largest amount of an order.
    #[arg(long, value_name = "NUMBER", value_parser = limit)]
    max_amount: Option<String>,
    /// Largest value of an order.
    #[arg(long, value_name = "NUMBER", value_parser = limit)]
    max_notional: Option<String>,
    /// Largest distance of a price on the adverse side of the reference.
    #[arg(long, value_name = "PERCENT", value_parser = limit)]
    collar: Option<String>,
}

/// Parses a limit: a positive number in its own spelling, or 0 for none.
fn limit(text: &str) -> Result<String, String> {
    match text.parse::<Number>() {
        _ if text == "0" => Ok(text.to_owned()),
        Ok(number) => Ok(number.as_str().to_owned()),
        Err(wrong) => Err(format!("{wrong}, or 0 for no limit")),
    }
}

/// Change the settings of an account, where 0 removes a limit.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pitwire operator change-account demo-a --max-executions 100 --execution-window-ms 1000\n  pitwire operator change-account demo-a --max-open-orders 0"
)]
pub struct Account {
    /// Name of the account.
    pub name: String,
    /// Most open orders of the account.
    #[arg(long)]
    max_open_orders: Option<u32>,
    /// Most fills in a window before the account is stopped.
    #[arg(long)]
    max_executions: Option<u32>,
    /// Length of that window in milliseconds.
    #[arg(long)]
    execution_window_ms: Option<u64>,
    /// The action if two orders of this account would trade with each other.
    #[arg(long, value_enum)]
    self_match: Option<SelfMatch>,
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum SelfMatch {
    CancelResting,
    CancelIncoming,
    CancelBoth,
    None,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FlowAction {
    Start,
    Stop,
    Status,
}

#[derive(Args)]
pub struct Scope {
    /// The orders that the command covers.
    #[arg(value_enum)]
    pub scope: ScopeName,
    /// Name of the account, number of the session, or id of the order.
    #[arg(required_if_eq_any([("scope", "account"), ("scope", "session"), ("scope", "order")]))]
    pub target: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum ScopeName {
    Venue,
    Account,
    Session,
    Order,
}

impl Scope {
    fn params(&self) -> Result<Value, Failure> {
        let target = self.target.as_deref().unwrap_or_default();
        Ok(match self.scope {
            // A target with the scope `venue` is a mistake: refuse it rather than kill everything.
            ScopeName::Venue if self.target.is_some() => {
                return Err(Failure::usage(format!("the scope venue takes no name, but {target:?} was given")).remedy(
                    format!("write `account {target}`, `session {target}` or `order {target}`, or `venue` alone"),
                ));
            }
            ScopeName::Venue => json!({"scope": "venue"}),
            ScopeName::Account => json!({"scope": "account", "name": target}),
            ScopeName::Session => json!({"scope": "session", "session": target}),
            ScopeName::Order => json!({"scope": "order", "order_id": target}),
        })
    }
}

/// Builds an object and omits missing values.
fn given(pairs: Vec<(&str, Option<Value>)>) -> Value {
    Value::Object(pairs.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect::<Map<_, _>>())
}

/// Sends a number as text, so that the venue reads every digit.
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

impl AccountLimits {
    fn params(&self) -> Value {
        given(vec![
            ("max_amount", self.max_amount.as_deref().map(Value::from)),
            ("max_notional", self.max_notional.as_deref().map(Value::from)),
            ("collar_percent", self.collar.as_deref().map(Value::from)),
        ])
    }
}

impl InstrumentArguments {
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
    /// Returns the method, without `private/pitwire_`, and its parameters.
    ///
    /// # Errors
    ///
    /// Returns a usage error if the arguments contradict each other.
    pub fn request(&self) -> Result<(&'static str, Value), Failure> {
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
            Verb::Credentials { name } => ("get_credentials", given(vec![("name", name.as_deref().map(Value::from))])),
            Verb::RotateCredential { client_id } => ("rotate_credential", json!({"client_id": client_id})),
            Verb::RemoveCredential { client_id } => ("remove_credential", json!({"client_id": client_id})),
            Verb::ChangeAccount(settings) => ("change_account", settings.params()),
            Verb::DeleteAccount { name } => ("delete_account", account(name)),
            Verb::Deposit { name, currency, amount } => ("deposit", money(name, currency, amount)),
            Verb::CreditLine { name, currency, amount } => ("set_credit_line", money(name, currency, amount)),
            Verb::Flow { action, rate, instrument: name } => (
                "flow",
                given(vec![
                    ("action", word(*action)),
                    ("rate_percent", rate.map(Value::from)),
                    ("instrument_name", name.as_deref().map(Value::from)),
                ]),
            ),
            Verb::Kill { scope, reason } => ("kill", with(scope.params()?, "reason", reason.as_str())),
            Verb::Lift { scope } => ("lift", scope.params()?),
            Verb::Bust { trade_id, reason } => ("bust", json!({"trade_id": trade_id, "reason": reason})),
            Verb::Advance { ns } => ("advance", json!({"ns": ns})),
            Verb::Simulation(verb) => verb.request()?,
            // Watching uses a channel, not a method: see `Operator::run`.
            Verb::Watch { .. } => ("status", json!({})),
        })
    }
}
