//! The messages of ITCH 5.0 that the feed sends, with their fields in order. All numbers are big
//! endian.
//!
//! Holds       1. a message begins with its type, and its length is that of its type;
//!             2. prices have four decimals and 32 bits ([`ItchPrice::of`]).
//! Leaves out  messages for market makers, short sales, price bands and attributed orders.
//! Start at    [`ItchMessage`]; [`ItchTranslator`](crate::ItchTranslator) makes them.

use pitwire_model::Decimal;

use crate::fields::{Alpha, FieldKind, FieldValue, FillerBytes, Letter, MitchField, MitchPrice, take};
use crate::messages::MessageError;

/// Bytes of the name of an instrument.
pub const STOCK_BYTES: usize = 8;

/// An unsigned number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BigEndian<T>(pub T);

macro_rules! big_endian {
    ($($type:ty),*) => {$(
        impl MitchField for BigEndian<$type> {
            const BYTES: usize = size_of::<$type>();
            const KIND: FieldKind = FieldKind::Unsigned;

            fn value(&self) -> Option<FieldValue> {
                Some(FieldValue::Unsigned(u64::from(self.0)))
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.0.to_be_bytes());
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                take(bytes).map(<$type>::from_be_bytes).map(BigEndian)
            }
        }
    )*};
}

big_endian!(u16, u32, u64);

/// Nanoseconds since midnight UTC, in 48 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItchTime(pub u64);

impl ItchTime {
    /// The latest time of the format, 78 hours after midnight.
    pub const MAX: ItchTime = ItchTime((1 << 48) - 1);

    /// Returns the nearest time of the format.
    pub fn of(nanoseconds: u64) -> ItchTime {
        ItchTime(nanoseconds.min(Self::MAX.0))
    }
}

impl MitchField for ItchTime {
    const BYTES: usize = 6;
    const KIND: FieldKind = FieldKind::Unsigned;

    fn value(&self) -> Option<FieldValue> {
        Some(FieldValue::Unsigned(self.0))
    }

    fn write(&self, out: &mut Vec<u8>) {
        let [_, _, low @ ..] = self.0.to_be_bytes();
        out.extend_from_slice(&low);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let [a, b, c, d, e, f] = take(bytes)?;
        Some(ItchTime(u64::from_be_bytes([0, 0, a, b, c, d, e, f])))
    }
}

/// A price in units of 1e-4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItchPrice(pub u32);

impl ItchPrice {
    pub const DECIMALS: u8 = 4;
    /// Units of MITCH, which has eight decimals, in one unit.
    const MITCH_UNITS: i64 = 10_000;
    /// The highest price: 429,496.7295.
    pub const MAX: ItchPrice = ItchPrice(u32::MAX);

    /// Converts a price. `None` if it has more than four decimals, is negative or does not fit.
    pub fn of(price: MitchPrice) -> Option<ItchPrice> {
        let is_exact = price.0 % Self::MITCH_UNITS == 0;
        u32::try_from(price.0 / Self::MITCH_UNITS).ok().filter(|_| is_exact).map(ItchPrice)
    }

    pub fn decimal(self) -> Decimal {
        Decimal::new(i128::from(self.0), Self::DECIMALS)
    }

    pub(crate) fn mitch_price(self) -> MitchPrice {
        MitchPrice(i64::from(self.0) * Self::MITCH_UNITS)
    }
}

impl MitchField for ItchPrice {
    const BYTES: usize = 4;
    const KIND: FieldKind = FieldKind::Price;

    fn value(&self) -> Option<FieldValue> {
        Some(FieldValue::Decimal(self.decimal()))
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        take(bytes).map(u32::from_be_bytes).map(ItchPrice)
    }
}

macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident = $type:literal $title:literal {
        $($(#[$field_doc:meta])* $field:ident: $field_type:ty),* $(,)?
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $name {
                /// Id of the instrument. 0 in messages of the whole market.
                pub stock_locate: BigEndian<u16>,
                pub tracking_number: BigEndian<u16>,
                pub timestamp: ItchTime,
                $($(#[$field_doc])* pub $field: $field_type,)*
            }

            impl From<$name> for ItchMessage {
                fn from(message: $name) -> Self {
                    ItchMessage::$name(message)
                }
            }
        )*

        /// One message of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ItchMessage { $($name($name)),* }

        impl ItchMessage {
            /// Type and length of each message.
            pub const LENGTHS: &[(u8, usize)] = &[$((
                $type,
                11 $(+ <$field_type as MitchField>::BYTES)*,
            )),*];

            /// Decodes a message that has exactly these bytes.
            ///
            /// # Errors
            ///
            /// Fails if the type is not in the table, and if the length is not that of the type.
            pub fn decode(bytes: &[u8]) -> Result<ItchMessage, MessageError> {
                let short = MessageError::Short { bytes: bytes.len() };
                let (&message_type, mut fields) = bytes.split_first().ok_or(short)?;
                let Some((_, expected)) = Self::LENGTHS.iter().find(|(known, _)| *known == message_type) else {
                    return Err(MessageError::Type { message_type, bytes: bytes.len() });
                };
                if bytes.len() != *expected {
                    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
                    return Err(MessageError::Length { message_type, bytes: length, expected: *expected });
                }
                let fields = &mut fields;
                Ok(match message_type {
                    $($type => ItchMessage::$name($name {
                        stock_locate: MitchField::read(fields).ok_or(short)?,
                        tracking_number: MitchField::read(fields).ok_or(short)?,
                        timestamp: MitchField::read(fields).ok_or(short)?,
                        $($field: MitchField::read(fields).ok_or(short)?),*
                    }),)*
                    _ => return Err(MessageError::Type { message_type, bytes: bytes.len() }),
                })
            }

            /// Appends the message to `out`.
            pub fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(ItchMessage::$name(message) => {
                        out.push($type);
                        message.stock_locate.write(out);
                        message.tracking_number.write(out);
                        message.timestamp.write(out);
                        $(message.$field.write(out);)*
                    })*
                }
            }

            /// Returns the name in the format's specification.
            pub fn name(&self) -> &'static str {
                match self { $(ItchMessage::$name(_) => $title),* }
            }

            pub fn message_type(&self) -> u8 {
                match self { $(ItchMessage::$name(_) => $type),* }
            }

            /// Names and contents of the fields, without unused bytes.
            pub fn fields(&self) -> Vec<(&'static str, FieldValue)> {
                match self {
                    $(ItchMessage::$name(message) => {
                        let fields: Vec<(&'static str, Option<FieldValue>)> = vec![
                            ("stock_locate", message.stock_locate.value()),
                            ("timestamp", message.timestamp.value()),
                            $((stringify!($field), message.$field.value())),*
                        ];
                        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
                    })*
                }
            }
        }
    };
}

