//! Public trades and fills (wire objects 5.3 and 5.4).

use pitwire_model::{Currency, Decimal, InstrumentSpec, Phase, TradeKind};
use pitwire_projections::{Liquidity, OrderState, PublicTrade, UserTrade};

use super::{amount, contracts, price, settlement_name, side_name, trade_id};
use crate::codec::json::Json;

fn common(j: &mut Json<'_>, spec: &InstrumentSpec, trade: &PublicTrade) {
    j.key("trade_id").string(&trade_id(spec.id, trade.seq));
    j.key("trade_seq").uint(trade.seq.0);
    j.key("instrument_name").string(&spec.name);
    j.key("timestamp").uint(trade.at.as_millis());
    price(j, "price", spec, trade.price);
    amount(j, "amount", spec, trade.lots);
    j.key("contracts").decimal(contracts(spec, trade.lots));
    j.key("tick_direction").uint(trade.direction as u64);
    price(j, "index_price", spec, trade.index);
    price(j, "mark_price", spec, trade.mark);
}

pub fn public_trade(j: &mut Json<'_>, spec: &InstrumentSpec, trade: &PublicTrade) {
    j.object(|j| {
        common(j, spec, trade);
        j.key("direction").string(side_name(trade.taker_side));
        // A field of this venue: the auction that the trade belongs to. Other trades do not have
        // it.
        match trade.kind {
            TradeKind::Call(call) => j.key("auction").string(call.name()).end(),
            TradeKind::Cross => j.key("auction").string(Phase::ClosingPriceCross.name()).end(),
            TradeKind::Continuous | TradeKind::Filter => {}
        }
        busted(j, trade.busted);
    });
}

/// Marks a busted trade in lists. A new trade never has this field.
fn busted(j: &mut Json<'_>, is_busted: bool) {
    if is_busted {
        j.key("busted").bool(true);
    }
}

pub fn user_trade(j: &mut Json<'_>, spec: &InstrumentSpec, fill: &UserTrade, currencies: &[Currency]) {
    j.object(|j| {
        common(j, spec, &fill.trade);
        j.key("direction").string(side_name(fill.side));
        j.key("order_id").string(&fill.order.to_string());
        j.key("order_type").string(if fill.is_market { "market" } else { "limit" });
        j.key("label").string(fill.label.as_str());
        j.key("liquidity").string(match fill.liquidity {
            Liquidity::Maker => "M",
            Liquidity::Taker => "T",
        });
        j.key("state").string(match fill.state {
            OrderState::Filled => "filled",
            OrderState::Open | OrderState::Cancelled => "open",
        });
        j.key("fee").decimal(Decimal::ZERO);
        j.key("fee_currency").string(settlement_name(spec, currencies));
        j.key("profit_loss").decimal(Decimal::ZERO);
        j.key("matching_id").null();
        j.key("self_trade").bool(fill.self_trade);
        j.key("reduce_only").bool(fill.reduce_only);
        for flag in ["post_only", "mmp", "risk_reducing"] {
            j.key(flag).bool(false);
        }
        j.key("api").bool(true);
        busted(j, fill.busted);
    });
}
