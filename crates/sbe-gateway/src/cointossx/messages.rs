//! The messages of the CoinTossX schemas. `contracts/cointossx-*.xml` define the same messages for
//! other languages; a test compares both.

use serde::{Serialize, Serializer};

use crate::codec::{
    DecodeError, FRAME_HEADER_BYTES, Field, FixedDecimal, GroupEntry, padded, split_at_nul, take, take_field,
    write_frame,
};
use crate::schema::{HeaderWords, enums, messages};

const SCHEMA_ID: u16 = 1;
const SCHEMA_VERSION: u16 = 0;

/// Text of `N` bytes, padded with spaces or NUL.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PaddedText<const N: usize>([u8; N]);

impl<const N: usize> PaddedText<N> {
    /// Copies a text and pads it with spaces. Cuts it at the last character that fits.
    pub fn new(text: &str) -> Self {
        PaddedText(padded(text, b' '))
    }

    /// Returns the text without its padding.
    pub fn as_str(&self) -> &str {
        split_at_nul(&self.0).map_or("", |(text, _)| text.trim_end())
    }
}

impl<const N: usize> std::fmt::Debug for PaddedText<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl<const N: usize> Serialize for PaddedText<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<const N: usize> Field for PaddedText<N> {
    const BYTES: usize = N;
    fn put(&self, place: &mut [u8]) {
        place.copy_from_slice(&self.0);
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        split_at_nul(bytes)?;
        Some(PaddedText(bytes.try_into().ok()?))
    }
}

/// Price in units of 1e-4. The smallest mantissa stands for "no price".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CtxPrice(pub i64);

impl CtxPrice {
    pub const NONE: CtxPrice = CtxPrice(i64::MIN);
    /// Units of a [`FixedDecimal`] in one unit of this type.
    const RATIO: i64 = 10_000;

    /// Converts a price exactly; `None` converts to no price. Returns `None` if the price is not a
    /// multiple of 1e-4.
    pub fn of(price: Option<FixedDecimal>) -> Option<CtxPrice> {
        match price {
            None => Some(CtxPrice::NONE),
            Some(price) => (price.0 % Self::RATIO == 0).then_some(CtxPrice(price.0 / Self::RATIO)),
        }
    }

    /// Converts the price, or returns `None` if its value is outside [`FixedDecimal`].
    pub fn decimal(self) -> Option<FixedDecimal> {
        self.0.checked_mul(Self::RATIO).map(FixedDecimal)
    }
}

impl Serialize for CtxPrice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.decimal().serialize(serializer)
    }
}

impl Field for CtxPrice {
    const BYTES: usize = 8;
    fn put(&self, place: &mut [u8]) {
        self.0.put(place);
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        i64::read(bytes).map(CtxPrice)
    }
}

enums! {
    CtxOrderType { Market = 1, Limit = 2, Stop = 3, StopLimit = 4 }
    CtxTimeInForce {
        Day = 0, Gtc = 1, Ioc = 3, Fok = 4, Opg = 5, Gtd = 6, Gtt = 8, Gfa = 9, Atc = 10, Cpx = 12, Gfx = 51,
    }
    CtxSide { Buy = 1, Sell = 2 }
    /// Side in market data.
    CtxPublicSide { Buy = b'B', Sell = b'S' }
    CtxMassCancelType {
        AllFirmOrdersForInstrument = 3, AllFirmOrdersForSegment = 4, AllOrdersForClient = 7, AllOrdersForFirm = 8,
        ClientFirmOrdersForInstrument = 9, ClientFirmOrdersForSegment = 15,
    }
    CtxExecutionType {
        New = b'0', Cancelled = b'4', Amended = b'5', Rejected = b'8', Suspended = b'9', Expired = b'C', Trade = b'F',
        TradeCorrect = b'G', TradeCancel = b'H', Restated = b'D', Triggered = b'L',
    }
    CtxOrderStatus {
        New = 0, PartiallyFilled = 1, Filled = 2, Cancelled = 4, Expired = 6, Rejected = 8, Suspended = 9,
    }
    CtxContainer { None = 0, Main = 1, MarketOrder = 3, ParkedOrder = 5, StopOrder = 6 }
    CtxTradingSession {
        StartOfTrading = 0, OpeningAuctionCall = 1, ContinuousTrading = 2, FcoAuctionCall = 3,
        VolatilityAuctionCall = 4, IntraDayAuctionCall = 5, ClosingAuctionCall = 6, ClosingPricePublication = 7,
        ClosingPriceCross = 8, PostClose = 9, TradeReporting = 10,
    }
    CtxAdminType {
        SimulationComplete = 0, WarmUpComplete = 1, Lob = 2, ShutDown = 3, Vwap = 4, StartLob = 5, EndLob = 6,
        BestBidOfferRequest = 7, StartMessage = 8, EndMessage = 9,
    }
}

