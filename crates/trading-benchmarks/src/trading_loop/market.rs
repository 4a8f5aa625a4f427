//! Amount and prices of the benchmark's orders, chosen so that they trade with each other only.

use pitwire_client::{Error, Number, OrderRequest, OrderType, Side, Value, VenueConnection};
use pitwire_failure::Failure;
use serde::Deserialize;
use serde_json::json;

/// An instrument with the prices of the benchmark.
pub struct QuietMarket {
    pub instrument: String,
    /// The smallest amount that the venue accepts.
    pub amount: Number,
    /// Price far below the market, at which buys rest.
    pub resting_price: Number,
    /// Price better than every offer and worse than every bid, at which the two accounts trade.
    pub trade_price: Number,
}

#[derive(Deserialize)]
struct InstrumentFields {
    min_trade_amount: Value,
    tick_size: Value,
}

/// Prices of a book. Absent ones are null or zero.
#[derive(Default, Deserialize)]
struct BookPrices {
    best_bid_price: Option<f64>,
    best_ask_price: Option<f64>,
    last_price: Option<f64>,
    mark_price: Option<f64>,
}

impl QuietMarket {
    /// Reads the instrument and its book. `price` replaces the resting price.
    ///
    /// # Errors
    ///
    /// Fails if the venue has no such instrument, or if its book leaves no price for the orders.
    pub async fn find(
        connection: &VenueConnection,
        instrument: &str,
        price: Option<&Number>,
    ) -> Result<QuietMarket, Failure> {
        let name = json!({"instrument_name": instrument});
        let fields: InstrumentFields = connection.query("public/get_instrument", &name).await?;
        let book: BookPrices = connection.query("public/ticker", &name).await?;
        let tick = Tick::new(fields.tick_size);
        let number = |text: String| text.parse::<Number>().map_err(|what| Error::Garbled { what });
        let resting_price = match price {
            Some(price) => price.clone(),
            None => {
                let market = book.reference().ok_or_else(|| {
                    Failure::usage(format!("{instrument} has no price yet")).remedy("give a price with --price")
                })?;
                number(tick.text((market / 2.0 / tick.size).floor().max(1.0)))?
            }
        };
        let trade_price = match (present(book.best_bid_price), present(book.best_ask_price)) {
            (None, None) => resting_price.clone(),
            (Some(bid), None) => number(tick.text((bid / tick.size).round() + 1.0))?,
            (bid, Some(ask)) => {
                let price = (ask / tick.size).round() - 1.0;
                if price < 1.0 || bid.is_some_and(|bid| (bid / tick.size).round() >= price) {
                    return Err(Failure::new(format!("{instrument} has a spread of one tick"))
                        .remedy("name an instrument with a wider spread with --instrument"));
                }
                number(tick.text(price))?
            }
        };
        let amount = number(fields.min_trade_amount.to_string())?;
        Ok(QuietMarket { instrument: instrument.to_owned(), amount, resting_price, trade_price })
    }

    /// Returns a limit order of the smallest amount.
    pub fn order(&self, side: Side, price: &Number, label: Option<&str>) -> OrderRequest {
        let limit = OrderType::Limit { price: price.clone() };
        OrderRequest {
            label: label.map(str::to_owned),
            ..OrderRequest::new(side, self.instrument.clone(), self.amount.clone(), limit)
        }
    }
}

impl BookPrices {
    fn reference(&self) -> Option<f64> {
        [self.best_bid_price, self.last_price, self.mark_price].into_iter().find_map(present)
    }
}

fn present(price: Option<f64>) -> Option<f64> {
    price.filter(|price| *price > 0.0)
}

/// A tick size with the decimals of its text.
struct Tick {
    size: f64,
    decimals: usize,
}

impl Tick {
    fn new(size: Value) -> Tick {
        let decimals = size.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len());
        Tick { size: size.to_f64(), decimals }
    }

    fn text(&self, ticks: f64) -> String {
        format!("{:.*}", self.decimals, ticks * self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn price_has_the_decimals_of_the_tick() {
        for (size, ticks, text) in [("0.05", 3.0, "0.15"), ("0.5", 120_001.0, "60000.5"), ("5", 2.0, "10")] {
            assert_eq!(Tick::new(Value::parse(size).unwrap()).text(ticks), text);
        }
    }
}
