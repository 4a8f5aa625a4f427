//! Plans an uncross: finds the price and which order trades how much. Changes nothing.
//!
//! Costs       the prices of both sides once; with hidden orders, the passes of `filter`.
//! Start at    [`UncrossPlanner::clear_call`] and [`UncrossPlanner::plan_filter`].

use pitwire_model::{Allocation, Side, Ticks};

use super::curve::{AuctionCurve, ClearingResult};
use super::filter::{self, AuctionInterest};
use super::plan::{ExtraParticipant, PlannedFill, SharedPrice, SidePlanner};
use crate::allocation::{AllocationRule, BatchAllocation, ProRataAllocation};
use crate::book::{QueuedOrder, Slot, key_of};
use crate::market::Market;

/// The trades of an uncross: buyers and sellers, each in the order in which they trade.
pub(super) struct UncrossPlan {
    pub price: Ticks,
    pub volume: u64,
    pub sides: [Vec<PlannedFill>; 2],
}

/// The price of a call, and the orders of each side that are not in the displayed book.
pub(super) type ClearedCall = (ClearingResult, [Vec<ExtraParticipant>; 2]);

pub(super) struct UncrossPlanner<'a> {
    pub market: &'a Market,
}

impl UncrossPlanner<'_> {
    /// Finds the price of the call. Counts only hidden orders that can get their minimum execution
    /// size.
    pub fn clear_call(&self, curve: &mut AuctionCurve) -> Option<ClearedCall> {
        let mut hidden = Side::BOTH.map(|side| self.hidden_orders(side, None));
        if hidden.iter().any(|side| !side.is_empty()) {
            let interests_of = |side: Side| -> Vec<AuctionInterest> {
                let market_lots = Some(curve.market_lots(side)).filter(|lots| *lots > 0);
                let market_orders = market_lots.map(|lots| AuctionInterest::market_orders(side, lots));
                let priced = interests(side, curve.levels(side), &hidden[side as usize & 1]);
                market_orders.into_iter().chain(priced).collect()
            };
            let [mut bids, mut asks] = Side::BOTH.map(interests_of);
            filter::settle(&mut bids, &mut asks);
            keep_counted(&mut hidden, [&bids, &asks]);
        }
        let change_curve = |curve: &mut AuctionCurve, sign: i64| {
            for (side, orders) in Side::BOTH.into_iter().zip(&hidden) {
                orders.iter().for_each(|order| curve.change(side, order.price, sign * i64::from(order.lots)));
            }
        };
        change_curve(curve, 1);
        let clearing = curve.clearing(self.market.reference());
        change_curve(curve, -1);
        let clearing = clearing?;
        for (side, orders) in Side::BOTH.into_iter().zip(&mut hidden) {
            orders.extend(self.market.undisplayed.unpriced(side).filter_map(|slot| self.participant(slot)));
            SidePlanner::sort(side, orders);
        }
        Some((clearing, hidden))
    }

    /// Plans the trades of a call or batch whose price is known.
    pub fn plan_call(&self, (clearing, participants): &ClearedCall) -> UncrossPlan {
        let ClearingResult { price, volume, imbalance } = *clearing;
        let batches = BatchAllocation(self.market.auction.batch_ends.as_slice());
        let rule: Option<&dyn AllocationRule> = match self.market.rules.allocation {
            Allocation::PriceTime => None,
            Allocation::ProRata => Some(&ProRataAllocation),
            Allocation::FrequentBatch if self.market.trades_in_batches() => Some(&batches),
            Allocation::FrequentBatch => None,
        };
        let larger_side = if imbalance > 0 { Side::Buy } else { Side::Sell };
        let sides = Side::BOTH.map(|side| {
            let rule = rule.filter(|_| imbalance != 0 && side == larger_side);
            let shared = rule.map(|rule| SharedPrice { price, rule });
            let participants = &participants[side as usize & 1];
            let skips_reduce_only = false;
            SidePlanner { book: &self.market.book, side, participants, shared, skips_reduce_only }.plan(volume)
        });
        UncrossPlan { price, volume, sides }
    }

    /// Plans a filter. Returns `None` unless the book is crossed when hidden orders are counted.
    pub fn plan_filter(&self) -> Option<UncrossPlan> {
        let market = self.market;
        let best = |side: Side| {
            let hidden = self.best_hidden(side);
            let displayed = market.book.best_price(side);
            hidden.into_iter().chain(displayed).min_by_key(|price| key_of(side, *price))
        };
        let (bid, offer) = (best(Side::Buy)?, best(Side::Sell)?);
        if bid < offer {
            return None;
        }
        let worst = [offer, bid];
        let skips_reduce_only = !market.reduce_only.is_empty();
        let mut hidden = [0, 1].map(|at| self.hidden_orders(Side::BOTH[at], Some(worst[at])));
        let interests_of = |at: usize| -> Vec<AuctionInterest> {
            let (side, last) = (Side::BOTH[at], key_of(Side::BOTH[at], worst[at]));
            let levels =
                market.book.total_levels_of(side, |slot| !skips_reduce_only || !market.book.is_reduce_only(slot));
            let levels = levels.take_while(|(price, _)| key_of(side, *price) <= last);
            interests(side, levels.filter(|(_, lots)| *lots > 0), &hidden[at]).collect()
        };
        let [mut bids, mut asks] = [0, 1].map(interests_of);
        filter::settle(&mut bids, &mut asks);
        let crossing = filter::crossing(&bids, &asks)?;
        keep_counted(&mut hidden, [&bids, &asks]);
        let bests = Side::BOTH.map(|side| market.book.best_price(side));
        let price = filter::price(crossing, bests, market.reference());
        let sides = [0, 1].map(|at| {
            let (side, participants) = (Side::BOTH[at], &hidden[at][..]);
            SidePlanner { book: &market.book, side, participants, shared: None, skips_reduce_only }
                .plan(crossing.volume)
        });
        Some(UncrossPlan { price, volume: crossing.volume, sides })
    }

    fn best_hidden(&self, side: Side) -> Option<Ticks> {
        let undisplayed = &self.market.undisplayed;
        undisplayed.hidden(side).next().and_then(|slot| undisplayed.get(slot)).map(|order| order.price())
    }

    /// Hidden orders of one side in priority order, down to the price `last`.
    fn hidden_orders(&self, side: Side, last: Option<Ticks>) -> Vec<ExtraParticipant> {
        let last = last.map_or(u32::MAX, |last| key_of(side, last));
        let is_within = |order: &ExtraParticipant| order.price.is_some_and(|price| key_of(side, price) <= last);
        let hidden = self.market.undisplayed.hidden(side);
        hidden.filter_map(|slot| self.participant(slot)).take_while(is_within).collect()
    }

    fn participant(&self, slot: Slot) -> Option<ExtraParticipant> {
        let order = self.market.undisplayed.get(slot)?;
        let (id, time, account, open) = (order.id, order.origin.time, order.account, order.open);
        let (price, minimum) = (order.ranking_price(), order.minimum_execution());
        Some(ExtraParticipant { order: QueuedOrder { id, time, slot, account, open }, price, minimum, lots: open })
    }
}