messages! {
    /// One message of the CoinTossX schemas.
    enum CtxMessage;
    CtxLogon = 1 { comp_id: i32, password: PaddedText<10>, new_password: PaddedText<10> }
    CtxLogonResponse = 2 { reject_code: i32, password_expiry: i32 }
    CtxLogout = 3 { reason: PaddedText<20> }
    CtxReject = 4 {
        reject_code: i32,
        reject_reason: PaddedText<30>,
        /// Letter of the refused message in the JSE's native protocol.
        message_type: u8,
        client_order_id: PaddedText<20>,
    }
    CtxMissedMessageRequest = 5 { partition_id: u8, sequence_number: i32 }
    CtxMissedMessageRequestAck = 6 { status: u8 }
    CtxTransmissionComplete = 7 { status: u8 }
    CtxSystemStatus = 8 { status: u8 }
    CtxNewOrder = 9 {
        client_order_id: PaddedText<20>,
        security_id: i32,
        trader_mnemonic: PaddedText<17>,
        account: PaddedText<10>,
        order_type: CtxOrderType,
        time_in_force: CtxTimeInForce,
        expire_time: PaddedText<17>,
        side: CtxSide,
        order_quantity: i32,
        display_quantity: i32,
        min_quantity: i32,
        limit_price: CtxPrice,
        stop_price: CtxPrice,
        capacity: u8,
        cancel_on_disconnect: u8,
        order_book: u8,
    }
    CtxOrderCancelRequest = 10 {
        client_order_id: PaddedText<20>,
        orig_client_order_id: PaddedText<20>,
        order_id: i32,
        security_id: i32,
        trader_mnemonic: PaddedText<17>,
        side: u8,
        order_book: u8,
        limit_price: CtxPrice,
    }
    CtxOrderMassCancelRequest = 11 {
        client_order_id: PaddedText<20>,
        mass_cancel_request_type: CtxMassCancelType,
        security_id: i32,
        segment: PaddedText<6>,
        order_sub_type: u8,
        order_book: u8,
    }
    CtxOrderCancelReplaceRequest = 12 {
        client_order_id: PaddedText<20>,
        orig_client_order_id: PaddedText<20>,
        order_id: i32,
        security_id: i32,
        trader_mnemonic: PaddedText<17>,
        account: PaddedText<10>,
        order_type: CtxOrderType,
        time_in_force: u8,
        expire_time: PaddedText<17>,
        side: u8,
        order_quantity: i32,
        display_quantity: i32,
        min_quantity: i32,
        limit_price: CtxPrice,
        stop_price: CtxPrice,
        order_book: u8,
    }
    CtxExecutionReport = 13 {
        partition_id: u8,
        sequence_number: i32,
        execution_id: PaddedText<21>,
        client_order_id: PaddedText<20>,
        order_id: i32,
        execution_type: CtxExecutionType,
        order_status: CtxOrderStatus,
        reject_code: i32,
        leaves_quantity: i32,
        container: CtxContainer,
        security_id: i32,
        side: CtxSide,
        trader_mnemonic: PaddedText<17>,
        account: PaddedText<10>,
        is_market_ops_request: u8,
        /// Venue time in milliseconds since 1970.
        transact_time: u64,
        order_book: u8,
    } + { fills_group: Vec<CtxFill> }
    CtxOrderCancelReject = 14 {
        partition_id: u8,
        sequence_number: i32,
        client_order_id: PaddedText<20>,
        order_id: i32,
        transact_time: u64,
        reject_code: i32,
        order_book: u8,
    }
    CtxOrderMassCancelReport = 15 {
        partition_id: u8,
        sequence_number: i32,
        client_order_id: PaddedText<20>,
        status: u8,
        reject_code: i32,
        transact_time: u64,
        order_book: u8,
    }
    CtxNews = 16 {
        partition_id: u8,
        sequence_number: i32,
        orig_time: PaddedText<8>,
        urgency: u8,
        head_line: PaddedText<100>,
        text: Box<PaddedText<750>>,
        instruments: PaddedText<100>,
    }
    CtxBusinessReject = 17 {
        partition_id: u8,
        sequence_number: i32,
        reject_code: i32,
        client_order_id: PaddedText<20>,
        order_id: i32,
        transact_time: u64,
    }
    CtxUnitHeader = 18 { message_count: u16, market_data_group: i8, sequence_number: u16 }
    CtxAddOrder = 19 {
        message_type: u8,
        nanosecond: u32,
        order_id: u64,
        side: CtxPublicSide,
        quantity: u32,
        instrument_id: u32,
        price: CtxPrice,
        flags: u8,
    }
    CtxOrderDeleted = 20 { message_type: u8, nanosecond: u32, order_id: u64 }
    CtxOrderModified = 21 {
        message_type: u8,
        nanosecond: u32,
        order_id: u64,
        new_quantity: u32,
        new_price: CtxPrice,
        flags: u8,
    }
    CtxOrderExecuted = 22 { message_type: u8, nanosecond: u32, order_id: u64, executed_quantity: u32, trade_id: u32 }
    CtxOrderExecutedWithPriceSize = 23 {
        message_type: u8,
        nanosecond: u32,
        order_id: u64,
        executed_quantity: u32,
        display_quantity: u32,
        trade_id: u32,
        printable: u8,
        price: CtxPrice,
        instrument_id: u32,
        client_order_id: u64,
        /// Venue time in milliseconds since 1970.
        executed_time: u64,
    }
    CtxTrade = 24 {
        message_type: u8,
        nanosecond: u32,
        executed_quantity: u32,
        instrument_id: u32,
        price: CtxPrice,
        trade_id: u64,
    }
    CtxAuctionTrade = 25 {
        message_type: u8,
        nanosecond: u32,
        executed_quantity: u32,
        instrument_id: u32,
        price: CtxPrice,
        trade_id: u64,
    }
    CtxBestBidOffer = 26 {
        message_type: u8,
        instrument_id: u32,
        bid: CtxPrice,
        bid_quantity: u32,
        offer: CtxPrice,
        offer_quantity: u32,
    }
    CtxSymbolStatus = 27 {
        message_type: u8,
        nanosecond: u32,
        instrument_id: u32,
        trading_session: CtxTradingSession,
        halt_reason: i32,
        session_changed_reason: u8,
        static_price_reference: CtxPrice,
        dynamic_price_reference: CtxPrice,
    }
    CtxTradingSessionMessage = 90 { trading_session: CtxTradingSession, security_id: i32 }
    CtxAdmin = 91 { admin_message: CtxAdminType, security_id: i32 }
    CtxClientHawkesCounter = 92 { client_id: i32, max: i32, complete: i32 }
    CtxOrderView = 93 {
        security_id: i32,
        client_order_id: PaddedText<20>,
        order_id: i32,
        submitted_time: u64,
        price: CtxPrice,
        order_quantity: i32,
        side: CtxSide,
    }
    CtxLob = 94 { security_id: i32 } + { orders: Vec<CtxLobOrder> }
    CtxVwap = 95 { security_id: i32, bid_vwap: CtxPrice, offer_vwap: CtxPrice }
}

