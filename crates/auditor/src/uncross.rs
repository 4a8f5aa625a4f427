//! The one price of a call or a batch, and its trades (rulebook 8.2, 11, 15.3).
//!
//! Holds       trades come in pairs from both heads; what they leave (refreshed icebergs, remainders below their
//!             minimum, the word of the uncross) comes after the last of them.
//! Start at    [`Auditor::call_plan`], [`Auditor::follow_plan`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pitwire_model::{Allocation, CancelReason, Event, InstrumentId, Lots, OrderId, Phase, Side, TradeKind};

use crate::Auditor;
use crate::book::Live;
use crate::fault::{Judged, offence};
use crate::prices::{Curves, Found, call_price, in_order, in_proportion, paired, side_passes};
use crate::trades::Deal;
use crate::turn::Turn;

/// What is to be done at one price.
#[derive(Clone, Debug)]
pub struct Plan {
    pub found: Found,
    /// Buyer, seller, lots.
    pub pairs: Vec<(OrderId, OrderId, u64)>,
}

impl Plan {
    pub fn holds(&self, order: OrderId) -> bool {
        self.pairs.iter().any(|(buyer, seller, _)| *buyer == order || *seller == order)
    }

    fn fills(&self) -> BTreeMap<OrderId, u64> {
        let mut fills = BTreeMap::new();
        for (buyer, seller, lots) in &self.pairs {
            *fills.entry(*buyer).or_default() += lots;
            *fills.entry(*seller).or_default() += lots;
        }
        fills
    }
}

impl Auditor {
    /// What a call that ends now is to do; `is_batch`: the continuous session's batch.
    pub(crate) fn call_plan(&self, instrument: InstrumentId, is_batch: bool) -> Option<Plan> {
        let market = self.market_of(instrument);
        let [mut bids, mut offers] = [Side::Buy, Side::Sell].map(|side| self.interests(instrument, side));
        side_passes(&mut bids, &mut offers);
        let found = call_price(&Curves::of(&bids, &offers), market.reference())?;
        let nothing: &[u64] = &[];
        let batches = match market.rules.allocation {
            Allocation::ProRata => Some(nothing),
            Allocation::FrequentBatch if is_batch => Some(market.batch_ends.as_slice()),
            _ => None,
        };
        let [bought, sold] = [(Side::Buy, &bids, found.surplus > 0), (Side::Sell, &offers, found.surplus < 0)].map(
            |(side, orders, is_too_large)| match batches.filter(|_| is_too_large) {
                Some(ends) => in_proportion(side, orders, found.price, found.volume, ends),
                None => in_order(side, orders, found.price, found.volume),
            },
        );
        Some(Plan { found, pairs: paired(&bought, &sold) })
    }

    /// The trades of a plan, one after another, and all that they leave.
    pub(crate) fn follow_plan(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        plan: &Plan,
        kind: TradeKind,
    ) -> Judged {
        self.peek(turn)?;
        let mut fills = plan.fills();
        self.minimums_kept(&fills)?;
        let hidden: Vec<OrderId> =
            [Side::Buy, Side::Sell].into_iter().flat_map(|side| self.hidden_in_order(instrument, side)).collect();
        let mut used_up = BTreeSet::new();
        for (buyer, seller, lots) in &plan.pairs {
            self.see_refreshes(turn, &mut used_up, &fills)?;
            let (Some(bid), Some(offer)) = (self.orders.get(buyer).copied(), self.orders.get(seller).copied()) else {
                offence!(M4, "orders {buyer} and {seller} were to trade, and one is gone");
            };
            let (maker, taker) = if bid.arrival < offer.arrival { (bid, offer) } else { (offer, bid) };
            let deal = Deal { maker, taker, price: plan.found.price, lots: *lots, kind, taker_reserves: true };
            self.see_trade(turn, &deal)?;
            for order in [maker, taker] {
                if let Some(due) = fills.get_mut(&order.id) {
                    *due -= lots;
                }
                self.take_fill(turn, &order, *lots, &mut used_up);
            }
            if !turn.trips.is_empty() {
                self.see_refreshes(turn, &mut used_up, &fills)?;
            }
            self.see_trips(turn)?;
        }
        let said = match kind {
            TradeKind::Call(call) => {
                let (price, volume) = (plan.found.price, Lots(plan.found.volume));
                self.set_references(instrument, call, price);
                Some(Event::Uncrossed { instrument, call, price, volume })
            }
            _ => None,
        };
        let is_short = |order: &Live| order.open < order.minimum;
        let short = hidden.into_iter().filter(|id| self.orders.get(id).is_some_and(is_short)).collect();
        self.see_aftermath(turn, used_up, said, short)
    }

