//! Why the engine said no. Numbers on the wire and remedies stand in `contracts/errors.toml`.

macro_rules! rejects {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reject { $($(#[$doc])* $variant = $code,)* }

        impl Reject {
            pub const ALL: &'static [Reject] = &[$(Reject::$variant),*];

            /// The name under which `contracts/errors.toml` knows this reason.
            pub const fn name(self) -> &'static str {
                match self { $(Reject::$variant => $name,)* }
            }

            pub fn from_code(code: u8) -> Option<Reject> {
                match code { $($code => Some(Reject::$variant),)* _ => None }
            }
        }
    };
}

rejects! {
    UnknownInstrument = 1, "unknown_instrument";
    UnknownAccount = 2, "unknown_account";
    UnknownCurrency = 3, "unknown_currency";
    /// The phase takes no entries or amends.
    NotOpen = 4, "not_open";
    /// Zero lots, or more than one order may carry.
    QuantityOutOfRange = 5, "quantity_out_of_range";
    /// Below one tick, or above what a book can hold.
    PriceOutOfRange = 6, "price_out_of_range";
    /// Another live order has this id.
    DuplicateOrderId = 7, "duplicate_order_id";
    NotEnoughFunds = 8, "not_enough_funds";
    /// The instrument holds as many resting orders as it may.
    BookFull = 9, "book_full";
    /// No live order has this id.
    UnknownOrder = 10, "unknown_order";
    NotOwner = 11, "not_owner";
    /// The new total is not more than what has traded already.
    AmountAlreadyFilled = 12, "amount_already_filled";
    /// A name or id that exists already, or is out of sequence.
    AlreadyExists = 13, "already_exists";
    /// A definition that contradicts itself or names what is not there.
    BadDefinition = 14, "bad_definition";
    /// An account cannot hold more digits than money has here.
    AmountOverflow = 15, "amount_overflow";
    /// Post-only, and the price would trade with the visible book.
    PostOnlyWouldTrade = 16, "post_only_would_trade";
    /// Post-only, and there is no price short of the other side's best.
    PostOnlyNoPlace = 17, "post_only_no_place";
    /// Post-only on an order that cannot rest.
    PostOnlyNotAllowed = 18, "post_only_not_allowed";
    /// An iceberg's peak is zero, more than the order, or given for an order that cannot rest.
    DisplayOutOfRange = 19, "display_out_of_range";
    QuantityAboveLimit = 20, "quantity_above_limit";
    NotionalAboveLimit = 21, "notional_above_limit";
    PriceBelowCollar = 22, "price_below_collar";
    PriceAboveCollar = 23, "price_above_collar";
    TooManyOpenOrders = 24, "too_many_open_orders";
    /// The session, the account or the venue is killed.
    Killed = 25, "killed";
    ExecutionThrottle = 26, "execution_throttle";
    AccountClosed = 27, "account_closed";
    InstrumentDeleted = 28, "instrument_deleted";
    UnknownTrade = 29, "unknown_trade";
    AlreadyBusted = 30, "already_busted";
    /// The command made the engine fail and was taken out of the log.
    Quarantined = 31, "quarantined";
    /// Orders of this type never have this time in force.
    TifNotAllowedForType = 32, "tif_not_allowed_for_type";
    TifNotAllowedInSession = 33, "tif_not_allowed_in_session";
    TypeNotAllowedInSession = 34, "type_not_allowed_in_session";
    /// The session it waits for does not come any more today.
    NoAuctionScheduled = 35, "no_auction_scheduled";
    /// A hidden order below the instrument's minimum reserve size.
    QuantityBelowReserve = 36, "quantity_below_reserve";
    MinimumExecutionOutOfRange = 37, "minimum_execution_out_of_range";
    ExpiryPassed = 38, "expiry_passed";
    ExpiryTooFar = 39, "expiry_too_far";
    /// Too far from the static reference.
    PriceOutsideBand = 40, "price_outside_band";
    /// Side, type and time in force never change.
    NotAmendable = 41, "not_amendable";
    /// From the session that runs there is no way into that one.
    SessionNotAllowed = 42, "session_not_allowed";
    /// Outside the hours of trade reporting.
    ReportingClosed = 43, "reporting_closed";
    /// So many of the account's reports wait in this instrument already.
    TooManyReports = 44, "too_many_reports";
    /// No report with this number waits for this account.
    UnknownReport = 45, "unknown_report";
    /// Who reported cannot confirm.
    OwnReport = 46, "own_report";
}
