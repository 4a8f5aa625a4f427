//! The messages of the schema. `contracts/pitwire-order-entry.xml` defines the same messages for
//! other languages; a test compares both.

use serde::Serialize;

use crate::codec::{
    DecodeError, FRAME_HEADER_BYTES, Field, FixedDecimal, GroupEntry, Text, take, take_field, write_frame,
};
use crate::schema::{HeaderWords, enums, messages};

const SCHEMA_ID: u16 = 7401;
const SCHEMA_VERSION: u16 = 0;

enums! {
    /// Side of an order.
    OrderSide { Buy = 1, Sell = 2 }
    /// Type of an order.
    EntryType { Market = 1, Limit = 2, StopMarket = 3, StopLimit = 4 }
    /// Time in force of an order. `Default` leaves the choice to the venue.
    EntryTimeInForce {
        Default = 0, Day = 1, Gtc = 2, Gtd = 3, Gtt = 4, Ioc = 5, Fok = 6, Opg = 7, Gfa = 8, Gfx = 9, Atc = 10,
        Cpx = 11,
    }
    Flag { No = 0, Yes = 1 }
    /// Orders that a mass cancel selects.
    MassCancelScope { All = 1, Instrument = 2 }
    /// Subject of a market query.
    QuerySubject { BestPrices = 1, Vwap = 2, Book = 3, Status = 4 }
    /// State of an order.
    OrderStatus { Open = 1, Filled = 2, Cancelled = 3, Untriggered = 4, Triggered = 5, Rejected = 6 }
    /// Reason of an execution report.
    ExecutionType { New = 1, Trade = 2, Amended = 3, Cancelled = 4, Triggered = 5, Rejected = 6, Restated = 7 }
    /// Whether a fill added or removed liquidity. `None` stands in reports that are not fills.
    LiquidityFlag { None = 0, Added = 1, Removed = 2 }
}

messages! {
    /// One message of the schema.
    enum SbeMessage;
    /// Opens a session. The first message of a client.
    Logon = 1 {
        client_id: Text<64>,
        secret: Text<128>,
        /// First number that the client has not received. 0: only new messages.
        next_sequence: u64,
        /// Interval of heartbeats in seconds, 1 to 60.
        heartbeat_s: u16,
    }
    LogonAccepted = 2 {
        /// Identifies the numbering. It changes when the venue starts again.
        epoch: u64,
        /// Number of the next new message.
        next_sequence: u64,
        /// Oldest message that the gateway still has.
        oldest_sequence: u64,
    }
    /// Ends the connection, in both directions. Code 0: regular.
    Logout = 3 { code: i32 } + { reason: String }
    Heartbeat = 4 {
        /// Number of the next new message. 0 from a client.
        next_sequence: u64,
    }
    /// Asks for messages again, both ends included.
    RetransmitRequest = 5 { from_sequence: u64, to_sequence: u64 }
    /// Follows the repeated messages.
    RetransmitComplete = 6 {
        from_sequence: u64,
        to_sequence: u64,
        /// Requested messages that the gateway does not have.
        missing: u64,
    }
    NewOrder = 10 {
        request_id: u64,
        client_order_id: Text<64>,
        instrument_id: u32,
        side: OrderSide,
        order_type: EntryType,
        time_in_force: EntryTimeInForce,
        hidden: Flag,
        post_only: Flag,
        quantity: Option<FixedDecimal>,
        price: Option<FixedDecimal>,
        trigger_price: Option<FixedDecimal>,
        display_quantity: Option<FixedDecimal>,
        minimum_quantity: Option<FixedDecimal>,
        /// Gtt: milliseconds of venue time since 1970. Gtd: the date as YYYYMMDD. Else 0.
        expires: u64,
    }
    AmendOrder = 11 {
        request_id: u64,
        order_id: u64,
        quantity: Option<FixedDecimal>,
        price: Option<FixedDecimal>,
        trigger_price: Option<FixedDecimal>,
        display_quantity: Option<FixedDecimal>,
        minimum_quantity: Option<FixedDecimal>,
    }
    CancelOrder = 12 { request_id: u64, order_id: u64 }
    MassCancel = 13 { request_id: u64, scope: MassCancelScope, instrument_id: u32 }
    MarketQuery = 14 {
        request_id: u64,
        instrument_id: u32,
        subject: QuerySubject,
        /// Levels per side of a book.
        depth: u16,
    }
    /// Answers a new order, an amend and a cancel.
    OrderAccepted = 20 {
        sequence: u64,
        request_id: u64,
        order_id: u64,
        client_order_id: Text<64>,
        status: OrderStatus,
        quantity: Option<FixedDecimal>,
        filled_quantity: Option<FixedDecimal>,
    }
    MassCancelAccepted = 21 { sequence: u64, request_id: u64, cancelled: u32 }
    /// Reports a change of an own order. Any participant or protocol may have caused it.
    ExecutionReport = 22 {
        sequence: u64,
        execution_type: ExecutionType,
        status: OrderStatus,
        side: OrderSide,
        liquidity: LiquidityFlag,
        instrument_id: u32,
        order_id: u64,
        client_order_id: Text<64>,
        price: Option<FixedDecimal>,
        quantity: Option<FixedDecimal>,
        filled_quantity: Option<FixedDecimal>,
        last_price: Option<FixedDecimal>,
        last_quantity: Option<FixedDecimal>,
        /// Number of the public trade in its instrument. 0 in reports that are not fills.
        trade_sequence: u64,
        /// Venue time in milliseconds since 1970.
        transact_time_ms: u64,
        cancel_reason: Text<32>,
    }
    /// Answers a request that had no effect, and a message that cannot be decoded.
    Reject = 23 {
        sequence: u64,
        /// 0 if the request could not be decoded.
        request_id: u64,
        template_id: u16,
        code: i32,
    } + { name: String, reason: String, remedy: String }
    BestPrices = 24 {
        sequence: u64,
        request_id: u64,
        instrument_id: u32,
        bid_price: Option<FixedDecimal>,
        bid_quantity: Option<FixedDecimal>,
        ask_price: Option<FixedDecimal>,
        ask_quantity: Option<FixedDecimal>,
    }
    Vwap = 25 {
        sequence: u64,
        request_id: u64,
        instrument_id: u32,
        /// VWAP of the day's trades.
        trades: Option<FixedDecimal>,
        /// VWAP of the visible bids.
        bid: Option<FixedDecimal>,
        /// VWAP of the visible offers.
        ask: Option<FixedDecimal>,
    }
    Book = 26 { sequence: u64, request_id: u64, instrument_id: u32 } + { levels: Vec<SbeLevel> }
    InstrumentStatus = 27 {
        sequence: u64,
        request_id: u64,
        instrument_id: u32,
        session: Text<32>,
        state: Text<32>,
    }
    /// Reports of own orders are missing before this message. The client must query its orders.
    ReportsLost = 28 { sequence: u64, count: u64 }
}

