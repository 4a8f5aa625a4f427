//! Call prices, filters and allocations compared with the simplest computation: trying every price,
//! every subset of hidden orders, and allocating lot by lot.

use pitwire_model::{AccountId, OrderId, Side, Ticks};
use pitwire_random::SplitMix64;

use super::curve::{AuctionCurve, ClearingResult};
use super::filter::{self, AuctionInterest, FilterCrossing};
use super::plan::{ExtraParticipant, SharedPrice, SidePlanner};
use crate::allocation::{AllocationClaim, AllocationRule, BatchAllocation, ProRataAllocation, TimeAllocation};
use crate::book::{Book, OrderOrigin, Owner, QueuedOrder, RestingOrder, Slot};

/// An order of a call. A market order has no price.
#[derive(Clone, Copy, Debug)]
struct Order {
    side: Side,
    price: Option<i64>,
    lots: i64,
}

/// Applies rulebook 11.2 literally: tries every price that an order names.
fn by_trying(orders: &[Order], reference: Option<i64>) -> Option<(i64, i64, i64)> {
    let sum = |side: Side, accepts: &dyn Fn(i64) -> bool| -> i64 {
        let here = |order: &&Order| order.side == side && order.price.is_none_or(accepts);
        orders.iter().filter(here).map(|order| order.lots).sum()
    };
    let at = |price: i64| (sum(Side::Buy, &|limit| limit >= price), sum(Side::Sell, &|limit| limit <= price));
    let outcome = |price: i64| {
        let (buy, sell) = at(price);
        (buy.min(sell) > 0).then_some((price, buy.min(sell), buy - sell))
    };
    let mut candidates: Vec<i64> = orders.iter().filter_map(|order| order.price).collect();
    candidates.sort_unstable();
    candidates.dedup();
    if candidates.is_empty() {
        return outcome(reference?);
    }
    let volume = |price: &i64| at(*price).0.min(at(*price).1);
    let surplus = |price: &i64| at(*price).0 - at(*price).1;
    let most = candidates.iter().map(volume).max()?;
    candidates.retain(|price| volume(price) == most);
    let least = candidates.iter().map(|price| surplus(price).abs()).min()?;
    candidates.retain(|price| surplus(price).abs() == least);
    let (lowest, highest) = (candidates[0], candidates[candidates.len() - 1]);
    if candidates.iter().all(|price| surplus(price) > 0) {
        return outcome(highest);
    }
    if candidates.iter().all(|price| surplus(price) < 0) {
        return outcome(lowest);
    }
    outcome(match reference {
        Some(reference) => reference.clamp(lowest, highest),
        None => (lowest + highest).div_euclid(2),
    })
}

fn random_order(random: &mut SplitMix64, prices: u64) -> Order {
    let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
    let price = (random.below(6) > 0).then(|| 95 + random.below(prices).cast_signed());
    Order { side, price, lots: random.between_signed(1, 5) }
}

fn note(curve: &mut AuctionCurve, order: Order, sign: i64) {
    curve.change(order.side, order.price.map(Ticks), sign * order.lots);
}

#[test]
fn call_price_matches_exhaustive_search_after_each_change() {
    let mut random = SplitMix64::new(7);
    let (mut priced, mut unpriced, mut tied) = (0, 0, 0);
    for round in 0..6_000_u64 {
        let (mut curve, mut orders) = (AuctionCurve::default(), Vec::<Order>::new());
        let reference = (round % 3 > 0).then(|| 90 + random.between_signed(0, 20 - 1));
        let prices = 1 + random.below(10);
        for _ in 0..1 + random.below(14) {
            if random.below(4) == 0 && !orders.is_empty() {
                let at = usize::try_from(random.below(orders.len() as u64)).unwrap();
                note(&mut curve, orders.swap_remove(at), -1);
            } else {
                let order = random_order(&mut random, prices);
                note(&mut curve, order, 1);
                orders.push(order);
            }
            let want = by_trying(&orders, reference);
            let got = curve.clearing(reference.map(Ticks));
            let got = got.map(|ClearingResult { price, volume, imbalance }| (price.0, volume.cast_signed(), imbalance));
            assert_eq!(got, want, "round {round}: {orders:?}, reference {reference:?}");
            priced += usize::from(want.is_some());
            unpriced += usize::from(want.is_none());
            tied += usize::from(want.is_some() && by_trying(&orders, Some(1)) != by_trying(&orders, Some(1_000)));
        }
    }
    assert!(priced > 10_000 && unpriced > 5_000 && tied > 500, "{priced} {unpriced} {tied}");
}

