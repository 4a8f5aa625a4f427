//! What is known of a resting order but seldom asked: kept beside the slab, by slot, so that a node stays small.
//!
//! Holds       1. an origin is written whenever an order comes to rest, so a slot never shows its last tenant's;
//!             2. reserves reach only as far as the highest slot an iceberg has had: without icebergs there are none.
//! Costs       constant by slot. Never iterated. An origin of no size is neither stored nor looked up.

use pitwire_model::{MatchGroup, SessionId};

use crate::rule_tables::Tif;

/// Where an order came from and how long it lives: what a venue asks of it besides its owner. 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderOrigin {
    /// Its place in time among the orders of its instrument: less is earlier, and no two are equal.
    pub time: u64,
    /// The session that entered it; zero for none.
    pub session: SessionId,
    pub group: MatchGroup,
    /// Days since 1970: of a GTC order when it was entered (zero: before any day had begun), of a GTD order its last.
    pub day: u16,
    pub tif: Tif,
    pub cancel_on_disconnect: bool,
}

/// What an iceberg keeps back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IcebergReserve {
    /// Lots not on display.
    pub hidden: u32,
    /// Lots shown at a time.
    pub display: u32,
}

#[derive(Debug)]
pub(crate) struct OrderDetails<E> {
    origins: Vec<E>,
    reserves: Vec<IcebergReserve>,
}

impl<E: Copy + Default> OrderDetails<E> {
    pub fn new() -> Self {
        OrderDetails { origins: Vec::new(), reserves: Vec::new() }
    }

    pub fn reserve(&mut self, orders: usize) {
        self.origins.reserve(orders.saturating_sub(self.origins.len()));
        self.reserves.reserve(orders.saturating_sub(self.reserves.len()));
    }

    #[inline]
    pub fn origin(&self, at: u32) -> E {
        if size_of::<E>() == 0 { E::default() } else { self.origins[at as usize] }
    }

    /// HOT.
    #[inline]
    pub fn set_origin(&mut self, at: u32, origin: E) {
        if size_of::<E>() == 0 {
            return;
        }
        match self.origins.get_mut(at as usize) {
            Some(kept) => *kept = origin,
            None => self.origins.resize(at as usize + 1, origin),
        }
    }

    /// HOT.
    #[inline]
    pub fn origin_mut(&mut self, at: u32) -> Option<&mut E> {
        self.origins.get_mut(at as usize)
    }

    pub fn reserve_of(&self, at: u32) -> IcebergReserve {
        self.reserves.get(at as usize).copied().unwrap_or_default()
    }

    pub fn reserve_mut(&mut self, at: u32) -> &mut IcebergReserve {
        let at = at as usize;
        if at >= self.reserves.len() {
            self.reserves.resize(at + 1, IcebergReserve::default());
        }
        &mut self.reserves[at]
    }
}
