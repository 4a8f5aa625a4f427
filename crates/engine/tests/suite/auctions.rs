//! Random calls, judged from commands and events alone: the price by trying every price that an
//! order names, the trades by walking both sides in the order of priority, minimum quantities, and
//! what money moved.

use pitwire_fixtures::share;
use pitwire_random::SplitMix64;
use std::collections::BTreeMap;

use pitwire_engine::{Engine, EngineImage};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Allocation, Command, Credit, Currency, CurrencyId, Event, InstrumentId,
    InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, Seq, SequencedCommand, SessionReason, Side, Ticks,
    TimeInForce, TradingRules, VenueNanos,
};

const AUCTION: InstrumentId = InstrumentId(0);
const START: i64 = 100;
const ACCOUNTS: u32 = 4;

struct Venue {
    engine: Engine,
    log: Vec<SequencedCommand>,
}

impl Venue {
    fn open(allocation: Allocation) -> Venue {
        let mut venue = Venue { engine: Engine::new(), log: Vec::new() };
        for (id, name) in [(0, "NPN"), (1, "ZAR")] {
            venue.submit(Command::AddCurrency(Currency { id: CurrencyId(id), name: name.into(), decimals: 2 }));
        }
        for id in 0..ACCOUNTS {
            let (name, settings) = (format!("member-{id}"), AccountSettings::default());
            venue.submit(Command::AddAccount(AccountSpec {
                id: AccountId(id),
                name,
                credit: Credit::Unlimited,
                settings,
            }));
        }
        venue.submit(Command::AddInstrument(Box::new(InstrumentSpec {
            id: AUCTION,
            start_price: Ticks(START),
            rules: Some(Box::new(TradingRules { allocation, ..TradingRules::default() })),
            ..share()
        })));
        venue
    }

    fn submit(&mut self, command: Command) -> Vec<Event> {
        let seq = self.log.len() as u64 + 1;
        let stamped = SequencedCommand { seq: Seq(seq), at: VenueNanos(seq), command };
        let mut events = Vec::new();
        self.engine.apply(&stamped, &mut events);
        self.log.push(stamped);
        events
    }

    fn go(&mut self, to: Phase) -> Vec<Event> {
        let (due, reason) = (VenueNanos(0), SessionReason::Scheduled);
        self.submit(Command::ChangeSession { instrument: AUCTION, to, reason, due, ends: None })
    }

    fn enter(&mut self, side: Side, order_type: OrderType, lots: u64, display: Option<u64>, by: u64) -> OrderId {
        let id = OrderId(self.log.len() as u64 + 1);
        let account = AccountId(u32::try_from(by).unwrap());
        let order =
            NewOrder { id, account, instrument: AUCTION, side, order_type, lots: Lots(lots), ..NewOrder::PLAIN };
        let events =
            self.submit(Command::Enter(NewOrder { tif: TimeInForce::Day, display: display.map(Lots), ..order }));
        assert!(matches!(events[0], Event::Accepted { .. }), "{events:?}");
        id
    }
}

