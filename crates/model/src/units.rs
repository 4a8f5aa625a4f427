//! Newtypes for numbers, so that a price cannot be passed where a quantity is expected.

use std::fmt;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            pub const ZERO: Self = Self(0);

            #[inline]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

unit!(
    /// A price counted in ticks of one instrument. Resting prices lie in `1..=Ticks::MAX_PRICE`.
    Ticks(i64)
);
unit!(
    /// A quantity counted in lots. Zero is a legal remainder but not a legal order.
    Lots(u64)
);
unit!(
    /// Venue time: nanoseconds since 1970-01-01 UTC as the venue's own clock tells it. Never goes
    /// back.
    VenueNanos(u64)
);
unit!(
    /// A venue day: days since 1970-01-01 in the venue's time zone.
    VenueDay(u32)
);
unit!(
    /// The place of a command in the venue's one log, from 1.
    Seq(u64)
);
unit!(
    /// An order, unique for the life of the venue: the [`Seq`] of the command that entered it.
    OrderId(u64)
);
unit!(
    /// The place of a trade within its instrument, from 1, without holes.
    TradeSeq(u64)
);
unit!(
    /// One start of the venue. Every start, clean or not, is a new epoch.
    Epoch(u64)
);
unit!(
    /// A connection that enters orders; zero for orders that belong to none. Numbers grow for the
    /// life of the venue.
    SessionId(u32)
);
unit!(
    /// An account, dense from 0 in order of creation.
    AccountId(u32)
);
unit!(
    /// An instrument, dense from 0 in order of creation.
    InstrumentId(u32)
);
unit!(
    /// A currency, dense from 0 in order of creation. Shares are currencies too: NPN is what
    /// NPN_ZAR trades.
    CurrencyId(u32)
);

impl Ticks {
    /// The highest price an order may carry. Books store prices in 32 bits.
    pub const MAX_PRICE: Ticks = Ticks(u32::MAX as i64);
}

impl Lots {
    /// The largest quantity one order may carry. Books store order quantities in 32 bits.
    pub const MAX_ORDER: Lots = Lots(u32::MAX as u64);

    #[inline]
    #[must_use]
    pub fn saturating_sub(self, other: Lots) -> Lots {
        Lots(self.0.saturating_sub(other.0))
    }

    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl VenueNanos {
    /// Whole milliseconds, the unit of the JSON-RPC dialect.
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Seq {
    #[inline]
    #[must_use]
    pub const fn next(self) -> Seq {
        Seq(self.0 + 1)
    }
}

/// The side of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Side {
    Buy = 0,
    Sell = 1,
}

impl Side {
    /// Both sides, buys first.
    pub const BOTH: [Side; 2] = [Side::Buy, Side::Sell];

    #[inline]
    #[must_use]
    pub const fn opposite(self) -> Side {
        match self {
            Side::Buy => Side::Sell,
            Side::Sell => Side::Buy,
        }
    }
}