/// `buys | sells | reference | price volume imbalance`: orders as `lots@price`, `lots@-` at any
/// price.
#[test]
fn call_prices_match_manual_examples() {
    for row in "
        10000@10550 5600@10450 200@10400 | 6900@10300 1000@10450 200@10600 2500@- | -   | 10450 10400 5200
        10000@10550 5600@10450 200@10400 | 6900@10300 1000@10400 200@10600 2500@- | -   | 10450 10400 5200
        100@102                          | 150@100 50@101                          | -   | 100 100 -50
        100@103 50@101                   | 100@100 30@102                          | -   | 102 100 -30
        100@102 100@101                  | 100@99 100@100                          | 105 | 101 200 0
        100@102 100@101                  | 100@99 100@100                          | -   | 100 200 0
        100@104 20@102                   | 100@100 20@103                          | 101 | 101 100 20
        100@104 20@102                   | 100@100 20@103                          | 103 | 103 100 -20
        100@-                            | 60@-                                    | 77  | 77 60 40
        100@-                            | 60@-                                    | -   | -
        100@- 10@95                      | 60@-                                    | 100 | 95 60 50
        100@99                           | 100@101                                 | 100 | -
        300@105                          | 100@100 100@-                           | -   | 105 200 100
    "
    .lines()
    .filter(|line| !line.trim().is_empty())
    {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [buys, sells, reference, want] = cells[..] else { panic!("four cells: {row}") };
        let mut curve = AuctionCurve::default();
        for (side, words) in [(Side::Buy, buys), (Side::Sell, sells)] {
            for word in words.split_whitespace() {
                let (lots, price) = word.split_once('@').unwrap();
                curve.change(side, price.parse().ok().map(Ticks), lots.parse().unwrap());
            }
        }
        let got = curve.clearing(reference.parse().ok().map(Ticks));
        let got = got.map_or("-".into(), |at| format!("{} {} {}", at.price, at.volume, at.imbalance));
        assert_eq!(got, want, "{row}");
    }
}

fn random_side(random: &mut SplitMix64, side: Side, most: u64) -> Vec<AuctionInterest> {
    let mut interests: Vec<AuctionInterest> = (0..random.below(most + 1))
        .map(|_| {
            let (price, open) =
                (Ticks(100 + random.between_signed(0, 4 - 1)), u32::try_from(1 + random.below(6)).unwrap());
            match random.below(3) {
                0 => AuctionInterest::displayed(price, u64::from(open)),
                _ => AuctionInterest::hidden(price, open, u32::try_from(1 + random.below(u64::from(open))).unwrap()),
            }
        })
        .collect();
    interests.sort_by_key(|interest| {
        let price = if side == Side::Buy { -interest.price } else { interest.price };
        (price, interest.minimum > 0)
    });
    interests
}

/// Returns the largest volume at one price by trying every price.
fn most_at_one_price(bids: &[AuctionInterest], asks: &[AuctionInterest]) -> u64 {
    let sum = |side: &[AuctionInterest], accepts: &dyn Fn(i64) -> bool| -> u64 {
        side.iter().filter(|interest| accepts(interest.price)).map(|interest| interest.lots).sum()
    };
    (98..108).map(|price| sum(bids, &|limit| limit >= price).min(sum(asks, &|limit| limit <= price))).max().unwrap()
}

/// Returns what each interest gets of `volume`, in priority order.
fn given(side: &[AuctionInterest], mut volume: u64) -> Vec<u64> {
    side.iter()
        .map(|interest| {
            let lots = interest.lots.min(volume);
            volume -= lots;
            lots
        })
        .collect()
}

