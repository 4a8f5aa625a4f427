//! Event types, and the effect of each on the book.
//!
//! Holds       a model that `check` accepts has one type for each row of its kernel.
//! Start at    [`FlowModel`].

use pitwire_model::{Label, Side};

use crate::error::FlowError;
use crate::kernel::{Kernel, ParameterSet};

/// The parameters of a flow with its event types.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowModel {
    pub kernel: Kernel,
    /// In the order of the kernel's rows.
    pub types: Vec<EventType>,
    /// Whether orders have the name of their type as label, so that exports contain it.
    pub has_labels: bool,
}

/// An event type.
#[derive(Clone, Debug, PartialEq)]
pub struct EventType {
    pub name: Label,
    pub act: Act,
    /// `None` draws the side of each event.
    pub side: Option<Side>,
    /// Size of the orders, in typical orders.
    pub size: f64,
    /// Whether the type has intensity zero while the spread is one tick (Zheng, Roueff and Abergel
    /// 2014).
    pub needs_spread: bool,
}

/// Theoretical long-run rate of an event type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpectedRate {
    pub per_s: f64,
    /// Variance of the count, per second.
    pub variance_per_s: f64,
}

/// The effect of an event. "Best" is the best price of the event's own side, "touch" that of the
/// other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Takes the whole touch and a little more.
    EmptyTouch,
    /// Takes the touch exactly, so that the price moves by a level.
    TakeLevel,
    /// Takes a part of the touch.
    LeaveTouch,
    /// Rests at a random price inside the spread, or at the best price if the spread is one tick.
    Inside,
    /// Rests one tick better than the best price, or at it if the spread is one tick.
    Improve,
    /// Rests at the best price.
    Join,
    /// Rests behind the best price.
    Behind,
    /// Moves the mid in the direction of its side: by [`Act::Improve`] if the spread is wider than
    /// one tick, else by [`Act::TakeLevel`].
    MoveMid,
    /// Cancels an order of the flow at the best price.
    CancelBest,
    /// Cancels an order of the flow behind the best price.
    CancelBehind,
}

impl Act {
    /// Every act with its name in a file.
    pub const NAMES: [(&'static str, Act); 10] = [
        ("empty_touch", Act::EmptyTouch),
        ("take_level", Act::TakeLevel),
        ("leave_touch", Act::LeaveTouch),
        ("inside", Act::Inside),
        ("improve", Act::Improve),
        ("join", Act::Join),
        ("behind", Act::Behind),
        ("move_mid", Act::MoveMid),
        ("cancel_best", Act::CancelBest),
        ("cancel_behind", Act::CancelBehind),
    ];

    /// Returns whether the act is a cancel.
    pub fn is_cancel(self) -> bool {
        matches!(self, Act::CancelBest | Act::CancelBehind)
    }

    /// Returns whether the act trades at once in continuous trading.
    pub fn is_eager(self) -> bool {
        matches!(self, Act::EmptyTouch | Act::TakeLevel | Act::LeaveTouch | Act::MoveMid)
    }
}

/// Acts and names of the published types; buys before sells.
const PUBLISHED: [(Act, [&str; 2]); 4] = [
    (Act::EmptyTouch, ["market buy, empties the touch", "market sell, empties the touch"]),
    (Act::Inside, ["limit buy, inside the spread", "limit sell, inside the spread"]),
    (Act::LeaveTouch, ["market buy, leaves the touch", "market sell, leaves the touch"]),
    (Act::Behind, ["limit buy, behind the touch", "limit sell, behind the touch"]),
];

impl EventType {
    /// Returns a type with orders of typical size. A name that is too long for a label is empty.
    pub fn new(name: &str, act: Act, side: Option<Side>) -> EventType {
        EventType { name: Label::new(name).unwrap_or_default(), act, side, size: 1.0, needs_spread: false }
    }
}

impl FlowModel {
    /// Returns the published set.
    pub fn published(reading: ParameterSet) -> FlowModel {
        FlowModel::with_published_types(Kernel::published(reading))
    }

    /// Returns the published set made symmetric.
    pub fn symmetric() -> FlowModel {
        FlowModel::with_published_types(Kernel::symmetric())
    }

    fn with_published_types(kernel: Kernel) -> FlowModel {
        let sides = [Side::Buy, Side::Sell];
        let both = |(act, names): (Act, [&'static str; 2])| {
            names.into_iter().zip(sides).map(move |(name, side)| EventType::new(name, act, Some(side)))
        };
        FlowModel { kernel, types: PUBLISHED.into_iter().flat_map(both).collect(), has_labels: false }
    }

    /// Returns whether a state of the book can suppress events. The long-run rates of such a flow
    /// have no closed form.
    pub fn is_constrained(&self) -> bool {
        self.types.iter().any(|kind| kind.needs_spread)
    }

    /// Returns whether the flow cancels by events.
    pub fn has_cancels(&self) -> bool {
        self.types.iter().any(|kind| kind.act.is_cancel())
    }

    /// Checks that the process is stable and that each row of the kernel has a type.
    ///
    /// # Errors
    ///
    /// Returns an error if a parameter is out of range or the spectral radius is 1 or more.
    pub fn check(&self) -> Result<(), FlowError> {
        self.kernel.check()?;
        if self.types.len() != self.kernel.types() {
            return Err(FlowError::bad("number of types", self.types.len(), format!("{}", self.kernel.types())));
        }
        if let Some(kind) = self.types.iter().find(|kind| !(kind.size > 0.0 && kind.size <= 1e3)) {
            return Err(FlowError::bad("size", kind.size, "more than 0, at most 1000 typical orders"));
        }
        Ok(())
    }
}
