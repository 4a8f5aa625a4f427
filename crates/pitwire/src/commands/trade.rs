//! `pitwire trade`: orders and questions to any venue of the JSON-RPC dialect.

mod show;

use clap::{Args, Subcommand, ValueEnum};
use pitwire_client::{Cancel, Connection, Error, NewOrder, Number, Side};

use super::reach::{Reach, watch};
use crate::output::say;
use pitwire_failure::Failure;

const EXAMPLES: &str = "Examples:
  pitwire trade book BTC_USDC                        no login needed
  export PITWIRE_CLIENT_ID=demo-a PITWIRE_CLIENT_SECRET=demo-a-secret
  pitwire trade buy BTC_USDC 0.5 59000               a limit order that rests until it is cancelled
  pitwire trade sell NPN_ZAR 10 --market             at whatever the book gives
  pitwire trade orders --json                        what is open, as the venue says it
  pitwire trade --url wss://example.org/ws/api/v2 positions

Credentials never stand on the command line: PITWIRE_CLIENT_ID and PITWIRE_CLIENT_SECRET, or a file of two lines
(client_id = \"…\", client_secret = \"…\", chmod 600) at PITWIRE_CREDENTIALS or ~/.config/pitwire/credentials.toml.
The secret signs the login and is not sent.";

/// Trade on a venue of the JSON-RPC dialect.
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
    Buy(Entry),
    Sell(Entry),
    /// Change an open order's amount and price.
    #[command(
        allow_negative_numbers = true,
        after_help = "Examples:\n  pitwire trade edit 4711 0.25 59000.5      the amount includes what has traded already"
    )]
    Edit {
        /// The order's id, as `orders` shows it.
        order: String,
        /// The new total amount.
        amount: Number,
        price: Number,
    },
    /// Cancel one order.
    #[command(after_help = "Examples:\n  pitwire trade cancel 4711")]
    Cancel {
        /// The order's id, as `orders` shows it.
        order: String,
    },
    CancelAll(CancelAll),
    /// Show open orders.
    #[command(
        after_help = "Examples:\n  pitwire trade orders                     of every instrument\n  pitwire trade orders BTC_USDC --json"
    )]
    Orders {
        instrument: Option<String>,
    },
    /// Show an instrument's book.
    #[command(after_help = "Examples:\n  pitwire trade book BTC_USDC\n  pitwire trade book NPN_ZAR --depth 20 --json")]
    Book {
        instrument: String,
        /// Levels on each side; the dialect rounds up to 1, 5, 10, 20, 50, 100, 1000 or 10000.
        #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        depth: u32,
    },
    /// Show open positions.
    #[command(after_help = "Examples:\n  pitwire trade positions")]
    Positions,
    /// Show balances by currency.
    #[command(after_help = "Examples:\n  pitwire trade balance\n  pitwire trade balance --json")]
    Balance,
    /// Print what the venue says on channels, one line of JSON each, until it is stopped.
    #[command(
        after_help = "Examples:\n  pitwire trade watch trades.BTC_USDC.100ms\n  pitwire trade watch user.orders.any.any.raw --count 1"
    )]
    Watch {
        /// By the dialect's names; those that begin with user. need a login.
        #[arg(required = true)]
        channels: Vec<String>,
        /// Stop after so many.
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
}