/// One price level of a book. Bids come first, each side from its best price.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SbeLevel {
    pub side: OrderSide,
    pub price: Option<FixedDecimal>,
    pub quantity: Option<FixedDecimal>,
}

impl GroupEntry for SbeLevel {
    const BYTES: usize = 17;
    type Length = u16;
    type Count = u16;
    fn write(&self, out: &mut Vec<u8>) {
        self.side.write(out);
        self.price.write(out);
        self.quantity.write(out);
    }
    fn read(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let side = take_field(bytes, "side")?;
        Ok(SbeLevel { side, price: take_field(bytes, "price")?, quantity: take_field(bytes, "quantity")? })
    }
}

impl SbeMessage {
    /// Appends the message with its headers to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write_frame(out, |out| {
            self.header_words().write(out, SCHEMA_ID, SCHEMA_VERSION);
            self.write_fields(out);
        });
    }

    /// Decodes a whole frame.
    ///
    /// # Errors
    ///
    /// Fails if the header, the block length or a field differs from the schema, and if the frame
    /// is longer or shorter than its message.
    pub fn decode(frame: &[u8]) -> Result<SbeMessage, DecodeError> {
        let mut bytes = frame;
        take(&mut bytes, FRAME_HEADER_BYTES)?;
        let words = HeaderWords::read(&mut bytes, SCHEMA_ID, SCHEMA_VERSION)?;
        SbeMessage::read_fields(words, bytes)
    }

    /// Returns the number that the client has given to a request; zero for another message.
    pub(crate) fn request_id(&self) -> u64 {
        match self {
            SbeMessage::NewOrder(order) => order.request_id,
            SbeMessage::AmendOrder(order) => order.request_id,
            SbeMessage::CancelOrder(order) => order.request_id,
            SbeMessage::MassCancel(cancel) => cancel.request_id,
            SbeMessage::MarketQuery(query) => query.request_id,
            _ => 0,
        }
    }

    /// Returns the instrument that a request names.
    pub(crate) fn instrument_id(&self) -> Option<u32> {
        match self {
            SbeMessage::NewOrder(order) => Some(order.instrument_id),
            SbeMessage::MassCancel(cancel) if cancel.scope == MassCancelScope::Instrument => Some(cancel.instrument_id),
            SbeMessage::MarketQuery(query) => Some(query.instrument_id),
            _ => None,
        }
    }

    /// Sets the number of a message. Messages of the session protocol and requests have none.
    pub(crate) fn set_sequence(&mut self, sequence: u64) {
        match self {
            SbeMessage::OrderAccepted(message) => message.sequence = sequence,
            SbeMessage::MassCancelAccepted(message) => message.sequence = sequence,
            SbeMessage::ExecutionReport(message) => message.sequence = sequence,
            SbeMessage::Reject(message) => message.sequence = sequence,
            SbeMessage::BestPrices(message) => message.sequence = sequence,
            SbeMessage::Vwap(message) => message.sequence = sequence,
            SbeMessage::Book(message) => message.sequence = sequence,
            SbeMessage::InstrumentStatus(message) => message.sequence = sequence,
            SbeMessage::ReportsLost(message) => message.sequence = sequence,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema_file::{SchemaMessage, camel_case, schema_messages};

    const SCHEMA: &str = include_str!("../../../contracts/pitwire-order-entry.xml");

    #[test]
    fn codec_has_the_messages_and_fields_of_the_schema_in_order() {
        let ours: Vec<SchemaMessage> = SbeMessage::LAYOUTS
            .iter()
            .map(|(id, name, fields, parts)| {
                let fields = fields.iter().map(|(field, _)| field).chain(parts.iter());
                (*id, (*name).to_owned(), fields.map(|field| camel_case(field)).collect())
            })
            .collect();
        assert_eq!(ours, schema_messages(SCHEMA));
        assert!(SCHEMA.contains(&format!(r#"id="{SCHEMA_ID}""#)));
        assert!(SCHEMA.contains(&format!(r#"version="{SCHEMA_VERSION}""#)));
    }
}
