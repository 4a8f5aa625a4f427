//! What is traded and who may trade it.

use crate::{AccountId, Credit, CurrencyId, Decimal, InstrumentId, Lots, Ticks};

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

/// What an instrument permits right now. Engine state, changed only by a sequenced command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// No entry, no amend, no matching; cancels are accepted.
    Closed = 0,
    Continuous = 1,
    /// As closed, by an operator's word; resting orders stay.
    Halted = 2,
}

impl Phase {
    pub const ALL: [Phase; 3] = [Phase::Closed, Phase::Continuous, Phase::Halted];

    pub const fn name(self) -> &'static str {
        match self {
            Phase::Closed => "closed",
            Phase::Continuous => "continuous",
            Phase::Halted => "halt",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSpec {
    pub id: AccountId,
    pub name: String,
    pub credit: Credit,
}