fn every_order_gets_its_minimum(side: &[AuctionInterest], volume: u64) -> bool {
    let mut of_each = side.iter().zip(given(side, volume));
    of_each.all(|(interest, lots)| lots == 0 || lots >= u64::from(interest.minimum))
}

/// Returns the lots that are left for the order at `at` after the counted lots of all orders before
/// it.
fn left_for(at: usize, own: &[AuctionInterest], contra: &[AuctionInterest], accepts: impl Fn(i64, i64) -> bool) -> u64 {
    let within = contra.iter().filter(|other| accepts(own[at].price, other.price)).map(|other| other.lots);
    within.sum::<u64>().saturating_sub(own[..at].iter().map(|before| before.lots).sum())
}

/// Returns whether an order was left out although it could have had its minimum from lots that
/// later orders got instead.
fn passes_over(own: &[AuctionInterest], contra: &[AuctionInterest], accepts: impl Fn(i64, i64) -> bool + Copy) -> bool {
    (0..own.len())
        .any(|at| own[at].lots == 0 && left_for(at, own, contra, accepts) >= u64::from(own[at].minimum.max(1)))
}

/// Returns the largest volume over all choices of hidden orders in which every chosen order gets
/// its minimum and no order that could have it is skipped.
fn most_by_any_choice(bids: &[AuctionInterest], asks: &[AuctionInterest]) -> u64 {
    let hidden = bids.iter().chain(asks).filter(|interest| interest.minimum > 0).count();
    let mut most = 0;
    for choice in 0_u32..1 << hidden {
        let (mut bids, mut asks) = (bids.to_vec(), asks.to_vec());
        let all = bids.iter_mut().chain(&mut asks).filter(|interest| interest.minimum > 0);
        for (at, interest) in all.enumerate() {
            interest.lots = if choice >> at & 1 == 1 { interest.open } else { 0 };
        }
        let volume = most_at_one_price(&bids, &asks);
        let fair = !passes_over(&bids, &asks, |buyer, seller| seller <= buyer)
            && !passes_over(&asks, &bids, |seller, buyer| seller <= buyer);
        let enough = every_order_gets_its_minimum(&bids, volume) && every_order_gets_its_minimum(&asks, volume);
        if fair && enough {
            most = most.max(volume);
        }
    }
    most
}

#[test]
fn filter_respects_minimums_and_trades_at_least_any_fair_choice() {
    let mut random = SplitMix64::new(11);
    let (mut traded, mut refused) = (0, 0);
    for round in 0..40_000 {
        let mut bids = random_side(&mut random, Side::Buy, 5);
        let mut asks = random_side(&mut random, Side::Sell, 5);
        let (asked_bids, asked_asks) = (bids.clone(), asks.clone());
        let before = most_at_one_price(&bids, &asks);
        filter::settle(&mut bids, &mut asks);
        let volume = filter::crossing(&bids, &asks).map_or(0, |crossing| crossing.volume);
        assert_eq!(volume, most_at_one_price(&bids, &asks), "round {round}: {bids:?} {asks:?}");
        for side in [&bids, &asks] {
            assert!(every_order_gets_its_minimum(side, volume), "round {round}: {bids:?} {asks:?}");
            assert!(side.iter().all(|interest| interest.lots <= interest.open));
        }
        let most = most_by_any_choice(&asked_bids, &asked_asks);
        assert!(volume >= most, "round {round}: {volume} of {most}, {asked_bids:?} {asked_asks:?}");
        traded += usize::from(volume > 0);
        refused += usize::from(volume < before);
    }
    assert!(traded > 15_000 && refused > 4_000, "{traded} {refused}");
}