    /// No hidden order trades less than it must.
    fn minimums_kept(&self, fills: &BTreeMap<OrderId, u64>) -> Judged {
        for (id, lots) in fills {
            if let Some(order) = self.orders.get(id)
                && *lots < order.minimum
            {
                offence!(M5, "hidden order {id} gets {lots} and takes no less than {}", order.minimum);
            }
        }
        Ok(())
    }

    fn hidden_in_order(&self, instrument: InstrumentId, side: Side) -> Vec<OrderId> {
        let orders = self.market_of(instrument).book.orders(side);
        orders.filter(|id| self.orders.get(id).is_some_and(Live::is_hidden)).collect()
    }

    fn take_fill(&mut self, turn: &mut Turn<'_>, order: &Live, lots: u64, used_up: &mut BTreeSet<OrderId>) {
        let left = Live { open: order.open - lots, shown: order.shown.saturating_sub(lots), ..*order };
        self.level_changes(turn, order);
        let book = &mut self.markets[order.instrument.0 as usize].book;
        book.shrink(order, order.shown - left.shown, lots);
        self.orders.insert(left.id, left);
        if left.open == 0 {
            used_up.remove(&left.id);
            self.forget(turn, &left);
        } else if left.is_on_show() && left.shown == 0 {
            used_up.insert(left.id);
        }
    }

    /// Icebergs may refresh as soon as they have had their last fill.
    fn see_refreshes(
        &mut self,
        turn: &mut Turn<'_>,
        used_up: &mut BTreeSet<OrderId>,
        fills: &BTreeMap<OrderId, u64>,
    ) -> Judged {
        while let Some(Event::Refreshed { order, .. }) = self.peek(turn)? {
            if fills.get(order) != Some(&0) || !used_up.remove(order) {
                offence!(M6, "order {order} was refreshed and had no need of it");
            }
            self.see_refreshed(turn, *order)?;
        }
        Ok(())
    }

    /// What comes after the last trade: refreshed icebergs, the word of the uncross, remainders that are too small.
    fn see_aftermath(
        &mut self,
        turn: &mut Turn<'_>,
        mut used_up: BTreeSet<OrderId>,
        mut said: Option<Event>,
        mut short: VecDeque<OrderId>,
    ) -> Judged {
        while !used_up.is_empty() || said.is_some() || !short.is_empty() {
            match self.peek(turn)? {
                Some(Event::Refreshed { order, .. }) if used_up.remove(order) => self.see_refreshed(turn, *order)?,
                Some(event @ Event::Uncrossed { .. }) if said.is_some() => {
                    if said.as_ref() != Some(event) {
                        offence!(M6, "the uncross was told as {event:?} and is {said:?}");
                    }
                    (said, _) = (None, turn.pass());
                }
                Some(Event::Cancelled { order, .. }) if short.front() == Some(order) => {
                    short.pop_front();
                    self.see_leaving(turn, *order, CancelReason::BelowMinimumExecution)?;
                }
                Some(event @ Event::Trade { .. }) => {
                    offence!(M6, "{event:?} was more than the price allows: all that executes has")
                }
                told => {
                    if let Some(order) = used_up.first() {
                        offence!(M6, "order {order} has shown all it shows and was not refreshed: {told:?}");
                    }
                    if let Some(order) = short.front() {
                        offence!(M5, "order {order} has less left than its minimum and did not expire: {told:?}");
                    }
                    offence!(M6, "{said:?} was to be told, and {told:?} was");
                }
            }
        }
        Ok(())
    }

    /// A call that ends: whether a tolerance kept it from uncrossing.
    pub(crate) fn follow_uncross(
        &mut self,
        turn: &mut Turn<'_>,
        instrument: InstrumentId,
        call: Phase,
    ) -> Judged<bool> {
        let is_batch = call == Phase::Continuous;
        let plan = self.call_plan(instrument, is_batch);
        let Some(plan) = plan else {
            if let Some(Event::Trade { trade_seq, .. }) = self.peek(turn)? {
                offence!(M6, "trade {trade_seq}, and {} has no price", call.name());
            }
            return Ok(false);
        };
        let market = self.market_of(instrument);
        if call != Phase::VolatilityCall
            && let Some(breach) = market.breach(market.rules.tolerance(call), plan.found.price, market.dynamic)
        {
            self.see_breached(turn, instrument, &breach)?;
            return Ok(true);
        }
        self.follow_plan(turn, instrument, &plan, TradeKind::Call(call))?;
        Ok(false)
    }
}