/// Enter an order.
#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:\n  pitwire trade buy BTC_USDC 0.5 59000\n  pitwire trade sell NPN_ZAR 10 3201.05 --tif ioc\n  \
                  pitwire trade buy BTC_USDC 0.5 --market\n  pitwire trade sell BTC_USDC 0.5 61000 --post-only --label mm-1"
)]
struct Entry {
    /// Such as BTC_USDC; public/get_instruments lists them.
    instrument: String,
    /// In the unit of the instrument's amounts.
    amount: Number,
    /// The limit.
    #[arg(required_unless_present = "market", conflicts_with = "market")]
    price: Option<Number>,
    /// Trade at any price, at once.
    #[arg(long)]
    market: bool,
    /// How long it stands; the venue's own default when left out.
    #[arg(long, value_enum)]
    tif: Option<Tif>,
    /// Only add to the book, never trade on entry.
    #[arg(long)]
    post_only: bool,
    /// Only make a position smaller.
    #[arg(long)]
    reduce_only: bool,
    /// Your own word on it, by which it can be found and cancelled.
    #[arg(long)]
    label: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Tif {
    /// Until cancelled.
    Gtc,
    /// Until the venue's day ends.
    Day,
    /// At once; the rest expires.
    Ioc,
    /// At once and whole, or not at all.
    Fok,
}

impl Tif {
    const fn word(self) -> &'static str {
        match self {
            Tif::Gtc => "good_til_cancelled",
            Tif::Day => "good_til_day",
            Tif::Ioc => "immediate_or_cancel",
            Tif::Fok => "fill_or_kill",
        }
    }
}

/// Cancel many orders: all of them, or those of one instrument, currency or label.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  pitwire trade cancel-all\n  pitwire trade cancel-all --instrument BTC_USDC\n  pitwire trade cancel-all --label mm-1"
)]
struct CancelAll {
    #[arg(long, conflicts_with_all = ["currency", "label"])]
    instrument: Option<String>,
    #[arg(long, conflicts_with = "label")]
    currency: Option<String>,
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
            Verb::Book { .. } => false,
            Verb::Watch { channels, .. } => channels.iter().any(|channel| channel.starts_with("user.")),
            _ => true,
        }
    }
}

impl Trade {
    pub fn run(self) -> Result<(), Failure> {
        let mut connection = self.reach.open(self.verb.needs_login())?;
        if let Verb::Watch { channels, count } = &self.verb {
            return watch(&mut connection, channels, *count);
        }
        let result = self.ask(&mut connection)?;
        connection.close();
        if self.reach.json {
            say(result.get());
            return Ok(());
        }
        self.show(result.get())
    }

    fn ask(&self, connection: &mut Connection) -> Result<Box<serde_json::value::RawValue>, Error> {
        match &self.verb {
            Verb::Buy(entry) => enter(connection, Side::Buy, entry),
            Verb::Sell(entry) => enter(connection, Side::Sell, entry),
            Verb::Edit { order, amount, price } => connection.edit(order, amount, price),
            Verb::Cancel { order } => connection.cancel(order),
            Verb::CancelAll(which) => connection.cancel_all(which.which()),
            Verb::Orders { instrument } => connection.open_orders(instrument.as_deref()),
            Verb::Book { instrument, depth } => connection.book(instrument, *depth),
            Verb::Positions => connection.positions(),
            Verb::Balance => connection.summaries(),
            Verb::Watch { channels, .. } => connection.subscribe(channels),
        }
    }

    fn show(&self, result: &str) -> Result<(), Failure> {
        let text = match &self.verb {
            Verb::Buy(_) | Verb::Sell(_) | Verb::Edit { .. } => show::outcome(result),
            Verb::Cancel { .. } => show::order(result),
            Verb::CancelAll(_) => Ok(format!("{result} cancelled")),
            Verb::Orders { .. } => show::orders(result),
            Verb::Book { .. } => show::book(result),
            Verb::Positions => show::positions(result),
            Verb::Balance => show::balances(result),
            Verb::Watch { .. } => Ok(result.into()),
        };
        let text = text.map_err(|error| Error::Garbled { what: error.to_string() })?;
        say(text.trim_end());
        Ok(())
    }
}

fn enter(connection: &mut Connection, side: Side, entry: &Entry) -> Result<Box<serde_json::value::RawValue>, Error> {
    let order = NewOrder {
        instrument: &entry.instrument,
        amount: &entry.amount,
        price: entry.price.as_ref(),
        time_in_force: entry.tif.map(Tif::word),
        post_only: entry.post_only,
        reduce_only: entry.reduce_only,
        label: entry.label.as_deref(),
    };
    connection.enter(side, &order)
}
