//! `pitwire operator`: operates a venue from the command line, over its API.

mod outcome;
mod show;
mod simulations;
mod verbs;

use clap::Args;
use pitwire_client::Error;
use pitwire_failure::Failure;
use pitwire_terminal::output::{printable_json, say, say_styled};

use self::simulations::SimulationVerb;
use self::verbs::Verb;
use crate::reach::Reach;

const EXAMPLES: &str = "Credentials as for `pitwire trade`. They must have the operator scope. The demo has the login
demo-operator with the secret demo-operator-secret.

Examples:
  pitwire operator halt NPN_ZAR
      stops entries and matching until `pitwire operator reopen NPN_ZAR`
  pitwire operator kill account demo-a --reason 'runaway strategy'
      cancels all orders of the account and refuses new ones until `pitwire operator lift`";

/// Operate a venue: instruments, accounts, order flow, simulations, halts, kills, busts, drop copy.
#[derive(Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = false)]
pub struct Operator {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    verb: Verb,
}

impl Operator {
    /// Sends one command of the operator and prints the answer.
    ///
    /// # Errors
    /// If an argument is wrong, the venue cannot be reached or refuses, or the answer is not
    /// understood.
    pub fn run(self) -> Result<(), Failure> {
        // Check the arguments before connecting.
        let (method, params) = self.verb.request()?;
        let session = self.reach.open(true)?;
        if let Verb::Watch { name, count } = &self.verb {
            let channel = format!("drop_copy.{}", name.as_deref().unwrap_or("any"));
            return session.watch(&[channel], *count);
        }
        if let Verb::Simulation(SimulationVerb::File { id, name, out }) = &self.verb {
            let saved = simulations::save(&session, *id, name, out.as_deref())?;
            session.close();
            say(&saved);
            return Ok(());
        }
        let result = session.call(&format!("private/pitwire_{method}"), &params)?;
        session.close();
        if self.reach.json {
            say(&printable_json(result.get()));
            return Ok(());
        }
        let text = outcome::text(&self.verb, result.get());
        let text = text.map_err(|error| Error::Garbled { what: error.to_string() })?;
        say_styled(text.trim_end());
        Ok(())
    }
}