/// The interests of one side in priority order: each displayed price, followed by the hidden orders
/// there.
fn interests<'a>(
    side: Side,
    levels: impl Iterator<Item = (Ticks, u64)> + 'a,
    hidden: &'a [ExtraParticipant],
) -> impl Iterator<Item = AuctionInterest> + 'a {
    let mut levels = levels.peekable();
    let mut hidden = hidden.iter().peekable();
    std::iter::from_fn(move || {
        let next_hidden = hidden.peek().map(|order| order.rank(side));
        let level = levels.next_if(|(price, _)| next_hidden.is_none_or(|key| Some(key_of(side, *price)) <= key));
        match level {
            Some((price, lots)) => Some(AuctionInterest::displayed(price, lots)),
            None => hidden.next().map(ExtraParticipant::interest),
        }
    })
}

/// Reduces the hidden orders to the quantities that count, and drops those of which nothing counts.
/// `settled` contains every hidden order in the same order.
fn keep_counted(hidden: &mut [Vec<ExtraParticipant>; 2], settled: [&[AuctionInterest]; 2]) {
    for (orders, settled) in hidden.iter_mut().zip(settled) {
        let counted = settled.iter().filter(|interest| interest.minimum > 0);
        for (order, interest) in orders.iter_mut().zip(counted) {
            order.lots = u32::try_from(interest.lots).unwrap_or(u32::MAX);
        }
        orders.retain(|order| order.lots > 0);
    }
}
