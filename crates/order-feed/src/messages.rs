//! The messages of MITCH 4.07 that this feed sends or understands, with their fields in order.
//!
//! Holds       1. a message begins with its whole length (u16) and its type (u8);
//!             2. the length of a type never differs from [`MessageLayout::bytes`].
//! Leaves out  messages of the format for options, quotes and news: a reader skips them by their
//!             length.

use std::fmt;

use crate::fields::{Alpha, FieldKind, FieldValue, FillerBytes, Letter, MitchField, MitchPrice};

/// Bytes of the length and the type in front of the fields of each message.
pub const MESSAGE_HEADER_BYTES: usize = 3;

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// Fewer bytes than a message header, or than its length states.
    Short { bytes: usize },
    /// The length is not that of the type.
    Length { message_type: u8, bytes: u16, expected: usize },
    /// A type that is not in the table. The next message begins after `bytes`.
    Type { message_type: u8, bytes: usize },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MessageError::Short { bytes } => write!(f, "a message needs more than the {bytes} bytes that are left"),
            MessageError::Length { message_type, bytes, expected } => {
                write!(f, "message of type {message_type:#04x} has length {bytes}: expected {expected}")
            }
            MessageError::Type { message_type, .. } => write!(f, "unknown message type {message_type:#04x}"),
        }
    }
}

impl std::error::Error for MessageError {}

/// A message that can be written.
pub trait MitchEncode {
    const TYPE: u8;
    /// Length with the header.
    const BYTES: usize;

    /// Appends the message with its header to `out`.
    fn encode(&self, out: &mut Vec<u8>);
}

/// Where the encoder writes its messages. A `Vec<u8>` takes them one after the other.
pub trait MitchSink {
    fn send<M: MitchEncode>(&mut self, message: &M);
}

impl MitchSink for Vec<u8> {
    #[inline]
    fn send<M: MitchEncode>(&mut self, message: &M) {
        message.encode(self);
    }
}

/// One field of a message, for tables and the dissector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldLayout {
    pub name: &'static str,
    pub bytes: usize,
    pub kind: FieldKind,
}

/// The fields of a message behind its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLayout {
    pub message_type: u8,
    /// Name in the format's specification.
    pub name: &'static str,
    /// Length with the header.
    pub bytes: usize,
    pub fields: &'static [FieldLayout],
}

