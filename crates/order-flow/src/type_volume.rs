//! The lots that the events of one type entered and traded in one instrument.
//!
//! Start at    [`TypeVolume::add`].

use pitwire_model::{Event, Label, OrderId, Side, TradeKind};

/// Volume of one event type in one instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeVolume {
    pub name: Label,
    /// `None` if its events are on both sides.
    pub side: Option<Side>,
    /// Lots of the accepted orders of its events.
    pub entered_lots: u64,
    /// Lots that these orders traded on arrival, as aggressors. Later trades of what rests count
    /// for the order that meets it, and trades of an uncross have no aggressor.
    pub traded_lots: u64,
}

impl TypeVolume {
    /// Returns the volume of a type without orders.
    pub fn new(name: Label, side: Option<Side>) -> TypeVolume {
        TypeVolume { name, side, entered_lots: 0, traded_lots: 0 }
    }

    /// Adds the order `id` with the events of its entry.
    pub fn add(&mut self, id: OrderId, events: &[Event]) {
        for event in events {
            match event {
                Event::Accepted { order, lots, .. } if *order == id => self.entered_lots += lots.0,
                Event::Trade { taker, lots, kind: TradeKind::Continuous, .. } if *taker == id => {
                    self.traded_lots += lots.0;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pitwire_model::{AccountId, InstrumentId, Lots, OrderType, Ticks, TimeInForce, TradeSeq};

    use super::*;

    const OWN: OrderId = OrderId(7);

    fn trade(maker: OrderId, taker: OrderId, lots: u64, kind: TradeKind) -> Event {
        Event::Trade {
            instrument: InstrumentId(0),
            trade_seq: TradeSeq(1),
            price: Ticks(100),
            lots: Lots(lots),
            taker_side: Side::Buy,
            maker,
            maker_account: AccountId(1),
            maker_open: Lots(0),
            taker,
            taker_account: AccountId(2),
            taker_open: Lots(0),
            kind,
        }
    }

    #[test]
    fn only_trades_of_the_order_as_aggressor_count() {
        let accepted = |order| Event::Accepted {
            order,
            account: AccountId(2),
            instrument: InstrumentId(0),
            side: Side::Buy,
            order_type: OrderType::Market,
            lots: Lots(50),
            tif: TimeInForce::ImmediateOrCancel,
            display: None,
        };
        let mut volume = TypeVolume::new(Label::default(), Some(Side::Buy));
        volume.add(
            OWN,
            &[
                accepted(OWN),
                trade(OrderId(1), OWN, 20, TradeKind::Continuous),
                trade(OrderId(2), OWN, 3, TradeKind::Continuous),
                // The trades elect a stop order, which trades with the rest of this order. Hidden
                // orders uncross, which has no aggressor.
                accepted(OrderId(8)),
                trade(OWN, OrderId(8), 5, TradeKind::Continuous),
                trade(OrderId(1), OWN, 9, TradeKind::Filter),
            ],
        );
        assert_eq!((volume.entered_lots, volume.traded_lots), (50, 23));
        volume.add(OWN, &[]);
        assert_eq!((volume.entered_lots, volume.traded_lots), (50, 23));
    }
}