/// One fill of an execution report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CtxFill {
    pub fill_price: CtxPrice,
    pub fill_qty: i32,
}

impl GroupEntry for CtxFill {
    const BYTES: usize = 12;
    type Length = u16;
    type Count = u8;
    fn write(&self, out: &mut Vec<u8>) {
        self.fill_price.write(out);
        self.fill_qty.write(out);
    }
    fn read(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(CtxFill { fill_price: take_field(bytes, "fillPrice")?, fill_qty: take_field(bytes, "fillQty")? })
    }
}

/// One order or price level of a book.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CtxLobOrder {
    pub order_id: i32,
    pub price: CtxPrice,
    pub order_quantity: i32,
    pub side: CtxSide,
    pub client_order_id: PaddedText<20>,
}

impl GroupEntry for CtxLobOrder {
    const BYTES: usize = 37;
    type Length = u32;
    type Count = u32;
    fn write(&self, out: &mut Vec<u8>) {
        self.order_id.write(out);
        self.price.write(out);
        self.order_quantity.write(out);
        self.side.write(out);
        self.client_order_id.write(out);
    }
    fn read(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(CtxLobOrder {
            order_id: take_field(bytes, "orderId")?,
            price: take_field(bytes, "price")?,
            order_quantity: take_field(bytes, "orderQuantity")?,
            side: take_field(bytes, "side")?,
            client_order_id: take_field(bytes, "clientOrderId")?,
        })
    }
}

