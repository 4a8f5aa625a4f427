//! The effect of an operator's command, as one sentence for a terminal.

use pitwire_terminal::output::printable;
use serde::Deserialize;

use super::show;
use super::verbs::{Account, FlowAction, InstrumentArguments, Scope, ScopeName, Target, Verb};

impl Target {
    /// Returns the subject of a sentence.
    fn subject(&self) -> String {
        match (&self.instrument, &self.segment) {
            (_, Some(segment)) => format!("every instrument of segment {segment}"),
            (instrument, None) => instrument.clone().unwrap_or_default(),
        }
    }

    /// Returns the arguments that name the same instruments.
    fn arguments(&self) -> String {
        match &self.segment {
            Some(segment) => format!("--segment {segment}"),
            None => self.subject(),
        }
    }
}

impl Scope {
    fn subject(&self) -> String {
        match (self.scope, &self.target) {
            (ScopeName::Account, Some(name)) => format!("account {name}"),
            (ScopeName::Session, Some(number)) => format!("session {number}"),
            (ScopeName::Order, Some(id)) => format!("order {id}"),
            _ => "the venue".into(),
        }
    }

    fn arguments(&self) -> String {
        match self.scope {
            ScopeName::Venue => "venue".into(),
            _ => self.subject(),
        }
    }
}

/// Returns the text for a result: a sentence if the command changed something, a table otherwise.
///
/// # Errors
///
/// Returns an error if the result is not the JSON that the method promises.
pub fn text(verb: &Verb, result: &str) -> Result<String, serde_json::Error> {
    let sentence = match verb {
        Verb::Halt(target) => halted(target),
        Verb::HaltAndClose(target) => format!(
            "{} is halted and gets its closing price; `pitwire operator reopen {}` ends the halt",
            target.subject(),
            target.arguments()
        ),
        Verb::Pause(target) => format!(
            "{} is paused: orders are accepted and none executes until `pitwire operator reopen {}`",
            target.subject(),
            target.arguments()
        ),
        Verb::Resume(target) => format!("{} continues with the session that its schedule has now", target.subject()),
        Verb::Reopen { target, seconds } => reopened(target, *seconds),
        Verb::VolatilityCall(target) => {
            format!("{} is in a volatility call; continuous trading follows its uncross", target.subject())
        }
        Verb::Extend { target, seconds } => {
            format!("the call of {} ends in {seconds} s of venue time", target.subject())
        }
        Verb::ClosingPrice { instrument, price } => format!("the closing price of {instrument} is {}", price.as_str()),
        Verb::CreateInstrument(definition) => created(definition, result)?,
        Verb::ChangeInstrument { instrument, .. } => limits(instrument, result)?,
        Verb::DeleteInstrument { instrument } => {
            format!("{instrument} is deleted: its resting orders are cancelled and it never trades again")
        }
        Verb::CreateAccount { name } => credential(&format!("account {name} is created"), result)?,
        Verb::CreateCredential { name } => credential(&format!("account {name} has one more credential"), result)?,
        Verb::RotateCredential { client_id } => {
            credential(&format!("credential {client_id} has a new secret and its logins have ended"), result)?
        }
        Verb::RemoveCredential { client_id } => {
            format!("credential {client_id} is removed and its logins have ended")
        }
        Verb::ChangeAccount(Account { name, .. }) => {
            format!("account {name} has these settings now:\n{}", show::table(result)?)
        }
        Verb::DeleteAccount { name } => {
            format!("account {name} is closed: its orders are cancelled and new ones are refused")
        }
        Verb::Deposit { name, currency, amount } => match amount.strip_prefix('-') {
            Some(amount) => format!("{amount} {currency} withdrawn from account {name}"),
            None => format!("{amount} {currency} added to account {name}"),
        },
        Verb::CreditLine { name, currency, amount } => match amount.bytes().any(|byte| matches!(byte, b'1'..=b'9')) {
            true => format!("the free balance of account {name} may fall {amount} {currency} below zero"),
            false => format!("account {name} has no credit line in {currency}"),
        },
        Verb::Flow { action, .. } => flow(*action, result)?,
        Verb::Kill { scope, .. } => killed(scope, result)?,
        Verb::Lift { scope } => format!("{} may enter orders again", scope.subject()),
        Verb::Bust { trade_id, .. } => {
            format!("trade {trade_id} is cancelled: assets, cash and positions are restored, orders are not")
        }
        Verb::Simulation(verb) => verb.text(result)?,
        Verb::Status
        | Verb::Accounts
        | Verb::Credentials { .. }
        | Verb::Orders { .. }
        | Verb::Advance { .. }
        | Verb::Watch { .. } => return show::table(result),
    };
    Ok(sentence)
}