/// Returns the length that the message at the front of `bytes` states, or 0 if there is none.
#[inline]
pub(crate) fn stated_length(mut bytes: &[u8]) -> usize {
    u16::read(&mut bytes).map_or(0, usize::from)
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $type:literal $title:literal {
        $($(#[$field_doc:meta])* $field:ident: $field_type:ty),* $(,)?
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name { $($(#[$field_doc])* pub $field: $field_type,)* }

            impl MitchEncode for $name {
                const TYPE: u8 = $type;
                const BYTES: usize = MESSAGE_HEADER_BYTES $(+ <$field_type as MitchField>::BYTES)*;

                #[inline]
                fn encode(&self, out: &mut Vec<u8>) {
                    // Every message of the table has less than 500 bytes.
                    let length = u16::try_from(Self::BYTES).unwrap_or(u16::MAX);
                    out.reserve(Self::BYTES);
                    MitchField::write(&length, out);
                    out.push($type);
                    $(MitchField::write(&self.$field, out);)*
                }
            }

            impl From<$name> for MitchMessage {
                fn from(message: $name) -> Self {
                    MitchMessage::$name(message)
                }
            }
        )*

        /// One message of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum MitchMessage { $($name($name)),* }

        /// All messages of the table.
        pub const LAYOUTS: &[MessageLayout] = &[$(MessageLayout {
            message_type: $type,
            name: $title,
            bytes: <$name as MitchEncode>::BYTES,
            fields: &[$(FieldLayout {
                name: stringify!($field),
                bytes: <$field_type as MitchField>::BYTES,
                kind: <$field_type as MitchField>::KIND,
            }),*],
        }),*];

        impl MitchMessage {
            /// Decodes the message at the front of `bytes`. Returns it with its length.
            ///
            /// # Errors
            ///
            /// Fails if the bytes end before the message, if the type is not in the table, and if
            /// the length is not that of the type.
            pub fn decode(bytes: &[u8]) -> Result<(MitchMessage, usize), MessageError> {
                Self::read(bytes).map(|message| (message, stated_length(bytes)))
            }

            /// HOT. Decodes the message at the front of `bytes`. Its length is `stated_length`: a
            /// result without it has the layout of the message, so that it is not copied.
            #[inline]
            pub(crate) fn read(bytes: &[u8]) -> Result<MitchMessage, MessageError> {
                let short = MessageError::Short { bytes: bytes.len() };
                let mut header = bytes;
                let length = u16::read(&mut header).ok_or(short)?;
                let message_type = u8::read(&mut header).ok_or(short)?;
                let whole = usize::from(length);
                let Some(mut fields) = bytes.get(MESSAGE_HEADER_BYTES..whole) else {
                    return Err(if whole < MESSAGE_HEADER_BYTES {
                        MessageError::Length { message_type, bytes: length, expected: MESSAGE_HEADER_BYTES }
                    } else {
                        short
                    });
                };
                match message_type {
                    $($type => {
                        let expected = <$name as MitchEncode>::BYTES;
                        if whole != expected {
                            return Err(MessageError::Length { message_type, bytes: length, expected });
                        }
                        Ok(MitchMessage::$name($name {
                            $($field: MitchField::read(&mut fields).ok_or(short)?),*
                        }))
                    })*
                    _ => Err(MessageError::Type { message_type, bytes: whole }),
                }
            }

            /// Appends the message with its header to `out`.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self { $(MitchMessage::$name(message) => message.encode(out)),* }
            }

            /// Returns the name in the format's specification.
            pub fn name(&self) -> &'static str {
                match self { $(MitchMessage::$name(_) => $title),* }
            }

            pub fn message_type(&self) -> u8 {
                match self { $(MitchMessage::$name(_) => $type),* }
            }

            /// Names and contents of the fields, without unused bytes.
            pub fn fields(&self) -> Vec<(&'static str, FieldValue)> {
                match self {
                    $(MitchMessage::$name($name { $($field),* }) => {
                        let fields: Vec<(&'static str, Option<FieldValue>)> =
                            vec![$((stringify!($field), MitchField::value($field))),*];
                        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
                    })*
                }
            }
        }
    };
}

messages! {
    /// The second to which the nanoseconds of the following messages belong.
    TimeMark = b'T' "Time" {
        /// Seconds since midnight UTC.
        seconds: u32,
    }

    /// A venue day has begun or ended.
    SystemEvent = b'S' "System Event" {
        nanosecond: u32,
        /// `O` start of the day, `C` end of the day.
        event_code: Letter,
    }

    /// The definition of an instrument.
    SymbolDirectory = b'R' "Symbol Directory" {
        nanosecond: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        /// A space: active; `a`: deleted.
        symbol_status: Letter,
        isin: FillerBytes<12>,
        symbol: Alpha<25>,
        tidm: FillerBytes<12>,
        segment: Alpha<6>,
        /// Zero if there is none.
        previous_close_price: MitchPrice,
        expiration_date: FillerBytes<8>,
        underlying: FillerBytes<25>,
        strike_price: FillerBytes<8>,
        option_type: Letter,
        issuer: FillerBytes<6>,
        issue_date: FillerBytes<8>,
        coupon: FillerBytes<8>,
        flags: FillerBytes<1>,
        sub_book_flags: u8,
        corporate_action: FillerBytes<189>,
        leg_1_symbol: FillerBytes<25>,
        leg_2_symbol: FillerBytes<25>,
        /// Amount of one unit of quantity.
        contract_multiplier: MitchPrice,
        settlement_method: Letter,
        instrument_sub_category: FillerBytes<30>,
        exercise_style: Letter,
    }

    /// The session of an instrument.
    SymbolStatus = b'H' "Symbol Status" {
        nanosecond: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        trading_status: Letter,
        flags: FillerBytes<1>,
        reason: Alpha<4>,
        session_change_reason: u8,
        /// Expected end of the session, `HH:MM:SS.sss` UTC.
        new_end_time: Alpha<12>,
        /// 1 order book, 2 trade reporting.
        book_type: u8,
    }

    /// An order is displayed, last at its price.
    OrderAdd = b'A' "Add Order" {
        nanosecond: u32,
        order_id: u64,
        side: Letter,
        quantity: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        price: MitchPrice,
        flags: u8,
        rfq_id: FillerBytes<10>,
    }

    /// An order left the displayed book.
    OrderDelete = b'D' "Order Deleted" {
        nanosecond: u32,
        order_id: u64,
    }

    /// An order has a new price or a new displayed quantity.
    OrderModify = b'U' "Order Modified" {
        nanosecond: u32,
        order_id: u64,
        new_quantity: u32,
        new_price: MitchPrice,
        /// Bit 0: the order keeps its place. Otherwise it goes to the end of its price.
        flags: u8,
    }

    /// All orders of an instrument are removed.
    BookClear = b'y' "Order Book Clear" {
        nanosecond: u32,
        instrument_id: u32,
        sub_book: u8,
        book_type: u8,
    }

    /// A displayed order has traded at its price.
    OrderExecution = b'E' "Order Executed" {
        nanosecond: u32,
        order_id: u64,
        executed_quantity: u32,
        trade_id: u64,
        last_option_price: FillerBytes<8>,
        volatility: FillerBytes<8>,
        underlying_reference_price: FillerBytes<8>,
        venue_of_execution: FillerBytes<4>,
    }

    /// A displayed order has traded at another price, or displays another quantity than the rest.
    PricedExecution = b'C' "Order Executed With Price/Size" {
        nanosecond: u32,
        order_id: u64,
        executed_quantity: u32,
        /// Displayed quantity afterwards; zero removes the order.
        display_quantity: u32,
        trade_id: u64,
        /// `Y` if no other message shows this trade.
        printable: Letter,
        price: MitchPrice,
        last_option_price: FillerBytes<8>,
        volatility: FillerBytes<8>,
        underlying_reference_price: FillerBytes<8>,
        venue_of_execution: FillerBytes<4>,
    }

    /// A trade of orders that are not displayed.
    HiddenTrade = b'P' "Trade" {
        nanosecond: u32,
        executed_quantity: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        price: MitchPrice,
        trade_id: u64,
        sub_book: u8,
        flags: u8,
        trade_sub_type: Alpha<4>,
        last_option_price: FillerBytes<8>,
        volatility: FillerBytes<8>,
        underlying_reference_price: FillerBytes<8>,
        venue_of_execution: FillerBytes<4>,
        cancellation_flag: Alpha<4>,
        amendment_flag: Alpha<4>,
    }

    /// A trade of an auction.
    AuctionTrade = b'Q' "Auction Trade" {
        nanosecond: u32,
        quantity: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        price: MitchPrice,
        trade_id: u64,
        auction_type: Letter,
        last_option_price: FillerBytes<8>,
        volatility: FillerBytes<8>,
        underlying_reference_price: FillerBytes<8>,
        cancellation_flag: Alpha<4>,
        amendment_flag: Alpha<4>,
        venue_of_execution: FillerBytes<4>,
    }

    /// A trade that two members have reported.
    OffBookReport = b'x' "Off-Book Trade" {
        nanosecond: u32,
        executed_quantity: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        price: MitchPrice,
        trade_id: u64,
        off_book_trade_type: Alpha<4>,
        /// `HH:MM:SS` UTC.
        trade_time: Alpha<8>,
        /// `YYYYMMDD`.
        trade_date: Alpha<8>,
        last_option_price: FillerBytes<8>,
        volatility: FillerBytes<8>,
        underlying_reference_price: FillerBytes<8>,
        cancellation_flag: Alpha<4>,
    }

    /// A trade of the past. This feed sends it when an operator busts a trade.
    RecoveryTrade = 0x76 "Recovery Trade" {
        nanosecond: u32,
        executed_quantity: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        price: MitchPrice,
        trade_id: u64,
        auction_type: Letter,
        off_book_trade_type: Alpha<4>,
        trade_time: Alpha<8>,
        trade_date: Alpha<8>,
        /// `C`: the trade is cancelled.
        action_type: Letter,
        sub_book: u8,
        flags: u8,
        last_option_price: FillerBytes<8>,
        volatility: FillerBytes<8>,
        underlying_reference_price: FillerBytes<8>,
        venue_of_execution: FillerBytes<4>,
        cancellation_flag: Alpha<4>,
        amendment_flag: Alpha<4>,
    }

    /// The result that an auction would have if it ended now.
    AuctionInfo = b'I' "Auction Info" {
        nanosecond: u32,
        paired_quantity: u32,
        reserved_quantity: FillerBytes<4>,
        /// `B` more lots would buy, `S` more would sell, `N` as many, `O` no price.
        imbalance_direction: Letter,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        price: MitchPrice,
        auction_type: Letter,
    }

    /// An opening or closing price.
    PriceStatistic = b'w' "Statistics" {
        nanosecond: u32,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        /// `O` opening price, `C` closing price.
        statistic_type: Letter,
        price: MitchPrice,
        /// How the price was derived: `A` uncross, `D` last trade, `F` manual, `H` VWAP, `I`
        /// previous close.
        open_close_indicator: Letter,
        sub_book: u8,
    }

    /// A client of the replay or snapshot port logs in.
    LoginRequest = 0x01 "Login Request" {
        username: Alpha<6>,
        password: Alpha<10>,
    }

    LoginResponse = 0x02 "Login Response" {
        /// `A` accepted.
        status: Letter,
    }

    /// Asks for messages by their numbers.
    ReplayRequest = 0x03 "Replay Request" {
        market_data_group: Letter,
        first_message: u32,
        count: u16,
    }

    ReplayResponse = 0x04 "Replay Response" {
        market_data_group: Letter,
        first_message: u32,
        count: u16,
        /// `A` accepted, `O` out of range.
        status: Letter,
    }

    LogoutRequest = 0x05 "Logout Request" {}

    /// Asks for the state of one instrument, or of all.
    SnapshotRequest = 0x81 "Snapshot Request" {
        sequence_number: u32,
        segment: Alpha<6>,
        /// Zero asks for all instruments.
        instrument_id: u32,
        reserved: FillerBytes<2>,
        sub_book_flags: u8,
        /// 0 order book with status and definition.
        snapshot_type: u8,
        recover_from_time: Alpha<8>,
        request_id: u32,
    }

    SnapshotResponse = 0x82 "Snapshot Response" {
        /// Number of the newest message that the snapshot contains.
        sequence_number: u32,
        order_count: u32,
        /// `A` accepted, `O` unknown instrument.
        status: Letter,
        snapshot_type: u8,
        request_id: u32,
    }

    SnapshotComplete = 0x83 "Snapshot Complete" {
        sequence_number: u32,
        segment: Alpha<6>,
        instrument_id: u32,
        reserved: FillerBytes<2>,
        sub_book_flags: u8,
        trading_status: Letter,
    }
}

impl OrderModify {
    /// Bit of `flags`: the order keeps its place.
    pub const KEEPS_PLACE: u8 = 1;
}
