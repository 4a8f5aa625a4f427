//! The outcome of one command for its caller.

use pitwire_model::{Event, OrderId, Reject};
use pyo3::prelude::*;

/// The effects of a command on its order.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrderEffect {
    pub reason: Option<Reject>,
    pub filled_lots: u64,
    /// Sum of price times lots of the fills.
    pub value_ticks: i128,
    pub open_lots: u64,
}

impl OrderEffect {
    /// Reads the effect of a command on `order` from the events of the command.
    pub fn of(order: OrderId, events: &[Event]) -> Self {
        let mut effect = OrderEffect::default();
        for event in events {
            match event {
                Event::Accepted { order: id, lots, .. } if *id == order => effect.open_lots = lots.0,
                Event::Amended { order: id, open, .. } if *id == order => effect.open_lots = open.0,
                Event::Trade { taker, maker, lots, price, .. } if *taker == order || *maker == order => {
                    effect.filled_lots += lots.0;
                    effect.value_ticks += i128::from(price.0) * i128::from(lots.0);
                    effect.open_lots = effect.open_lots.saturating_sub(lots.0);
                }
                Event::Cancelled { order: id, .. } if *id == order => effect.open_lots = 0,
                Event::Rejected { reason, .. }
                | Event::AmendRefused { reason, .. }
                | Event::CancelRefused { reason, .. }
                | Event::CommandRefused { reason } => effect.reason = Some(*reason),
                _ => {}
            }
        }
        effect
    }
}

/// The state of an order after one command: `submit`, `amend` or `cancel`.
#[pyclass(frozen, module = "pitwire")]
pub struct Outcome {
    order_id: u64,
    effect: OrderEffect,
}

impl Outcome {
    pub fn new(order: OrderId, events: &[Event]) -> Self {
        Outcome { order_id: order.0, effect: OrderEffect::of(order, events) }
    }
}

#[pymethods]
impl Outcome {
    /// Id of the order, also after a refusal.
    #[getter]
    fn order_id(&self) -> u64 {
        self.order_id
    }

    /// Whether the command was executed.
    #[getter]
    fn accepted(&self) -> bool {
        self.effect.reason.is_none()
    }

    /// Reason of the refusal, such as "not_enough_funds", or None.
    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.effect.reason.map(Reject::name)
    }

    /// Lots that this command filled.
    #[getter]
    fn filled_lots(&self) -> u64 {
        self.effect.filled_lots
    }

    /// Open lots directly after this command.
    #[getter]
    fn open_lots(&self) -> u64 {
        self.effect.open_lots
    }

    /// Mean price of the fills of this command in ticks, or None without a fill.
    #[getter]
    #[allow(clippy::cast_precision_loss)]
    fn mean_price_ticks(&self) -> Option<f64> {
        let OrderEffect { filled_lots, value_ticks, .. } = self.effect;
        (filled_lots > 0).then(|| value_ticks as f64 / filled_lots as f64)
    }

    fn __repr__(&self) -> String {
        let OrderEffect { filled_lots, open_lots, .. } = self.effect;
        match self.effect.reason {
            Some(reason) => format!("Outcome(order_id={}, reason={:?})", self.order_id, reason.name()),
            None => {
                format!("Outcome(order_id={}, filled_lots={filled_lots}, open_lots={open_lots})", self.order_id)
            }
        }
    }
}