fn halted(target: &Target) -> String {
    format!(
        "{} is halted: resting orders stay and can be cancelled, and entries are refused until \
         `pitwire operator reopen {}`",
        target.subject(),
        target.arguments()
    )
}

fn reopened(target: &Target, seconds: Option<u64>) -> String {
    let end = match seconds {
        Some(seconds) => format!("for {seconds} s of venue time"),
        None => format!("until `pitwire operator resume {}`", target.arguments()),
    };
    format!("{} is in a re-opening call {end}", target.subject())
}

fn created(definition: &InstrumentArguments, result: &str) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct CreatedInstrument {
        instrument_name: String,
    }
    let CreatedInstrument { instrument_name } = serde_json::from_str(result)?;
    let instrument_name = printable(&instrument_name);
    Ok(format!(
        "{instrument_name} is created and open for trading: tick {}, lot {}, start price {}",
        definition.tick.as_str(),
        definition.lot.as_str(),
        definition.start.as_str()
    ))
}

fn limits(instrument: &str, result: &str) -> Result<String, serde_json::Error> {
    let fields = show::flat(result)?;
    let is_limit = |name: &str| matches!(name, "max_amount" | "max_notional" | "collar_percent");
    let limits: Vec<String> =
        fields.iter().filter(|(name, _)| is_limit(name)).map(|(name, value)| format!("{name} {value}")).collect();
    Ok(match limits.is_empty() {
        true => format!("{instrument} has no limits now"),
        false => format!("{instrument} has these limits now: {}", limits.join(", ")),
    })
}

fn credential(what: &str, result: &str) -> Result<String, serde_json::Error> {
    Ok(format!("{what}; the secret is shown only here:\n{}", show::table(result)?))
}

fn flow(action: FlowAction, result: &str) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct FlowState {
        instrument_name: Option<String>,
        running: bool,
        rate_percent: u32,
        #[serde(default)]
        instruments: Vec<FlowState>,
    }
    let FlowState { instrument_name, running, rate_percent, instruments } = serde_json::from_str(result)?;
    let now = if matches!(action, FlowAction::Status) { "" } else { " now" };
    let sentence = |name: Option<&str>, running: bool, rate_percent: u32, now: &str| {
        let (of, scale) = match name {
            Some(name) => (format!(" of {name}"), "the venue's flow"),
            None => (String::new(), "its default rate"),
        };
        match running {
            true => format!("the order flow{of} runs{now} at {rate_percent} % of {scale}"),
            false => format!("the order flow{of} is stopped{now}"),
        }
    };
    let whole = sentence(instrument_name.as_deref(), running, rate_percent, now);
    let others = instruments.iter().map(|of| sentence(of.instrument_name.as_deref(), of.running, of.rate_percent, ""));
    Ok(std::iter::once(whole).chain(others).collect::<Vec<_>>().join("\n"))
}

fn killed(scope: &Scope, result: &str) -> Result<String, serde_json::Error> {
    #[derive(Deserialize)]
    struct KillResult {
        cancelled: u64,
    }
    let KillResult { cancelled } = serde_json::from_str(result)?;
    let orders = if cancelled == 1 { "1 order".into() } else { format!("{cancelled} orders") };
    let subject = scope.subject();
    Ok(match scope.scope {
        ScopeName::Order => format!("{orders} cancelled: {subject}"),
        _ => format!(
            "{orders} cancelled; {subject} cannot enter orders until `pitwire operator lift {}`",
            scope.arguments()
        ),
    })
}
