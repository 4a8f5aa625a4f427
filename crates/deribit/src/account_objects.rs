//! JSON objects about one account. Answers and notifications share these writers.

use pitwire_engine::Engine;
use pitwire_model::{AccountId, Currency, InstrumentId, InstrumentKind};
use pitwire_projections::{OrderRecord, OrderState, Place, ReportRecord};

use crate::codec::objects::ReportFacts;
use crate::codec::{Json, objects};

pub(crate) fn summary_facts(engine: &Engine, account: AccountId, currency: &Currency) -> objects::SummaryFacts {
    let Some(holder) = engine.account(account) else { return objects::SummaryFacts::default() };
    let balance = holder.balance(currency.id);
    let (mut unrealized, mut margin, mut delta) = (0, 0, 0);
    for (instrument, held) in holder.positions() {
        if engine.market(instrument).is_some_and(|market| market.spec.base() == currency.id) {
            unrealized += engine.unrealized(account, instrument);
            margin += engine.margin_of(account, instrument);
            delta += held.entry_value * i128::from(held.lots.signum());
        }
    }
    let available = engine.available(account, currency.id);
    objects::SummaryFacts { balance: balance.total, available, unrealized, margin, reserved: balance.reserved, delta }
}

pub(crate) fn write_position(j: &mut Json<'_>, engine: &Engine, account: AccountId, id: InstrumentId) {
    let (Some(market), Some(holder)) = (engine.market(id), engine.account(account)) else { return };
    let held = holder.position(id);
    let leverage = match market.spec.kind {
        InstrumentKind::InversePerpetual { max_leverage, .. } => max_leverage,
        InstrumentKind::Spot { .. } => 1,
    };
    objects::position(
        j,
        &objects::PositionFacts {
            spec: &market.spec,
            lots: held.lots,
            entry_value: held.entry_value,
            unrealized: engine.unrealized(account, id),
            realized: held.realized,
            margin: engine.margin_of(account, id),
            decimals: engine.currency(market.spec.base()).map_or(8, |currency| currency.decimals),
            mark: market.mark(),
            index: market.index(),
            leverage,
        },
    );
}

pub(crate) fn write_report(j: &mut Json<'_>, engine: &Engine, record: &ReportRecord, viewer: AccountId) {
    let Some(market) = engine.market(record.trade.instrument) else { return };
    let other = if record.trade.account == viewer { record.trade.counterparty } else { record.trade.account };
    let counterparty = engine.account(other).map_or("", |holder| holder.spec.name.as_str());
    objects::trade_report(j, &ReportFacts { spec: &market.spec, record, viewer, counterparty });
}

/// Returns the state of an order in its book: the queue position of an open, visible order.
/// Costs one step for each order ahead of it.
pub(crate) fn order_moment(engine: &Engine, record: &OrderRecord) -> objects::OrderMoment {
    let is_open = record.state == OrderState::Open;
    // Only an order in the visible book has a place in the queue.
    let is_visible = record.place == Place::Active && record.minimum_execution().is_none();
    let queue_ahead = if is_open && is_visible { engine.queue_ahead(record.id) } else { None };
    objects::OrderMoment { queue_ahead, ..objects::OrderMoment::default() }
}