messages! {
    /// A venue day has begun or ended.
    SystemEvent = b'S' "System Event" {
        /// `O` start of messages, `C` end of messages.
        event_code: Letter,
    }

    /// The definition of an instrument.
    StockDirectory = b'R' "Stock Directory" {
        stock: Alpha<STOCK_BYTES>,
        market_category: Letter,
        financial_status: Letter,
        round_lot_size: BigEndian<u32>,
        round_lots_only: Letter,
        issue_classification: Letter,
        issue_sub_type: Alpha<2>,
        /// `T`: a test.
        authenticity: Letter,
        short_sale_threshold: Letter,
        ipo_flag: Letter,
        luld_reference_price_tier: Letter,
        etp_flag: Letter,
        etp_leverage_factor: FillerBytes<4>,
        inverse_indicator: Letter,
    }

    /// The session of an instrument.
    StockTradingAction = b'H' "Stock Trading Action" {
        stock: Alpha<STOCK_BYTES>,
        /// `T` trading, `Q` an auction call, `P` a pause, `H` any other session.
        trading_state: Letter,
        reserved: FillerBytes<1>,
        reason: Alpha<4>,
    }

    /// An order is displayed, last at its price.
    AddOrder = b'A' "Add Order" {
        order_reference: BigEndian<u64>,
        side: Letter,
        shares: BigEndian<u32>,
        stock: Alpha<STOCK_BYTES>,
        price: ItchPrice,
    }

    /// A displayed order has traded at its price.
    OrderExecuted = b'E' "Order Executed" {
        order_reference: BigEndian<u64>,
        executed_shares: BigEndian<u32>,
        match_number: BigEndian<u64>,
    }

    /// A displayed order has traded at another price, or another message shows the trade.
    OrderExecutedWithPrice = b'C' "Order Executed With Price" {
        order_reference: BigEndian<u64>,
        executed_shares: BigEndian<u32>,
        match_number: BigEndian<u64>,
        /// `Y` if no other message shows this trade.
        printable: Letter,
        execution_price: ItchPrice,
    }

    /// An order displays less, and keeps its place.
    OrderCancel = b'X' "Order Cancel" {
        order_reference: BigEndian<u64>,
        cancelled_shares: BigEndian<u32>,
    }

    /// An order left the displayed book.
    OrderDelete = b'D' "Order Delete" {
        order_reference: BigEndian<u64>,
    }

    /// An order has a new reference, and goes to the end of its price.
    OrderReplace = b'U' "Order Replace" {
        original_order_reference: BigEndian<u64>,
        new_order_reference: BigEndian<u64>,
        shares: BigEndian<u32>,
        price: ItchPrice,
    }

    /// A trade of orders that are not displayed.
    Trade = b'P' "Trade" {
        /// Always 0.
        order_reference: BigEndian<u64>,
        /// Always `B`.
        side: Letter,
        shares: BigEndian<u32>,
        stock: Alpha<STOCK_BYTES>,
        price: ItchPrice,
        match_number: BigEndian<u64>,
    }

    /// A trade of an auction.
    CrossTrade = b'Q' "Cross Trade" {
        shares: BigEndian<u64>,
        stock: Alpha<STOCK_BYTES>,
        cross_price: ItchPrice,
        match_number: BigEndian<u64>,
        /// `O` opening, `C` closing, `H` after a halt or a volatility call, `I` intraday.
        cross_type: Letter,
    }

    /// An operator has busted a trade.
    BrokenTrade = b'B' "Broken Trade" {
        match_number: BigEndian<u64>,
    }

    /// The result that an auction would have if it ended now.
    OrderImbalance = b'I' "Net Order Imbalance Indicator" {
        paired_shares: BigEndian<u64>,
        /// Always 0: the feed states the direction only.
        imbalance_shares: BigEndian<u64>,
        imbalance_direction: Letter,
        stock: Alpha<STOCK_BYTES>,
        far_price: ItchPrice,
        near_price: ItchPrice,
        current_reference_price: ItchPrice,
        cross_type: Letter,
        price_variation_indicator: Letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_keeps_its_value_or_is_refused() {
        let cases = [
            (1_000_000, Some(100)),
            (10_000, Some(1)),
            (0, Some(0)),
            (42_949_672_950_000, Some(u32::MAX)),
            (42_949_672_960_000, None),
            (1_000, None),
            (-10_000, None),
        ];
        for (units, expected) in cases {
            assert_eq!(ItchPrice::of(MitchPrice(units)), expected.map(ItchPrice), "{units}");
        }
        assert_eq!(ItchPrice(32_005_000).decimal().to_string(), "3200.5000");
    }
}
