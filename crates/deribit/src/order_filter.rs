//! Which orders of a member a request covers: by instrument, and by type of order.
//!
//! Leaves out  reading them from a request: see `methods::filters`.

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, OrderType};
use pitwire_projections::{OrderRecord, Place};

use crate::codec::objects;

/// Which orders `type` covers: stops that wait for their trigger, and all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderTypeFilter {
    pub plain: bool,
    pub stop_limit: bool,
    pub stop_market: bool,
}

impl OrderTypeFilter {
    pub const ALL: OrderTypeFilter = OrderTypeFilter { plain: true, stop_limit: true, stop_market: true };
    pub const NONE: OrderTypeFilter = OrderTypeFilter { plain: false, stop_limit: false, stop_market: false };

    pub fn is_all(self) -> bool {
        self == Self::ALL
    }

    /// Whether an order is covered. An elected stop counts as a plain order.
    pub fn covers(self, order: &OrderRecord) -> bool {
        match order.order_type {
            OrderType::Stop { .. } if order.place == Place::Unelected => self.stop_market,
            OrderType::StopLimit { .. } if order.place == Place::Unelected => self.stop_limit,
            _ => self.plain,
        }
    }
}

/// Instruments of a member's own orders and fills.
#[derive(Debug, Default)]
pub struct InstrumentFilter {
    pub instrument: Option<InstrumentId>,
    /// Currencies; empty means any.
    pub currencies: Vec<String>,
    /// Base and quote currency, such as `btc_usd`, in lower case.
    pub pair: Option<String>,
    pub kind: Option<String>,
}

impl InstrumentFilter {
    pub fn covers(&self, engine: &Engine, id: InstrumentId) -> bool {
        if let Some(instrument) = self.instrument {
            return instrument == id;
        }
        engine.market(id).is_some_and(|market| {
            let settled = objects::settlement_name(&market.spec, engine.currencies());
            let is_of_pair = |pair: &String| *pair == objects::index_name(&market.spec, engine.currencies());
            self.pair.as_ref().is_none_or(is_of_pair)
                && (self.currencies.is_empty() || self.currencies.iter().any(|name| name.eq_ignore_ascii_case(settled)))
                && self.kind.as_deref().is_none_or(|kind| kind == objects::instrument_kind(&market.spec))
        })
    }
}
