//! How lots and prices of an instrument become units of money.

use std::hint::select_unpredictable;

use pitwire_model::{CurrencyId, Decimal, InstrumentKind, InstrumentSpec, Lots, Side, Ticks};

/// Conversion factors of an instrument in whole units, computed once from its definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettlementTerms {
    Spot { base: CurrencyId, quote: CurrencyId, base_units_per_lot: i128, quote_units_per_tick_lot: i128 },
    Inverse { settle: CurrencyId, value_numerator: i128, max_leverage: i128 },
}

impl SettlementTerms {
    /// Largest value of a spot order, in units. Sums of many such orders still fit into 128 bits.
    const MOST_ORDER_UNITS: i128 = 1 << 120;
    /// Largest value of a contract order, in units. Lower, because closing part of a position
    /// multiplies the value by lots once more.
    const MOST_CONTRACT_UNITS: i128 = 1 << 80;

    /// Returns the value of `lots` at `price`, rounded down: quote units of a spot trade,
    /// settlement units of an inverse contract.
    #[inline]
    pub fn value(self, price: Ticks, lots: i128) -> i128 {
        match self {
            SettlementTerms::Spot { quote_units_per_tick_lot, .. } => {
                i128::from(price.0) * lots * quote_units_per_tick_lot
            }
            SettlementTerms::Inverse { value_numerator, .. } => lots * value_numerator / i128::from(price.0),
        }
    }

    /// Returns the currency that a spot order reserves, and how many units. An inverse contract
    /// reserves nothing.
    #[inline]
    pub fn spot_reserve(self, side: Side, price: Ticks, lots: i128) -> (CurrencyId, i128) {
        match self {
            SettlementTerms::Spot { base, quote, base_units_per_lot, quote_units_per_tick_lot } => {
                // Buys and sells alternate unpredictably. Computing both avoids a mispredicted
                // branch.
                let per_lot = i128::from(price.0) * quote_units_per_tick_lot;
                let (currency, per_lot) =
                    select_unpredictable(side == Side::Buy, (quote, per_lot), (base, base_units_per_lot));
                (currency, lots * per_lot)
            }
            SettlementTerms::Inverse { settle, .. } => (settle, 0),
        }
    }

    /// Computes the factors of an instrument. Returns `None` if one tick times one lot is not a
    /// whole number of units, so that trades could not be settled exactly, or if the largest order
    /// would exceed [`Self::MOST_ORDER_UNITS`] or [`Self::MOST_CONTRACT_UNITS`].
    pub fn of(spec: &InstrumentSpec, base_decimals: u8, quote_decimals: u8) -> Option<SettlementTerms> {
        let most_lots = i128::from(Lots::MAX_ORDER.0);
        let most_tick_lots = most_lots * i128::from(Ticks::MAX_PRICE.0);
        let within = |units: i128, most: i128| (1..=most).contains(&units).then_some(units);
        let fits = |units, orders: i128| within(units, Self::MOST_ORDER_UNITS / orders);
        match spec.kind {
            InstrumentKind::Spot { base, quote } => {
                let value = Decimal::new(
                    spec.tick.mantissa.checked_mul(spec.lot.mantissa)?,
                    spec.tick.scale.checked_add(spec.lot.scale)?,
                );
                Some(SettlementTerms::Spot {
                    base,
                    quote,
                    base_units_per_lot: fits(spec.lot.in_steps_of(Decimal::new(1, base_decimals))?, most_lots)?,
                    quote_units_per_tick_lot: fits(
                        value.in_steps_of(Decimal::new(1, quote_decimals))?,
                        most_tick_lots,
                    )?,
                })
            }
            InstrumentKind::InversePerpetual { base, max_leverage, .. } => {
                // The value of n lots at p ticks is (n · lot) / (p · tick) in the base currency,
                // times 10^decimals units.
                let units = 10_i128.checked_pow(u32::from(base_decimals))?;
                let scale = spec.tick.scale.max(spec.lot.scale);
                let (lot, tick) = (spec.lot.rescaled(scale)?, spec.tick.rescaled(scale)?);
                let numerator = lot.checked_mul(units)?;
                (tick > 0 && numerator % tick == 0 && max_leverage > 0).then_some(SettlementTerms::Inverse {
                    settle: base,
                    value_numerator: within(numerator / tick, Self::MOST_CONTRACT_UNITS / most_lots)?,
                    max_leverage: i128::from(max_leverage),
                })
            }
        }
    }
}
