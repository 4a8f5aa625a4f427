//! Messages of the venue that the screen shows. Unknown fields are ignored, and absent ones are
//! allowed where venues differ.

use pitwire_client::Value;
use serde::Deserialize;

/// The data of `ticker.INSTRUMENT.INTERVAL`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ticker {
    /// Venue time in milliseconds.
    pub timestamp: i64,
    pub state: String,
    /// The session. Only this venue has sessions.
    pub session: Option<String>,
    /// End of the session, in milliseconds of venue time.
    pub session_ends: Option<i64>,
    pub last_price: Option<Value>,
    pub mark_price: Option<Value>,
    /// Indicative data of a call.
    pub indicative_price: Option<Value>,
    pub indicative_volume: Option<Value>,
    pub imbalance: Option<Value>,
    pub imbalance_side: Option<String>,
    pub stats: DayStatistics,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DayStatistics {
    pub high: Option<Value>,
    pub low: Option<Value>,
    pub volume: Option<Value>,
}

/// A trade of `trades.INSTRUMENT.INTERVAL`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PublicTrade {
    pub trade_id: String,
    pub price: Value,
    pub amount: Value,
    /// Direction of the incoming order.
    pub direction: String,
    /// Venue time in milliseconds.
    pub timestamp: i64,
}

/// A trade of `user.trades`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct OwnTrade {
    pub instrument_name: String,
    pub direction: String,
    pub price: Value,
    pub amount: Value,
}

/// The balance of one currency.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Balance {
    pub currency: String,
    pub balance: Value,
    pub available_funds: Option<Value>,
}

/// The answer of `private/get_account_summaries`.
#[derive(Debug, Deserialize)]
pub struct Balances {
    pub summaries: Vec<Balance>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticker_of_another_venue_has_no_session() {
        let ticker: Ticker = serde_json::from_str(
            r#"{"timestamp":5,"state":"open","last_price":null,"stats":{"high":null,"volume":1.5},"greeks":{}}"#,
        )
        .unwrap();
        assert_eq!((ticker.session, ticker.last_price, ticker.session_ends), (None, None, None));
        assert_eq!(ticker.stats.volume, Value::parse("1.5"));
    }
}
