//! `pitwire trade`: orders and queries for any venue with the JSON-RPC API.

mod show;

use clap::{Args, Subcommand, ValueEnum};
use pitwire_client::{Cancel, Error, NewOrder, Number, Side, VenueConnection};

use super::reach::{Reach, watch};
use pitwire_failure::Failure;
use pitwire_terminal::output::{say, say_styled};

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
    Buy(OrderArguments),
    /// Enter a sell order.
    Sell(OrderArguments),
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
        instrument: Option<String>,
    },
    /// Show the book of an instrument.
    #[command(after_help = "Examples:\n  pitwire trade book BTC_USDC\n  pitwire trade book NPN_ZAR --depth 20 --json")]
    Book {
        instrument: String,
        /// Levels on each side. The venue rounds up to 1, 5, 10, 20, 50, 100, 1000 or 10000.
        #[arg(long, default_value = "10", value_parser = clap::value_parser!(u32).range(1..=10_000))]
        depth: u32,
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
    },
}

/// Enter an order.
#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "Examples:
  pitwire trade sell NPN_ZAR 10 3201.05 --tif ioc
  pitwire trade buy BTC_USDC 0.5 --market"
)]
struct OrderArguments {
    /// Name of the instrument, such as BTC_USDC. public/get_instruments lists them.
    instrument: String,
    /// Amount in the unit of the instrument.
    amount: Number,
    /// The limit price.
    #[arg(required_unless_present = "market", conflicts_with = "market")]
    price: Option<Number>,
    /// Trade at once, at any price.
    #[arg(long)]
    market: bool,
    /// Time in force. Without it the venue uses its default.
    #[arg(long, value_enum)]
    tif: Option<Tif>,
    /// Only add to the book, never trade on entry.
    #[arg(long)]
    post_only: bool,
    /// Only reduce a position.
    #[arg(long)]
    reduce_only: bool,
    /// Your label, by which you can find and cancel the order.
    #[arg(long)]
    label: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Tif {
    /// Until cancelled.
    Gtc,
    /// Until the venue's day ends.
    Day,
    /// Trade at once; the rest expires.
    Ioc,
    /// Trade at once and completely, or not at all.
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

/// Cancel all orders, or those of one instrument, currency or label.
#[derive(Args)]
#[command(after_help = "Examples:\n  pitwire trade cancel-all\n  pitwire trade cancel-all --instrument BTC_USDC")]
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

    fn ask(&self, connection: &mut VenueConnection) -> Result<Box<serde_json::value::RawValue>, Error> {
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
        say_styled(text.trim_end());
        Ok(())
    }
}

fn enter(
    connection: &mut VenueConnection,
    side: Side,
    entry: &OrderArguments,
) -> Result<Box<serde_json::value::RawValue>, Error> {
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
