//! What is traded and who may trade it.

use crate::{AccountId, Credit, CurrencyId, Decimal, InstrumentId, Lots, Ticks, TradingRules};

/// A currency, or a share seen as one. Money is counted in whole units of `10^-decimals`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Currency {
    pub id: CurrencyId,
    pub name: String,
    pub decimals: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentKind {
    /// Base is exchanged for quote at once.
    Spot { base: CurrencyId, quote: CurrencyId },
    /// A contract worth a fixed amount of `quote`, margined and settled in `base`, without expiry.
    InversePerpetual {
        base: CurrencyId,
        quote: CurrencyId,
        /// The spot instrument whose mid is this contract's index.
        index: InstrumentId,
        /// Initial margin is position value divided by this.
        max_leverage: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstrumentSpec {
    pub id: InstrumentId,
    pub name: String,
    pub kind: InstrumentKind,
    /// Price of one tick, in quote currency.
    pub tick: Decimal,
    /// Size of one lot: in base currency for spot, in quote currency for an inverse contract.
    pub lot: Decimal,
    /// Where trading starts; the reference until something trades.
    pub start_price: Ticks,
    /// Most orders that may rest at once; one more is refused by name.
    pub max_resting_orders: u32,
    pub limits: InstrumentLimits,
    /// Absent: [`TradingRules::default`].
    pub rules: Option<Box<TradingRules>>,
}

/// What an operator allows one order to be. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct InstrumentLimits {
    pub max_lots: Option<Lots>,
    /// Most that price times quantity may come to, in whole units of the quote currency (spot) or of the settlement
    /// currency (inverse). A market order counts at what the book asks.
    pub max_notional_units: Option<i128>,
    /// How far a limit price may lie from the reference on the side where it would trade badly, in hundredths of a
    /// percent. Reference: the last trade, else the start price.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSpec {
    pub id: AccountId,
    pub name: String,
    pub credit: Credit,
    pub settings: AccountSettings,
}

/// What an operator may change about an account. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccountSettings {
    pub self_match: SelfMatch,
    /// Most orders that may rest at once, over all instruments.
    pub max_open_orders: Option<u32>,
    pub throttle: Option<Throttle>,
}

/// What happens when an order would trade with one of its own group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SelfMatch {
    /// The resting order is cancelled and matching goes on.
    #[default]
    CancelResting = 0,
    /// What is left of the incoming order is cancelled.
    CancelIncoming = 1,
    /// Both.
    CancelBoth = 2,
    /// They trade.
    Allow = 3,
}

impl SelfMatch {
    pub const ALL: [SelfMatch; 4] =
        [SelfMatch::CancelResting, SelfMatch::CancelIncoming, SelfMatch::CancelBoth, SelfMatch::Allow];
}

/// The repeated-execution throttle: an account that trades more often than this within one window of venue time takes
/// no new order until an operator lifts it. Windows begin at multiples of their length since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Throttle {
    /// Fills, as maker or taker, that one window allows.
    pub executions: u32,
    pub window_ns: u64,
}
