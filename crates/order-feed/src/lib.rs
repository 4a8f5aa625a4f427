//! The order-by-order feed: MITCH messages from the venue's events, and books rebuilt from them.
//!
//! Does        encodes the public order events of a venue as messages of MITCH 4.07, packs them
//!             into units, decodes them, and rebuilds the books of all instruments from them;
//!             translates them to ITCH 5.0 in packets of MoldUDP64, with snapshots of GLIMPSE 5.0.
//! Holds       1. after the messages of each command, a rebuilt book has the displayed orders of
//!                the venue's book, with their prices, displayed quantities and places;
//!             2. an order that is not displayed causes no message; its trades show no order;
//!             3. a decoder accepts any bytes and answers with a message or an error;
//!             4. an instrument whose prices do not fit the encoding is not in the feed.
//! Leaves out  sockets.
//! Start at    [`OrderFeedEncoder::observe`], [`BookBuilder::apply`] and
//!             [`BookBuilder::apply_itch`]; `docs/order-feed.md` describes the formats.

#![warn(clippy::missing_errors_doc)]

mod book;
mod encoder;
mod fields;
mod glimpse;
pub mod itch;
mod itch_book;
mod itch_translator;
mod messages;
mod mold;
mod packet_buffer;
mod slot_pool;
mod trading_status;
mod unit;
mod visible_changes;

pub use book::{BookBuilder, BookError, InstrumentState, RebuiltOrder};
pub use encoder::{FeedEncoding, OrderFeedEncoder};
pub use fields::{Alpha, FieldKind, FieldValue, FillerBytes, Letter, MitchField, MitchPrice};
pub use glimpse::{GlimpseError, GlimpseLogin, GlimpsePacket, SESSION_NOT_AVAILABLE, SOUP_HEADER_BYTES};
pub use itch_translator::ItchTranslator;
pub use messages::*;
pub use mold::{MOLD_HEADER_BYTES, MOLD_SESSION_BYTES, MoldHeader, MoldKind, MoldPacket, MoldWriter};
pub use packet_buffer::MAX_UNIT_BYTES;
pub use unit::{
    MARKET_DATA_GROUP, UNIT_HEADER_BYTES, Unit, UnitError, UnitHeader, UnitMessages, UnitWriter, full_number,
    wire_number,
};
pub use visible_changes::{VisibleChange, VisibleChanges};