/// An order as this test tracks it.
#[derive(Clone, Copy, Debug)]
struct TrackedOrder {
    id: u64,
    side: Side,
    price: Option<i64>,
    lots: i64,
    account: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outlook {
    price: i64,
    volume: i64,
    imbalance: i64,
}

/// Rulebook 11.2, by trying every price that an order names.
fn cleared(orders: &[TrackedOrder], reference: i64) -> Option<Outlook> {
    let at = |price: i64| {
        let sum = |side: Side, accepts: &dyn Fn(i64) -> bool| -> i64 {
            let here = |order: &&TrackedOrder| order.side == side && order.price.is_none_or(accepts);
            orders.iter().filter(here).map(|order| order.lots).sum()
        };
        let (buy, sell) = (sum(Side::Buy, &|limit| limit >= price), sum(Side::Sell, &|limit| limit <= price));
        Outlook { price, volume: buy.min(sell), imbalance: buy - sell }
    };
    let mut tried: Vec<Outlook> = orders.iter().filter_map(|order| order.price).map(at).collect();
    if tried.is_empty() {
        return Some(at(reference)).filter(|outlook| outlook.volume > 0);
    }
    let most = tried.iter().map(|outlook| outlook.volume).max()?;
    tried.retain(|outlook| outlook.volume == most);
    let least = tried.iter().map(|outlook| outlook.imbalance.abs()).min()?;
    tried.retain(|outlook| outlook.imbalance.abs() == least);
    let (lowest, highest) =
        (tried.iter().map(|outlook| outlook.price).min()?, tried.iter().map(|outlook| outlook.price).max()?);
    let price = if tried.iter().all(|outlook| outlook.imbalance > 0) {
        highest
    } else if tried.iter().all(|outlook| outlook.imbalance < 0) {
        lowest
    } else {
        reference.clamp(lowest, highest)
    };
    Some(at(price)).filter(|outlook| outlook.volume > 0)
}

/// Returns what each order of a side gets, in priority order.
fn given(orders: &[TrackedOrder], side: Side, outlook: Outlook) -> Vec<(u64, i64)> {
    let mut own: Vec<&TrackedOrder> = orders.iter().filter(|order| order.side == side).collect();
    let worth = |order: &TrackedOrder| order.price.map(|price| if side == Side::Buy { -price } else { price });
    own.sort_by_key(|order| (worth(order), order.id));
    let mut left = outlook.volume;
    let mut parts = Vec::new();
    for order in own {
        let lots = order.lots.min(left);
        left -= lots;
        if lots > 0 {
            parts.push((order.id, lots));
        }
    }
    assert_eq!(left, 0);
    parts
}

/// Pairs both sides from their heads: (buy, sell, lots).
fn paired(mut buys: Vec<(u64, i64)>, mut sells: Vec<(u64, i64)>) -> Vec<(u64, u64, i64)> {
    buys.reverse();
    sells.reverse();
    let mut pairs = Vec::new();
    while let (Some(buy), Some(sell)) = (buys.last_mut(), sells.last_mut()) {
        let lots = buy.1.min(sell.1);
        pairs.push((buy.0, sell.0, lots));
        buy.1 -= lots;
        sell.1 -= lots;
        buys.retain(|(_, lots)| *lots > 0);
        sells.retain(|(_, lots)| *lots > 0);
    }
    pairs
}

fn trades(events: &[Event]) -> Vec<(u64, u64, i64, i64)> {
    let trade = |event: &Event| match event {
        Event::Trade { price, lots, taker_side, maker, taker, .. } => {
            assert!(maker < taker, "the earlier order is the maker");
            let (buy, sell) = if *taker_side == Side::Buy { (taker, maker) } else { (maker, taker) };
            Some((buy.0, sell.0, lots.0.cast_signed(), price.0))
        }
        _ => None,
    };
    events.iter().filter_map(trade).collect()
}

/// The last indicative price, if one was emitted.
fn outlook_in(events: &[Event]) -> Option<Option<Outlook>> {
    events.iter().rev().find_map(|event| match event {
        Event::Indicative { price, volume, imbalance, .. } => {
            Some(price.map(|price| Outlook { price: price.0, volume: volume.0.cast_signed(), imbalance: *imbalance }))
        }
        _ => None,
    })
}

fn held(engine: &Engine, currency: u32) -> Vec<i128> {
    (0..ACCOUNTS).map(|id| engine.account(AccountId(id)).unwrap().balance(CurrencyId(currency)).total).collect()
}

fn reserved(engine: &Engine) -> i128 {
    let of = |id: u32| engine.account(AccountId(id)).unwrap();
    (0..ACCOUNTS).map(|id| of(id).balance(CurrencyId(0)).reserved + of(id).balance(CurrencyId(1)).reserved).sum()
}

#[test]
fn random_call_matches_exhaustive_price_search() {
    let mut random = SplitMix64::new(5);
    let mut uncrossed = 0;
    for round in 0..400 {
        let mut venue = Venue::open(Allocation::PriceTime);
        venue.go(Phase::OpeningCall);
        let (mut known, mut outlook) = (Vec::<TrackedOrder>::new(), None);
        for _ in 0..4 + random.below(16) {
            let events = if random.below(4) == 0 && !known.is_empty() {
                let gone = known.remove(usize::try_from(random.below(known.len() as u64)).unwrap());
                let account = AccountId(u32::try_from(gone.account).unwrap());
                venue.submit(Command::Cancel { account, order: OrderId(gone.id) })
            } else {
                let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
                let price = (random.below(7) > 0).then(|| 96 + random.below(9).cast_signed());
                let (lots, account) = (1 + random.below(9), random.below(u64::from(ACCOUNTS)));
                let order_type = price.map_or(OrderType::Market, |price| OrderType::Limit { price: Ticks(price) });
                let display = (price.is_some() && random.below(3) == 0).then(|| 1 + random.below(lots));
                let id = venue.enter(side, order_type, lots, display, account).0;
                known.push(TrackedOrder { id, side, price, lots: lots.cast_signed(), account });
                Vec::new()
            };
            let now = cleared(&known, START);
            // `enter` drops its events, so the indicative price is read from the state.
            let indicated = venue.engine.image().markets[0].session.indicated;
            let seen = indicated.price.map(|price| Outlook {
                price: price.0,
                volume: indicated.volume.cast_signed(),
                imbalance: indicated.imbalance,
            });
            assert_eq!(seen, now, "round {round}: {known:?}");
            assert!(
                events.is_empty() || outlook_in(&events) == (now != outlook).then_some(now),
                "round {round}: {events:?}"
            );
            outlook = now;
        }
        let before = (held(&venue.engine, 0), held(&venue.engine, 1));
        let events = venue.go(Phase::Continuous);
        let got = trades(&events);
        let Some(outlook) = outlook else {
            assert!(got.is_empty(), "round {round}: {got:?}");
            continue;
        };
        uncrossed += 1;
        let pairs = paired(given(&known, Side::Buy, outlook), given(&known, Side::Sell, outlook));
        let want: Vec<_> = pairs.into_iter().map(|(buy, sell, lots)| (buy, sell, lots, outlook.price)).collect();
        assert_eq!(got, want, "round {round}: {known:?}");
        assert!(events.iter().any(|event| matches!(event, Event::Uncrossed { price, volume, .. }
            if (price.0, volume.0.cast_signed()) == (outlook.price, outlook.volume))));
        money_moved_as_traded(&venue.engine, &before, &got, &known);
        let market = venue.engine.market(AUCTION).unwrap();
        let best = |side| market.best(side).map(|(price, _)| price);
        assert!(best(Side::Buy).zip(best(Side::Sell)).is_none_or(|(bid, offer)| bid < offer), "round {round}");
        assert_eq!(
            (market.last(), market.static_reference()),
            (Some(Ticks(outlook.price)), Some(Ticks(outlook.price)))
        );
        // No money is reserved for orders that have left.
        let ids: Vec<OrderId> = known.iter().map(|order| OrderId(order.id)).collect();
        for order in &known {
            let account = AccountId(u32::try_from(order.account).unwrap());
            venue.submit(Command::Cancel { account, order: OrderId(order.id) });
        }
        assert!(ids.iter().all(|id| venue.engine.order(*id).is_none()) && reserved(&venue.engine) == 0);
    }
    assert!(uncrossed > 250, "{uncrossed}");
}

fn money_moved_as_traded(
    engine: &Engine,
    before: &(Vec<i128>, Vec<i128>),
    trades: &[(u64, u64, i64, i64)],
    known: &[TrackedOrder],
) {
    // A lot is 100 units of goods, a tick times a lot one unit of money.
    let owner = |id: u64| usize::try_from(known.iter().find(|order| order.id == id).unwrap().account).unwrap();
    let (mut goods, mut money) = before.clone();
    for (buy, sell, lots, price) in trades {
        let (buyer, seller, lots) = (owner(*buy), owner(*sell), i128::from(*lots));
        goods[buyer] += 100 * lots;
        goods[seller] -= 100 * lots;
        money[buyer] -= lots * i128::from(*price);
        money[seller] += lots * i128::from(*price);
    }
    assert_eq!((held(engine, 0), held(engine, 1)), (goods, money));
}

#[test]
fn no_hidden_order_trades_less_than_its_minimum_in_calls_and_filters() {
    let mut random = SplitMix64::new(9);
    let (mut in_calls, mut in_filters) = (0, 0);
    for round in 0..600 {
        let allocation = if round % 3 == 0 { Allocation::ProRata } else { Allocation::PriceTime };
        let mut venue = Venue::open(allocation);
        venue.go(Phase::Continuous);
        let mut minimum = BTreeMap::new();
        for _ in 0..6 + random.below(14) {
            let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
            let (price, lots) = (Ticks(97 + random.below(7).cast_signed()), 1 + random.below(9));
            let account = random.below(u64::from(ACCOUNTS));
            let id = OrderId(venue.log.len() as u64 + 1);
            let order_type = if random.below(2) == 0 {
                let least = 1 + random.below(lots);
                minimum.insert(id.0, least);
                OrderType::Hidden { price, minimum_execution: Lots(least) }
            } else {
                OrderType::Limit { price }
            };
            let order = NewOrder {
                id,
                account: AccountId(u32::try_from(account).unwrap()),
                instrument: AUCTION,
                side,
                order_type,
                lots: Lots(lots),
                tif: TimeInForce::Day,
                ..NewOrder::PLAIN
            };
            let events = venue.submit(Command::Enter(order));
            in_filters += each_had_its_minimum(&events, &minimum, TradeFilter::Only);
            let events = venue.submit(Command::FilterHidden { instrument: AUCTION });
            in_filters += each_had_its_minimum(&events, &minimum, TradeFilter::Only);
        }
        venue.go(Phase::IntradayCall);
        for _ in 0..random.below(6) {
            let side = if random.below(2) == 0 { Side::Buy } else { Side::Sell };
            venue.enter(
                side,
                OrderType::Limit { price: Ticks(97 + random.below(7).cast_signed()) },
                1 + random.below(20),
                None,
                0,
            );
        }
        let events = venue.go(Phase::Continuous);
        in_calls += each_had_its_minimum(&events, &minimum, TradeFilter::Not);
    }
    assert!(in_calls > 100 && in_filters > 100, "{in_calls} {in_filters}");
}

#[derive(Clone, Copy, PartialEq)]
enum TradeFilter {
    Only,
    Not,
}

/// Returns the number of hidden orders that traded in the uncrosses of one command. If it runs
/// several filters, the fills of an order in all of them count together.
fn each_had_its_minimum(events: &[Event], minimum: &BTreeMap<u64, u64>, filtered: TradeFilter) -> usize {
    use pitwire_model::TradeKind;
    let mut got: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events {
        if let Event::Trade { lots, maker, taker, kind, .. } = event {
            let counts = match kind {
                TradeKind::Filter => filtered == TradeFilter::Only,
                TradeKind::Call(_) => filtered == TradeFilter::Not,
                _ => false,
            };
            for id in [maker, taker].into_iter().filter(|_| counts) {
                *got.entry(id.0).or_default() += lots.0;
            }
        }
    }
    let hidden = got.iter().filter_map(|(id, lots)| Some((id, lots, minimum.get(id)?)));
    hidden
        .inspect(|(id, lots, least)| assert!(lots >= least, "order {id}: {lots} of {least} at least, {events:?}"))
        .count()
}

/// Cancels right before and right after the end of a call. Their order in the log decides, also on
/// replay and after a snapshot in between.
#[test]
fn cancels_around_an_uncross_apply_in_log_order() {
    let mut random = SplitMix64::new(13);
    for round in 0..100_u64 {
        let mut venue = Venue::open(if round % 2 == 0 { Allocation::PriceTime } else { Allocation::ProRata });
        venue.go(Phase::ClosingCall);
        let mut ids = Vec::new();
        for at in 0..40 {
            let side = if at % 2 == 0 { Side::Buy } else { Side::Sell };
            let (price, lots) = (Ticks(95 + random.below(10).cast_signed()), 1 + random.below(20));
            ids.push(venue.enter(side, OrderType::Limit { price }, lots, None, at % u64::from(ACCOUNTS)));
        }
        let ends = usize::try_from(random.below(ids.len() as u64)).unwrap();
        let mut traded = Vec::new();
        for (at, id) in ids.iter().enumerate() {
            if at == ends {
                traded = trades(&venue.go(Phase::Continuous));
            }
            let account = AccountId(u32::try_from(at).unwrap() % ACCOUNTS);
            let events = venue.submit(Command::Cancel { account, order: *id });
            let in_uncross = traded.iter().filter(|(buy, sell, ..)| *buy == id.0 || *sell == id.0);
            let lots: i64 = in_uncross.map(|(_, _, lots, _)| lots).sum();
            match &events[0] {
                Event::Cancelled { open, .. } => assert!(at < ends || open.0 > 0 && lots >= 0),
                Event::CancelRefused { .. } => assert!(at >= ends && lots > 0, "round {round}: {events:?}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(
            traded.iter().all(|(buy, sell, ..)| [buy, sell].iter().all(|id| !ids[..ends].contains(&OrderId(**id))))
        );
        assert_eq!(replayed(&venue.log, None), venue.engine.image(), "round {round}");
        let cut = usize::try_from(random.below(venue.log.len() as u64)).unwrap();
        assert_eq!(replayed(&venue.log, Some(cut)), venue.engine.image(), "round {round}, cut at {cut}");
    }
}

/// Replays the log, through a snapshot at `cut` if there is one.
fn replayed(log: &[SequencedCommand], cut: Option<usize>) -> EngineImage {
    let mut engine = Engine::new();
    for (at, stamped) in log.iter().enumerate() {
        if cut == Some(at) {
            engine = Engine::from_image(engine.image()).unwrap();
        }
        engine.apply(stamped, &mut Vec::new());
    }
    engine.image()
}
