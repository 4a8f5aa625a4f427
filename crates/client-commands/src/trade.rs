//! `pitwire trade`: orders and queries for any venue with the JSON-RPC API.

use clap::{Args, Subcommand};
use pitwire_client::{Cancel, EditRequest, Error, Number, Side};
use serde_json::json;
use serde_json::value::RawValue;

use crate::order_arguments::OrderArguments;
use crate::reach::{Reach, VenueSession};
use crate::show;
use pitwire_failure::Failure;
use pitwire_terminal::output::{printable, printable_json, say, say_styled};

const EXAMPLES: &str = "Credentials come from PITWIRE_CLIENT_ID and PITWIRE_CLIENT_SECRET, or from a file of two lines
(client_id = \"…\", client_secret = \"…\", chmod 600) at PITWIRE_CREDENTIALS or
~/.config/pitwire/credentials.toml. The secret signs the login and is not sent.

Examples:
  pitwire trade book BTC_USDC
      needs no login
  PITWIRE_CLIENT_ID=demo-a PITWIRE_CLIENT_SECRET=demo-a-secret pitwire trade buy BTC_USDC 0.5 59000
      a limit order that rests until it is cancelled";

/// Trade on a venue with the JSON-RPC API: enter, edit and cancel orders, show books and balances.
#[derive(Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = false)]
pub struct Trade {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Enter a buy order.
    Buy(Box<OrderArguments>),
    /// Enter a sell order.
    Sell(Box<OrderArguments>),
    /// Change the amount and the price of an open order.
    #[command(
        allow_negative_numbers = true,
        after_help = "Examples:\n  pitwire trade edit 4711 0.25 59000.5\n      the amount includes the filled part\n  pitwire trade edit 4711 0.25 59000.5 --json"
    )]
    Edit {
        /// Id of the order, as `orders` shows it.
        order: String,
        /// The new total amount.
        amount: Number,
        /// The new limit price.
        price: Number,
    },
    /// Cancel one order.
    #[command(after_help = "Examples:\n  pitwire trade cancel 4711\n  pitwire trade cancel 4711 --json")]
    Cancel {
        /// Id of the order, as `orders` shows it.
        order: String,
    },
    CancelAll(CancelAll),
    /// Show open orders.
    #[command(
        after_help = "Examples:\n  pitwire trade orders\n      for all instruments\n  pitwire trade orders BTC_USDC --json"
    )]
    Orders {
        /// Only this instrument.
        instrument: Option<String>,
    },
    /// Show the book of an instrument.
    #[command(after_help = "Examples:\n  pitwire trade book BTC_USDC\n  pitwire trade book NPN_ZAR --depth 20 --json")]
    Book {
        /// Name of the instrument, such as BTC_USDC.
        instrument: String,
        /// Levels on each side. The venue rounds up to 1, 5, 10, 20, 50, 100, 1000 or 10000.
        #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        depth: u32,
    },
    /// Show the volume-weighted average price of the latest trades.
    #[command(
        after_help = "Examples:\n  pitwire trade vwap BTC_USDC\n  pitwire trade vwap NPN_ZAR --trades 1000 --json"
    )]
    Vwap {
        /// Name of the instrument, such as BTC_USDC.
        instrument: String,
        /// Number of trades, at most.
        #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
        trades: u32,
    },
    /// Show open positions.
    #[command(after_help = "Examples:\n  pitwire trade positions\n  pitwire trade positions --json")]
    Positions,
    /// Show balances by currency.
    #[command(after_help = "Examples:\n  pitwire trade balance\n  pitwire trade balance --json")]
    Balance,
    /// Print the messages of channels, one line of JSON each, until stopped.
    #[command(
        after_help = "Examples:\n  pitwire trade watch trades.BTC_USDC.100ms\n  pitwire trade watch user.orders.any.any.raw --count 1"
    )]
    Watch {
        /// Channel names of the API. Names that begin with user. need a login.
        #[arg(required = true)]
        channels: Vec<String>,
        /// Stop after this many messages.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// Connect and subscribe again when the connection is cut. Messages may be missing.
        #[arg(long)]
        reconnect: bool,
    },
}

/// Cancel all orders, or those of one instrument, currency or label.
#[derive(Args)]
#[command(after_help = "Examples:\n  pitwire trade cancel-all\n  pitwire trade cancel-all --instrument BTC_USDC")]
struct CancelAll {
    /// Only the orders of this instrument.
    #[arg(long, conflicts_with_all = ["currency", "label"])]
    instrument: Option<String>,
    /// Only the orders of instruments of this currency.
    #[arg(long, conflicts_with = "label")]
    currency: Option<String>,
    /// Only the orders with this label.
    #[arg(long)]
    label: Option<String>,
}

