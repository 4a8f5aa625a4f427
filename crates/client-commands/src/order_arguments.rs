//! The arguments of a new order.

use std::io::{BufRead, IsTerminal, Write};

use clap::{Args, ValueEnum};
use pitwire_client::{Number, OrderRequest, OrderType, PostOnly, Side, TimeInForce, TriggerPrice};
use pitwire_failure::Failure;

use crate::confirmation::ConfirmationBound;

/// Enter an order.
#[derive(Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "An order with --stop or --take waits until the last price reaches the trigger; with PRICE it is then
a limit order, without PRICE a market order.

Examples:
  pitwire trade sell NPN_ZAR 10 3201.05 --tif ioc
  pitwire trade buy BTC_USDC 0.5 --stop 61000"
)]
pub struct OrderArguments {
    /// Name of the instrument, such as BTC_USDC. public/get_instruments lists them.
    instrument: String,
    /// Amount in the unit of the instrument.
    amount: Number,
    /// The limit price. With --market there is none.
    #[arg(conflicts_with_all = ["market", "trailing"])]
    price: Option<Number>,
    /// Trade at once, at any price.
    #[arg(long, conflicts_with_all = ["stop", "take", "trailing", "hidden", "display"])]
    market: bool,
    /// Trigger price of a stop order.
    #[arg(long, value_name = "PRICE", conflicts_with_all = ["take", "trailing", "hidden"])]
    stop: Option<Number>,
    /// Trigger price of a take-profit order. Pitwire's own venue has none.
    #[arg(long, value_name = "PRICE", conflicts_with_all = ["trailing", "hidden"])]
    take: Option<Number>,
    /// Distance of a trailing stop from the price. Pitwire's own venue has none.
    #[arg(long, value_name = "OFFSET", conflicts_with = "hidden")]
    trailing: Option<Number>,
    /// The price that a trigger follows. Pitwire's own venue has last only.
    #[arg(long, value_enum, default_value = "last")]
    trigger: TriggerWord,
    /// Show the order in no public channel.
    #[arg(long, conflicts_with_all = ["display", "post_only", "reject_post_only"])]
    hidden: bool,
    /// Smallest execution of a hidden order. Without it the order executes as a whole.
    #[arg(long, value_name = "AMOUNT", requires = "hidden")]
    min_execution: Option<Number>,
    /// Displayed amount of an iceberg.
    #[arg(long, value_name = "AMOUNT")]
    display: Option<Number>,
    /// Time in force. Without it the venue uses its default.
    #[arg(long, value_enum, requires_ifs = [("gtd", "expires"), ("gtt", "expires")])]
    tif: Option<TifWord>,
    /// End of gtd as a date, 2026-12-31; of gtt in milliseconds of venue time since 1970.
    #[arg(long, value_name = "WHEN", requires = "tif")]
    expires: Option<String>,
    /// Only add to the book, never trade on entry. The venue moves a price that would trade.
    #[arg(long)]
    post_only: bool,
    /// As --post-only, but the venue refuses a price that would trade.
    #[arg(long)]
    reject_post_only: bool,
    /// Only reduce a position.
    #[arg(long)]
    reduce_only: bool,
    /// Your label, by which you can find and cancel the order.
    #[arg(long)]
    label: Option<String>,
    /// Print the request as one line of JSON and send nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Ask before an order of a larger amount is sent. Default: $PITWIRE_CONFIRM_ABOVE, else never.
    #[arg(long, value_name = "AMOUNT")]
    confirm_above: Option<Number>,
    /// Send a large order without asking.
    #[arg(long)]
    yes: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum TriggerWord {
    Last,
    Mark,
    Index,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TifWord {
    /// Until cancelled.
    Gtc,
    /// Until the venue's day ends.
    Day,
    /// Trade at once; the rest expires.
    Ioc,
    /// Trade at once and completely, or not at all.
    Fok,
    /// Until the end of the date in --expires.
    Gtd,
    /// Until the time in --expires.
    Gtt,
    /// For the opening auction.
    Opg,
    /// For the next auction of any kind.
    Gfa,
    /// For the next intraday auction.
    Gfx,
    /// For the closing auction.
    Atc,
    /// For the closing price cross.
    Cpx,
}

impl OrderArguments {
    /// Builds the order.
    ///
    /// # Errors
    ///
    /// Fails if the order has neither a price nor an option that does without one, or if
    /// `--expires` does not fit the time in force.
    pub fn request(&self, side: Side) -> Result<OrderRequest, Failure> {
        let by = match self.trigger {
            TriggerWord::Last => TriggerPrice::Last,
            TriggerWord::Mark => TriggerPrice::Mark,
            TriggerWord::Index => TriggerPrice::Index,
        };
        let price = self.price.clone();
        let order_type = match (&self.stop, &self.take, &self.trailing, price) {
            (Some(trigger), _, _, price) => OrderType::Stop { trigger: trigger.clone(), price, by },
            (_, Some(trigger), _, price) => OrderType::Take { trigger: trigger.clone(), price, by },
            (_, _, Some(offset), _) => OrderType::TrailingStop { offset: offset.clone(), by },
            (_, _, _, Some(price)) if self.hidden => {
                OrderType::Hidden { price, minimum_execution: self.min_execution.clone() }
            }
            (_, _, _, Some(price)) => OrderType::Limit { price },
            (_, _, _, None) if self.market => OrderType::Market,
            (_, _, _, None) => {
                let (instrument, amount) = (&self.instrument, &self.amount);
                return Err(Failure::usage(format!("the order for {amount} {instrument} has no price"))
                    .remedy("give a limit price after the amount, or --market to trade at any price"));
            }
        };
        Ok(OrderRequest {
            time_in_force: self.tif.map(|tif| self.time_in_force(tif)).transpose()?,
            display_amount: self.display.clone(),
            post_only: match (self.reject_post_only, self.post_only) {
                (true, _) => PostOnly::Reject,
                (false, true) => PostOnly::Reprice,
                (false, false) => PostOnly::No,
            },
            reduce_only: self.reduce_only,
            label: self.label.clone(),
            ..OrderRequest::new(side, &self.instrument, self.amount.clone(), order_type)
        })
    }

    fn time_in_force(&self, tif: TifWord) -> Result<TimeInForce, Failure> {
        let expires = self.expires.clone().unwrap_or_default();
        if !expires.is_empty() && !matches!(tif, TifWord::Gtd | TifWord::Gtt) {
            return Err(Failure::usage("--expires goes with --tif gtd or gtt".to_owned()).remedy("leave --expires out"));
        }
        Ok(match tif {
            TifWord::Gtc => TimeInForce::GoodTillCancelled,
            TifWord::Day => TimeInForce::Day,
            TifWord::Ioc => TimeInForce::ImmediateOrCancel,
            TifWord::Fok => TimeInForce::FillOrKill,
            TifWord::Gtd => TimeInForce::GoodTillDate(expires),
            TifWord::Gtt => {
                let at_ms = expires.parse().map_err(|_| {
                    Failure::usage(format!("invalid --expires {expires:?}: --tif gtt needs milliseconds since 1970"))
                        .remedy("use --tif gtd for a date")
                })?;
                TimeInForce::GoodTillTime(at_ms)
            }
            TifWord::Opg => TimeInForce::OpeningAuction,
            TifWord::Gfa => TimeInForce::AnyAuction,
            TifWord::Gfx => TimeInForce::IntradayAuction,
            TifWord::Atc => TimeInForce::ClosingAuction,
            TifWord::Cpx => TimeInForce::ClosingPriceCross,
        })
    }

    /// Asks on the terminal if the order is large.
    ///
    /// # Errors
    ///
    /// Fails without a terminal, and after any answer but yes.
    pub fn confirm(&self, order: &OrderRequest) -> Result<(), Failure> {
        let bound = ConfirmationBound::find(self.confirm_above.as_ref())?;
        let question = match bound.reason(&order.amount) {
            Some(question) if !self.yes => question,
            _ => return Ok(()),
        };
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage(format!("{question}, and there is no terminal to ask on"))
                .remedy("add --yes to send the order"));
        }
        eprint!("{question}. Send the order? [y/N] ");
        drop(std::io::stderr().flush());
        let mut answer = String::new();
        drop(std::io::stdin().lock().read_line(&mut answer));
        if matches!(answer.trim(), "y" | "yes") {
            return Ok(());
        }
        Err(Failure::new(format!("{question}; the order was not sent")))
    }
}
