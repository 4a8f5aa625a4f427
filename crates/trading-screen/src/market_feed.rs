//! The channels of one instrument.

use pitwire_client::{BookEvent, BookSubscription, Error, OrderBook, Subscription, SubscriptionEvent, VenueConnection};
use serde::Deserialize;
use serde_json::json;

use crate::messages::{PublicTrade, Ticker};

/// Trades that are asked for at the start and after a gap.
const TRADES_AT_START: u32 = 100;

/// A change of the market.
#[derive(Debug)]
pub enum MarketEvent {
    /// The book has changed. It is not complete if there is a fault.
    Book {
        fault: Option<String>,
    },
    Trades(Vec<PublicTrade>),
    Ticker(Box<Ticker>),
    /// Messages are missing. The trades may have a gap.
    Gap,
}

/// The book, the trades and the ticker of an instrument.
#[derive(Debug)]
pub struct MarketFeed {
    book: BookSubscription,
    trades: Subscription,
    ticker: Subscription,
    first: Option<(Vec<PublicTrade>, Ticker)>,
}

impl MarketFeed {
    /// Subscribes to the channels, each at most ten times a second.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::subscribe`] and [`VenueConnection::query`].
    pub async fn open(connection: &VenueConnection, instrument: &str) -> Result<Self, Error> {
        let book = BookSubscription::open(connection, &format!("book.{instrument}.100ms")).await?;
        let trades = connection.subscribe(&format!("trades.{instrument}.100ms")).await?;
        let ticker = connection.subscribe(&format!("ticker.{instrument}.100ms")).await?;
        let earlier = latest_trades(connection, instrument).await?;
        let latest = connection.query("public/ticker", &json!({"instrument_name": instrument})).await?;
        Ok(MarketFeed { book, trades, ticker, first: Some((earlier, latest)) })
    }

    /// Returns the trades and the ticker of the start, once.
    pub fn take_first(&mut self) -> Option<(Vec<PublicTrade>, Ticker)> {
        self.first.take()
    }

    pub fn book(&self) -> &OrderBook {
        self.book.book()
    }

    /// Waits for the next change. Dropping the future loses no event.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended, or if the venue sends a message of another form.
    pub async fn next(&mut self) -> Result<MarketEvent, Error> {
        tokio::select! {
            event = self.book.next() => Ok(MarketEvent::Book {
                fault: match event? {
                    BookEvent::Snapshot | BookEvent::Changed => None,
                    BookEvent::Stale { reason } => Some(reason),
                },
            }),
            event = self.trades.next() => parse(event, MarketEvent::Trades),
            event = self.ticker.next() => parse(event, |ticker| MarketEvent::Ticker(Box::new(ticker))),
        }
    }
}

/// Asks for the latest trades. Returns the oldest first.
///
/// # Errors
///
/// As [`VenueConnection::query`].
pub async fn latest_trades(connection: &VenueConnection, instrument: &str) -> Result<Vec<PublicTrade>, Error> {
    #[derive(Deserialize)]
    struct Trades {
        trades: Vec<PublicTrade>,
    }
    let params = json!({"instrument_name": instrument, "count": TRADES_AT_START});
    let mut latest: Trades = connection.query("public/get_last_trades_by_instrument", &params).await?;
    // The venue lists the newest first. Others may not.
    latest.trades.reverse();
    latest.trades.sort_by_key(|trade| trade.timestamp);
    Ok(latest.trades)
}

fn parse<T: serde::de::DeserializeOwned>(
    event: SubscriptionEvent,
    wrap: impl Fn(T) -> MarketEvent,
) -> Result<MarketEvent, Error> {
    match event {
        SubscriptionEvent::Notice(notice) => serde_json::from_str(notice.data.get())
            .map(wrap)
            .map_err(|error| Error::Garbled { what: error.to_string() }),
        SubscriptionEvent::Lost { .. } | SubscriptionEvent::Restarted => Ok(MarketEvent::Gap),
        SubscriptionEvent::Ended { reason } => Err(Error::NotSent { method: "public/subscribe".into(), cause: reason }),
    }
}
