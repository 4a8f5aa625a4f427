//! The terms of an order: type, time in force, post-only, self-match prevention group.

use crate::{Lots, Ticks, VenueDay, VenueNanos};

/// The type of an order with its prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OrderType {
    Limit {
        price: Ticks,
    },
    /// Trades at any price. A remainder is cancelled, unless the order waits for a call.
    Market,
    /// A limit order that is not displayed and that trades at least `minimum_execution` lots at a
    /// time.
    Hidden {
        price: Ticks,
        minimum_execution: Lots,
    },
    /// Becomes a market order when the last price reaches `stop`.
    Stop {
        stop: Ticks,
    },
    /// Becomes a limit order when the last price reaches `stop`.
    StopLimit {
        stop: Ticks,
        price: Ticks,
    },
}

impl OrderType {
    pub const fn limit_price(self) -> Option<Ticks> {
        match self {
            OrderType::Limit { price } | OrderType::Hidden { price, .. } | OrderType::StopLimit { price, .. } => {
                Some(price)
            }
            OrderType::Market | OrderType::Stop { .. } => None,
        }
    }

    pub const fn stop_price(self) -> Option<Ticks> {
        match self {
            OrderType::Stop { stop } | OrderType::StopLimit { stop, .. } => Some(stop),
            _ => None,
        }
    }

    /// Returns the type after an accepted amend. `None` keeps a value.
    #[must_use]
    pub fn amended(self, price: Ticks, new_stop: Option<Ticks>, new_minimum: Option<Lots>) -> OrderType {
        match self {
            OrderType::Limit { .. } => OrderType::Limit { price },
            OrderType::Market => OrderType::Market,
            OrderType::Hidden { minimum_execution, .. } => {
                OrderType::Hidden { price, minimum_execution: new_minimum.unwrap_or(minimum_execution) }
            }
            OrderType::Stop { stop } => OrderType::Stop { stop: new_stop.unwrap_or(stop) },
            OrderType::StopLimit { stop, .. } => OrderType::StopLimit { stop: new_stop.unwrap_or(stop), price },
        }
    }
}

/// How long an order lives, or for which session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeInForce {
    /// Until the end of the venue day.
    Day,
    /// Until cancelled, for at most ninety days.
    GoodTillCancel,
    /// Trades at once; the remainder is cancelled.
    ImmediateOrCancel,
    /// Trades at once and completely, or not at all.
    FillOrKill,
    /// Until the end of a venue day.
    GoodTillDate { day: VenueDay },
    /// Until a time on the same venue day.
    GoodTillTime { at: VenueNanos },
    /// OPG: only the opening call.
    OpeningCall,
    /// GFA: every call; parked in between.
    AnyCall,
    /// GFX: the next intraday call.
    IntradayCall,
    /// ATC: the closing call.
    ClosingCall,
    /// CPX: the closing price cross.
    ClosingCross,
}

impl TimeInForce {
    /// Returns the time in force after an accepted amend, which can change the date or time only.
    #[must_use]
    pub fn amended(self, expiry: Option<Expiry>) -> TimeInForce {
        match (self, expiry) {
            (TimeInForce::GoodTillDate { .. }, Some(Expiry::Day(day))) => TimeInForce::GoodTillDate { day },
            (TimeInForce::GoodTillTime { .. }, Some(Expiry::Time(at))) => TimeInForce::GoodTillTime { at },
            _ => self,
        }
    }

    /// Returns whether a remainder may rest in continuous trading.
    pub const fn rests(self) -> bool {
        !matches!(self, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
    }

    /// Returns the code in journals.
    pub const fn code(self) -> u8 {
        match self {
            TimeInForce::Day => 0,
            TimeInForce::GoodTillCancel => 1,
            TimeInForce::ImmediateOrCancel => 2,
            TimeInForce::FillOrKill => 3,
            TimeInForce::GoodTillDate { .. } => 4,
            TimeInForce::GoodTillTime { .. } => 5,
            TimeInForce::OpeningCall => 6,
            TimeInForce::AnyCall => 7,
            TimeInForce::IntradayCall => 8,
            TimeInForce::ClosingCall => 9,
            TimeInForce::ClosingCross => 10,
        }
    }

    /// Returns the name in the rulebook and in `contracts/rules`.
    pub const fn name(self) -> &'static str {
        match self {
            TimeInForce::Day => "day",
            TimeInForce::GoodTillCancel => "gtc",
            TimeInForce::ImmediateOrCancel => "ioc",
            TimeInForce::FillOrKill => "fok",
            TimeInForce::GoodTillDate { .. } => "gtd",
            TimeInForce::GoodTillTime { .. } => "gtt",
            TimeInForce::OpeningCall => "opg",
            TimeInForce::AnyCall => "gfa",
            TimeInForce::IntradayCall => "gfx",
            TimeInForce::ClosingCall => "atc",
            TimeInForce::ClosingCross => "cpx",
        }
    }
}

/// The date of a GTD order or the time of a GTT order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expiry {
    Day(VenueDay),
    Time(VenueNanos),
}

/// Whether an order may only add to the displayed book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PostOnly {
    #[default]
    No = 0,
    /// An order that would trade is repriced to one tick short of the best displayed opposite
    /// price.
    Reprice = 1,
    /// An order that would trade is refused.
    Reject = 2,
}

/// Which orders self-match prevention treats as belonging together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MatchGroup {
    /// All orders of the account without a key.
    #[default]
    Account,
    /// This order alone, which disables self-match prevention.
    Order,
    /// All orders with this key, of any account.
    Key(u32),
}
