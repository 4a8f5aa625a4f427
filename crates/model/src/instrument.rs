//! Currencies, instruments and accounts.

use crate::coded_enum::coded_enum;
use crate::{AccountId, CurrencyId, Decimal, InstrumentId, Lots, Ticks, TradingRules};

/// A currency or a share. Money is counted in whole units of `10^-decimals`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Currency {
    pub id: CurrencyId,
    pub name: String,
    pub decimals: u8,
}

/// The kind of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentKind {
    /// Exchanges base for quote at once.
    Spot { base: CurrencyId, quote: CurrencyId },
    /// A contract worth a fixed amount of `quote`, margined and settled in `base`, without expiry.
    InversePerpetual {
        base: CurrencyId,
        quote: CurrencyId,
        /// The spot instrument whose mid is the index price of this contract.
        index: InstrumentId,
        /// Initial margin is the value of the position divided by this.
        max_leverage: u32,
    },
}

/// The definition of an instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstrumentSpec {
    pub id: InstrumentId,
    pub name: String,
    pub kind: InstrumentKind,
    /// Price of one tick, in quote currency.
    pub tick: Decimal,
    /// Size of one lot: in base currency for spot, in quote currency for an inverse contract.
    pub lot: Decimal,
    /// Start price; the reference price until the first trade.
    pub start_price: Ticks,
    /// Largest number of live orders. The next order is refused with `book_full`.
    pub max_resting_orders: u32,
    pub limits: InstrumentLimits,
    /// Trading rules; `None` means [`TradingRules::default`].
    pub rules: Option<Box<TradingRules>>,
}

/// Limits of a single order. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InstrumentLimits {
    pub max_lots: Option<Lots>,
    /// Largest value of an order, in whole units of the quote currency (spot) or of the settlement
    /// currency (inverse). A market order counts at the displayed prices that it reaches.
    pub max_notional_units: Option<i128>,
    /// How far a limit price may lie beyond the reference, in basis points: above it for a buy,
    /// below it for a sell. The reference is the last price, or the start price before the first
    /// trade.
    pub collar_bps: Option<u32>,
}

impl InstrumentSpec {
    pub fn base(&self) -> CurrencyId {
        match self.kind {
            InstrumentKind::Spot { base, .. } | InstrumentKind::InversePerpetual { base, .. } => base,
        }
    }

    pub fn quote(&self) -> CurrencyId {
        match self.kind {
            InstrumentKind::Spot { quote, .. } | InstrumentKind::InversePerpetual { quote, .. } => quote,
        }
    }

    pub fn is_spot(&self) -> bool {
        matches!(self.kind, InstrumentKind::Spot { .. })
    }

    pub fn price(&self, ticks: Ticks) -> Decimal {
        self.tick.times(i128::from(ticks.0))
    }

    pub fn amount(&self, lots: Lots) -> Decimal {
        self.lot.times(i128::from(lots.0))
    }
}

/// Whether an account's funds bound its orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Credit {
    /// Orders reserve what they could cost and are refused without enough funds.
    Limited = 0,
    /// For house accounts: balances change, but no order is refused for lack of funds.
    Unlimited = 1,
}

/// The definition of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSpec {
    pub id: AccountId,
    pub name: String,
    pub credit: Credit,
    pub settings: AccountSettings,
}

/// Settings of an account that an operator may change. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccountSettings {
    pub self_match: SelfMatch,
    /// Largest number of live orders over all instruments.
    pub max_open_orders: Option<u32>,
    pub throttle: Option<Throttle>,
}

coded_enum! {
    /// Self-match prevention: what happens when two orders of the same group would trade.
    #[derive(Default)]
    SelfMatch {
        /// The resting order is cancelled and matching goes on.
        #[default]
        CancelResting = 0, "cancel_resting";
        /// The remainder of the incoming order is cancelled.
        CancelIncoming = 1, "cancel_incoming";
        /// Both orders are cancelled.
        CancelBoth = 2, "cancel_both";
        /// The orders trade.
        Allow = 3, "none";
    }
}

/// The repeated-execution throttle. The orders of an account that trades more often than this
/// within one window of venue time are refused until an operator lifts the throttle. Windows begin
/// at multiples of their length since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Throttle {
    /// Fills, as maker or taker, that are allowed in one window.
    pub executions: u32,
    pub window_ns: u64,
}
