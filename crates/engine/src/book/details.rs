//! Rarely needed data of resting orders, stored outside the slab by slot, so that a node stays
//! small.
//!
//! Holds       1. an order's origin is written when it rests, so that a slot never returns the
//!                origin of an earlier order;
//!             2. the vector of reserves ends at the highest slot that an iceberg has had; without
//!                icebergs it is empty.
//! Costs       constant per access. Never iterated. An origin of size zero is neither stored nor
//!             loaded.

use pitwire_model::{MatchGroup, SessionId};

use crate::rule_tables::Tif;

/// Where an order came from and how long it lives. 24 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderOrigin {
    /// Time priority: lower is earlier, and no two live orders have the same.
    pub time: u64,
    /// The session that entered the order; zero for none.
    pub session: SessionId,
    pub group: MatchGroup,
    /// In days since 1970: the entry day of a GTC order (zero before the first venue day), the last
    /// day of a GTD order.
    pub day: u16,
    pub tif: Tif,
    pub flags: OrderFlags,
}

/// The yes-or-no terms of an order, in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderFlags(u8);

impl OrderFlags {
    const CANCEL_ON_DISCONNECT: u8 = 1;
    const REDUCE_ONLY: u8 = 2;

    pub fn new(cancel_on_disconnect: bool, reduce_only: bool) -> OrderFlags {
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        OrderFlags(flag(cancel_on_disconnect, Self::CANCEL_ON_DISCONNECT) | flag(reduce_only, Self::REDUCE_ONLY))
    }

    pub fn cancel_on_disconnect(self) -> bool {
        self.0 & Self::CANCEL_ON_DISCONNECT != 0
    }

    /// Whether the order may only bring a position nearer to zero.
    pub fn reduce_only(self) -> bool {
        self.0 & Self::REDUCE_ONLY != 0
    }
}

/// The undisplayed part of an iceberg.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IcebergReserve {
    /// Open lots that are not displayed.
    pub hidden: u32,
    /// Lots displayed at a time.
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

    /// HOT. Stores the origin of an order.
    #[inline]
    pub fn set_origin(&mut self, at: u32, origin: E) {
        if size_of::<E>() == 0 {
            return;
        }
        match self.origins.get_mut(at as usize) {
            Some(stored) => *stored = origin,
            None => self.origins.resize(at as usize + 1, origin),
        }
    }

    /// HOT. Returns the origin of an order for change; `None` if origins have size zero.
    #[inline]
    pub fn origin_mut(&mut self, at: u32) -> Option<&mut E> {
        self.origins.get_mut(at as usize)
    }

    pub fn reserve_of(&self, at: u32) -> IcebergReserve {
        self.reserves.get(at as usize).copied().unwrap_or_default()
    }

    /// Returns the reserve of an iceberg for change. Grows the vector if needed.
    pub fn reserve_mut(&mut self, at: u32) -> &mut IcebergReserve {
        let at = at as usize;
        if at >= self.reserves.len() {
            self.reserves.resize(at + 1, IcebergReserve::default());
        }
        &mut self.reserves[at]
    }
}