/// Thousands of hidden orders whose minimums exclude each other cost 64 passes and do not count. A
/// few such orders settle one per pass.
#[test]
fn nested_hidden_orders_settle_in_at_most_64_passes() {
    for (pairs, want) in [(0, 2), (1, 4), (10, 22), (30, 62), (31, 64), (32, 64), (4_000, 64)] {
        let side = |price: i64, lots: u32| {
            let nested = (0..pairs).map(|_| AuctionInterest::hidden(Ticks(price), lots, lots));
            [AuctionInterest::displayed(Ticks(price), 1)].into_iter().chain(nested).collect::<Vec<AuctionInterest>>()
        };
        let (mut bids, mut asks) = (side(200, 2_003), side(100, 2_004));
        assert_eq!(filter::settle(&mut bids, &mut asks), want, "{pairs} pairs");
        assert!(bids.iter().chain(&asks).all(|interest| interest.lots == u64::from(interest.minimum == 0)));
    }
}

#[test]
fn filter_price_lies_in_the_range_of_largest_volume() {
    let crossing = |lowest, highest| FilterCrossing { volume: 1, lowest: Ticks(lowest), highest: Ticks(highest) };
    let best = |price: i64| Some(Ticks(price));
    // range, visible bests, reference, price
    for (range, bests, reference, want) in [
        ((90, 110), [best(99), best(105)], None, 102),
        ((90, 110), [best(99), best(106)], None, 102),
        ((91, 110), [None, None], best(95), 95),
        ((91, 110), [None, None], best(200), 110),
        ((91, 110), [None, None], None, 100),
        ((100, 101), [None, best(100)], best(7), 100),
        ((100, 101), [best(99), None], best(7), 100),
        ((10_600, 10_700), [best(10_000), best(10_500)], None, 10_600),
    ] {
        assert_eq!(filter::price(crossing(range.0, range.1), bests, reference), Ticks(want), "{range:?} {bests:?}");
    }
}

fn shares(rule: &dyn AllocationRule, lots: u64, claims: &[(u64, u32)]) -> Vec<u32> {
    let claims: Vec<AllocationClaim> =
        claims.iter().map(|(time, open)| AllocationClaim { time: *time, open: *open }).collect();
    let mut given = Vec::new();
    rule.allocate(lots, &claims, &mut given);
    given
}

#[test]
fn allocations_match_manual_examples() {
    let times = |open: &[u32]| -> Vec<(u64, u32)> { (1..).zip(open.iter().copied()).collect() };
    for (lots, open, want) in [
        (200, &[100, 300][..], &[50, 150][..]),
        (10, &[10, 10, 10], &[4, 3, 3]),
        (5, &[10, 10, 10], &[2, 2, 1]),
        (50, &[10, 30], &[10, 30]),
        (2, &[1, 1, 98], &[1, 0, 1]),
        (1, &[3, 3, 3], &[1, 0, 0]),
        (0, &[3, 3], &[0, 0]),
        (5, &[], &[]),
    ] {
        assert_eq!(shares(&ProRataAllocation, lots, &times(open)), want, "{lots} of {open:?}");
    }
    assert_eq!(shares(&TimeAllocation, 12, &times(&[10, 5, 5])), [10, 2, 0]);
    // Batches ended at 2 and 5: the first order, then the two at 2 and 3, then those from 5 on.
    let claims = [(1, 10), (2, 100), (3, 300), (5, 50), (6, 50)];
    for (lots, want) in [
        (4, [4, 0, 0, 0, 0]),
        (110, [10, 25, 75, 0, 0]),
        (411, [10, 100, 300, 1, 0]),
        (500, [10, 100, 300, 45, 45]),
        (999, [10, 100, 300, 50, 50]),
    ] {
        assert_eq!(shares(&BatchAllocation(&[2, 5]), lots, &claims), want, "{lots}");
    }
}

/// A random number of lots of any order of magnitude.
fn random_lots(random: &mut SplitMix64) -> u32 {
    let digits = 1 + random.below(31);
    u32::try_from(1 + random.below(1 << digits)).unwrap()
}

