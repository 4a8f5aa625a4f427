//! The order-by-order feed: MITCH messages from the venue's events, and books rebuilt from them.
//!
//! Does        encodes the public order events of a venue as messages of MITCH 4.07, packs them
//!             into units, decodes them, and rebuilds the books of all instruments from them.
//! Holds       1. after the messages of each command, a rebuilt book has the displayed orders of
//!                the venue's book, with their prices, displayed quantities and places;
//!             2. an order that is not displayed causes no message; its trades show no order;
//!             3. a decoder accepts any bytes and answers with a message or an error;
//!             4. an instrument whose tick needs more than eight decimals is not in the feed.
//! Leaves out  sockets.
//! Start at    [`OrderFeedEncoder::observe`] and [`BookBuilder::apply`]; `docs/order-feed.md`
//!             describes the format.

#![warn(clippy::missing_errors_doc)]

mod book;
mod dissector;
mod encoder;
mod fields;
mod messages;
mod trading_status;
mod unit;

pub use book::{BookBuilder, BookError, InstrumentState, RebuiltOrder};
pub use dissector::wireshark_dissector;
pub use encoder::OrderFeedEncoder;
pub use fields::{Alpha, FieldKind, FillerBytes, Letter, MitchField, MitchPrice};
pub use messages::*;
pub use unit::{
    MARKET_DATA_GROUP, MAX_UNIT_BYTES, UNIT_HEADER_BYTES, Unit, UnitError, UnitHeader, UnitMessages, UnitWriter,
    full_number, wire_number,
};