impl CancelAll {
    fn which(&self) -> Cancel<'_> {
        match (&self.instrument, &self.currency, &self.label) {
            (Some(instrument), ..) => Cancel::Instrument(instrument),
            (_, Some(currency), _) => Cancel::Currency(currency),
            (.., Some(label)) => Cancel::Label(label),
            _ => Cancel::All,
        }
    }
}

impl Verb {
    fn needs_login(&self) -> bool {
        match self {
            Verb::Book { .. } | Verb::Vwap { .. } => false,
            Verb::Watch { channels, .. } => channels.iter().any(|channel| channel.starts_with("user.")),
            _ => true,
        }
    }
}

impl Trade {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// Fails if the options contradict each other, if the venue refuses the request, or if no
    /// answer arrives.
    pub fn run(self) -> Result<(), Failure> {
        if let Verb::Watch { channels, count, reconnect } = &self.verb {
            return self.reach.open_with(self.verb.needs_login(), *reconnect)?.watch(channels, *count);
        }
        let order = match &self.verb {
            Verb::Buy(entry) => Some((entry, entry.request(Side::Buy)?)),
            Verb::Sell(entry) => Some((entry, entry.request(Side::Sell)?)),
            _ => None,
        };
        let result = match order {
            Some((entry, order)) => {
                let params = serde_json::to_string(&order.params()).map_err(garbled)?;
                if entry.dry_run {
                    say(&format!("{{\"method\":\"{}\",\"params\":{params}}}", order.side.method()));
                    return Ok(());
                }
                entry.confirm(&order)?;
                let session = self.reach.open(true)?;
                let result = session.call(order.side.method(), &order.params())?;
                session.close();
                result
            }
            None => {
                let session = self.reach.open(self.verb.needs_login())?;
                let result = self.ask(&session)?;
                session.close();
                result
            }
        };
        if self.reach.json && !matches!(self.verb, Verb::Vwap { .. }) {
            say(&printable_json(result.get()));
            return Ok(());
        }
        self.show(result.get())
    }

    fn ask(&self, session: &VenueSession) -> Result<Box<RawValue>, Error> {
        match &self.verb {
            Verb::Edit { order, amount, price } => {
                session.call("private/edit", &EditRequest { order_id: order, amount, price, valid_until: None })
            }
            Verb::Cancel { order } => session.call("private/cancel", &json!({"order_id": order})),
            Verb::CancelAll(which) => {
                let (method, params) = which.which().request();
                session.call(method, &params)
            }
            Verb::Orders { instrument: Some(name) } => {
                session.call("private/get_open_orders_by_instrument", &json!({"instrument_name": name}))
            }
            Verb::Orders { instrument: None } => session.call("private/get_open_orders", &json!({})),
            Verb::Book { instrument, depth } => {
                session.call("public/get_order_book", &json!({"instrument_name": instrument, "depth": depth}))
            }
            Verb::Vwap { instrument, trades } => {
                let params = json!({"instrument_name": instrument, "count": trades});
                session.call("public/get_last_trades_by_instrument", &params)
            }
            Verb::Balance => session.call("private/get_account_summaries", &json!({})),
            // The other verbs do not come here.
            Verb::Positions | Verb::Buy(_) | Verb::Sell(_) | Verb::Watch { .. } => {
                session.call("private/get_positions", &json!({}))
            }
        }
    }

    fn show(&self, result: &str) -> Result<(), Failure> {
        let text = match &self.verb {
            Verb::Buy(_) | Verb::Sell(_) | Verb::Edit { .. } => show::outcome(result),
            Verb::Cancel { .. } => show::order(result),
            Verb::CancelAll(_) => Ok(format!("{} cancelled", printable(result))),
            Verb::Orders { .. } => show::orders(result),
            Verb::Book { .. } => show::book(result),
            Verb::Vwap { .. } => show::vwap(result, self.reach.json),
            Verb::Positions => show::positions(result),
            Verb::Balance => show::balances(result),
            Verb::Watch { .. } => Ok(result.into()),
        };
        let text = text.map_err(garbled)?;
        say_styled(text.trim_end());
        Ok(())
    }
}

fn garbled(error: serde_json::Error) -> Error {
    Error::Garbled { what: error.to_string() }
}