#[test]
fn every_lot_goes_to_an_order_with_open_lots() {
    let mut random = SplitMix64::new(3);
    for _ in 0..20_000 {
        let claims: Vec<(u64, u32)> = (0..random.below(7)).map(|time| (time, random_lots(&mut random))).collect();
        let all: u64 = claims.iter().map(|(_, open)| u64::from(*open)).sum();
        let lots = random.below(all.min(1 << 30) * 2 + 1);
        for rule in [&TimeAllocation as &dyn AllocationRule, &ProRataAllocation, &BatchAllocation(&[2, 4])] {
            let given = shares(rule, lots, &claims);
            assert_eq!(given.len(), claims.len());
            assert!(
                given.iter().zip(&claims).all(|(given, (_, open))| given <= open),
                "{lots} of {claims:?}: {given:?}"
            );
            assert_eq!(given.iter().map(|lots| u64::from(*lots)).sum::<u64>(), lots.min(all), "{claims:?}");
        }
        // Pro-rata allocations differ by less than one lot from the exact share.
        for (given, (_, open)) in shares(&ProRataAllocation, lots, &claims).iter().zip(&claims) {
            let due = u128::from(lots.min(all)) * u128::from(*open);
            let low = u128::from(*given).saturating_sub(1) * u128::from(all.max(1));
            assert!(low <= due && due < (u128::from(*given) + 1) * u128::from(all.max(1)), "{lots} of {claims:?}");
        }
    }
}

/// An undisplayed order whose id is also its time.
fn outsider(id: u64, price: Option<i64>, lots: u32, minimum: u32) -> ExtraParticipant {
    let order = QueuedOrder { id: OrderId(id), time: id, slot: Slot::default(), account: AccountId(0), open: lots };
    ExtraParticipant { order, price: price.map(Ticks), minimum, lots }
}

#[test]
fn priority_is_market_orders_price_displayed_orders_time() {
    for side in [Side::Buy, Side::Sell] {
        // The price that is this many ticks worse than 100 for the side.
        let off = |ticks: i64| 100 + if side == Side::Buy { -ticks } else { ticks };
        let mut book = Book::<OrderOrigin>::new();
        for (id, ticks) in [(1, 0), (4, 0), (8, 2)] {
            let owner = Owner::new(AccountId(0), side, true);
            let (id, price) = (OrderId(id), Ticks(off(ticks)));
            let order = RestingOrder { id, price, open: 5, ordered: 5, owner, hidden: 0, display: 0 };
            book.rest(order, OrderOrigin { time: id.0, ..OrderOrigin::default() });
        }
        let mut participants = vec![
            outsider(7, Some(off(1)), 3, 0),
            outsider(2, Some(off(0)), 9, 1),
            outsider(3, Some(off(0)), 4, 0),
            outsider(6, None, 2, 0),
            outsider(5, Some(off(-1)), 3, 3),
            outsider(9, Some(off(3)), 1, 0),
        ];
        SidePlanner::sort(side, &mut participants);
        let given = |shared: Option<SharedPrice>, volume: u64| -> Vec<(u64, u32)> {
            let parts =
                SidePlanner { book: &book, side, participants: &participants, shared, skips_reduce_only: false }
                    .plan(volume);
            parts.iter().map(|part| (part.order.id.0, part.lots)).collect()
        };
        let all = [(6, 2), (5, 3), (1, 5), (3, 4), (4, 5), (2, 9), (7, 3), (8, 5), (9, 1)];
        assert_eq!(given(None, 37), all, "{side:?}");
        assert_eq!(given(None, 5), all[..2], "{side:?}");
        assert_eq!(given(None, 20), [(6, 2), (5, 3), (1, 5), (3, 4), (4, 5), (2, 1)], "{side:?}");
        // 7 of 14 visible lots at the price: 2.5, 2, 2.5 rounded down, the one left over to the
        // first.
        let here = || Some(SharedPrice { price: Ticks(100), rule: &ProRataAllocation });
        assert_eq!(given(here(), 12), [(6, 2), (5, 3), (1, 3), (3, 2), (4, 2)], "{side:?}");
        assert_eq!(given(here(), 21), [(6, 2), (5, 3), (1, 5), (3, 4), (4, 5), (2, 2)], "{side:?}");
        let elsewhere = Some(SharedPrice { price: Ticks(off(2)), rule: &ProRataAllocation });
        assert_eq!(given(elsewhere, 12), [(6, 2), (5, 3), (1, 5), (3, 2)], "{side:?}");
    }
}