/// Returns whether the header of a template has a compID. Market data has none, except for the two
/// messages that CoinTossX's own classes write with one.
const fn has_comp_id(template: u16) -> bool {
    !matches!(template, 18..=26)
}

impl CtxMessage {
    /// Appends the message with its headers to `out`. Market data has no place for `comp_id`.
    pub fn encode(&self, comp_id: i32, out: &mut Vec<u8>) {
        write_frame(out, |out| {
            let words = self.header_words();
            words.write(out, SCHEMA_ID, SCHEMA_VERSION);
            if has_comp_id(words.template) {
                comp_id.write(out);
            }
            self.write_fields(out);
        });
    }

    /// Decodes a whole frame. Also returns the compID of the header, or 0 if it has none.
    ///
    /// # Errors
    ///
    /// Fails if the header, the block length or a field differs from the schema, and if the frame
    /// is longer or shorter than its message.
    pub fn decode(frame: &[u8]) -> Result<(i32, CtxMessage), DecodeError> {
        let mut bytes = frame;
        take(&mut bytes, FRAME_HEADER_BYTES)?;
        let words = HeaderWords::read(&mut bytes, SCHEMA_ID, SCHEMA_VERSION)?;
        let comp_id = if has_comp_id(words.template) { take_field(&mut bytes, "compID")? } else { 0 };
        Ok((comp_id, CtxMessage::read_fields(words, bytes)?))
    }

    /// Sets the number of a message that has one.
    pub(crate) fn set_sequence(&mut self, sequence: i32) {
        match self {
            CtxMessage::CtxExecutionReport(message) => message.sequence_number = sequence,
            CtxMessage::CtxOrderCancelReject(message) => message.sequence_number = sequence,
            CtxMessage::CtxOrderMassCancelReport(message) => message.sequence_number = sequence,
            CtxMessage::CtxBusinessReject(message) => message.sequence_number = sequence,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema_file::{camel_case, schema_messages};

    const SCHEMAS: [&str; 3] = [
        include_str!("../../../../contracts/cointossx-trading.xml"),
        include_str!("../../../../contracts/cointossx-market-data.xml"),
        include_str!("../../../../contracts/cointossx-admin.xml"),
    ];

    /// Block lengths that the reference implementation states.
    const KNOWN_BLOCKS: [(u16, u16); 6] = [(9, 102), (10, 75), (12, 124), (13, 103), (23, 54), (26, 29)];

    #[test]
    fn codec_has_the_messages_and_fields_of_the_schemas_in_order() {
        let mut of_schemas: Vec<_> = SCHEMAS.into_iter().flat_map(schema_messages).collect();
        of_schemas.sort_by_key(|(id, ..)| *id);
        let ours: Vec<_> = CtxMessage::LAYOUTS
            .iter()
            .map(|(id, name, fields, parts)| {
                let name = name.strip_prefix("Ctx").unwrap().trim_end_matches("Message").to_owned();
                let fields = fields.iter().map(|(field, _)| field).chain(parts.iter());
                (*id, name.to_lowercase(), fields.map(|field| camel_case(field)).collect::<Vec<_>>())
            })
            .collect();
        let of_schemas: Vec<_> =
            of_schemas.into_iter().map(|(id, name, fields)| (id, name.to_lowercase(), fields)).collect();
        assert_eq!(ours, of_schemas);
        for (template, block) in KNOWN_BLOCKS {
            let (.., fields, _) = CtxMessage::LAYOUTS.iter().find(|(id, ..)| *id == template).unwrap();
            assert_eq!(fields.iter().map(|(_, bytes)| bytes).sum::<usize>(), usize::from(block), "{template}");
        }
    }

    #[test]
    fn price_that_is_not_a_multiple_of_the_unit_does_not_fit() {
        let price = |text| CtxPrice::of(FixedDecimal::parse(text));
        assert_eq!(price("3200.5"), Some(CtxPrice(32_005_000)));
        assert_eq!(price("0.0001"), Some(CtxPrice(1)));
        assert_eq!(price("0.00005"), None);
        assert_eq!(CtxPrice(i64::MAX).decimal(), None);
    }

    #[test]
    fn padded_text_ends_at_spaces_or_nul() {
        assert_eq!(PaddedText::<6>::new("ab").as_str(), "ab");
        assert_eq!(PaddedText::<6>::read(b"a b\0xx").unwrap().as_str(), "a b");
        assert!(PaddedText::<2>::read(b"\xff ").is_none());
    }
}
