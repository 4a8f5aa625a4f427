//! Account summaries and positions (wire object 5.7).

use pitwire_model::{Currency, Decimal, InstrumentSpec, Ticks};

use super::{instrument_kind, ratio};
use crate::codec::json::Json;

/// Amounts in units of the currency.
#[derive(Clone, Copy, Debug, Default)]
pub struct SummaryFacts {
    pub balance: i128,
    pub available: i128,
    /// Profit of open positions at the mark price.
    pub unrealized: i128,
    /// Initial margin of positions and their orders.
    pub margin: i128,
    /// Reserved for open spot orders.
    pub reserved: i128,
    /// Sum of the deltas of all positions.
    pub delta: i128,
}

pub fn summary(j: &mut Json<'_>, currency: &Currency, facts: &SummaryFacts) {
    let units = |value: i128| Decimal::new(value, currency.decimals);
    let equity = facts.balance + facts.unrealized;
    j.object(|j| {
        j.key("currency").string(&currency.name);
        j.key("equity").decimal(units(equity));
        j.key("balance").decimal(units(facts.balance));
        j.key("margin_balance").decimal(units(equity));
        j.key("available_funds").decimal(units(facts.available));
        j.key("available_withdrawal_funds").decimal(units(facts.available.max(0)));
        j.key("initial_margin").decimal(units(facts.margin + facts.reserved));
        j.key("projected_initial_margin").decimal(units(facts.margin + facts.reserved));
        // Clients read this field as the amount in use: all that orders and positions block.
        j.key("maintenance_margin").decimal(units(equity - facts.available));
        j.key("projected_maintenance_margin").decimal(units(equity - facts.available));
        j.key("spot_reserve").decimal(units(facts.reserved));
        j.key("session_upl").decimal(units(facts.unrealized));
        j.key("futures_pl").decimal(units(facts.unrealized));
        j.key("futures_session_upl").decimal(units(facts.unrealized));
        j.key("delta_total").decimal(units(facts.delta)).key("projected_delta_total").decimal(units(facts.delta));
        for key in ["session_rpl", "futures_session_rpl", "fee_balance"] {
            j.key(key).decimal(units(0));
        }
        // There are no options here. Clients that check the dialect's schema demand their fields.
        for key in ["pl", "session_rpl", "session_upl", "value", "delta", "gamma", "theta", "vega"] {
            j.key(&format!("options_{key}")).decimal(units(0));
        }
        for key in ["delta_total_map", "options_gamma_map", "options_theta_map", "options_vega_map"] {
            j.key(key).object(|_| {});
        }
        j.key("total_pl").decimal(units(facts.unrealized));
        j.key("margin_model").string("segregated_sm");
        j.key("portfolio_margining_enabled").bool(false);
        j.key("cross_collateral_enabled").bool(false);
    });
}

#[derive(Clone, Copy, Debug)]
pub struct PositionFacts<'a> {
    pub spec: &'a InstrumentSpec,
    pub lots: i64,
    /// In units of the settlement currency, which has this many decimals.
    pub entry_value: i128,
    pub unrealized: i128,
    pub realized: i128,
    pub margin: i128,
    pub decimals: u8,
    pub mark: Ticks,
    pub index: Ticks,
    pub leverage: u32,
}

pub fn position(j: &mut Json<'_>, facts: &PositionFacts<'_>) {
    let spec = facts.spec;
    let units = |value: i128| Decimal::new(value, facts.decimals);
    let size = spec.lot.times(i128::from(facts.lots));
    // The average price is dollars divided by the coins paid for them.
    let coins_scale = 10_i128.pow(u32::from(facts.decimals));
    let dollars = size.mantissa.abs().saturating_mul(coins_scale);
    let coins = facts.entry_value.saturating_mul(10_i128.pow(u32::from(size.scale)));
    j.object(|j| {
        j.key("instrument_name").string(&spec.name);
        j.key("kind").string(instrument_kind(spec));
        j.key("direction").string(match facts.lots.signum() {
            1 => "buy",
            -1 => "sell",
            _ => "zero",
        });
        j.key("size").decimal(size);
        let sign = if facts.lots < 0 { -1 } else { 1 };
        j.key("size_currency").decimal(units(facts.entry_value * sign));
        j.key("delta").decimal(units(facts.entry_value * sign));
        j.key("average_price").decimal(ratio(dollars, coins, spec.tick.scale + 3));
        j.key("mark_price").decimal(spec.price(facts.mark));
        j.key("index_price").decimal(spec.price(facts.index));
        j.key("settlement_price").decimal(spec.price(facts.index));
        j.key("leverage").uint(u64::from(facts.leverage));
        j.key("initial_margin").decimal(units(facts.margin));
        j.key("maintenance_margin").decimal(units(facts.margin / 2));
        j.key("open_orders_margin").decimal(units(0));
        j.key("floating_profit_loss").decimal(units(facts.unrealized));
        j.key("realized_profit_loss").decimal(units(facts.realized));
        j.key("total_profit_loss").decimal(units(facts.unrealized + facts.realized));
        j.key("realized_funding").decimal(units(0));
        j.key("interest_value").decimal(units(0));
        // Nothing is liquidated in this version. Zero is the dialect's word for "no such price".
        j.key("estimated_liquidation_price").decimal(Decimal::ZERO);
    });
}
