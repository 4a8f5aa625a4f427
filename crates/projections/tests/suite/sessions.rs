//! Sessions and days as the projections show them, from hand-written events. Comments show the
//! calculations.

use pitwire_fixtures::{accepted, share};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Bust, CancelReason, Command, Credit, Derivation, Event, InstrumentId,
    InstrumentSpec, Label, Lots, NewOrder, OrderId, OrderType, Phase, Seq, SequencedCommand, SessionReason, Side,
    Ticks, TimeInForce, TradeKind, TradeSeq, VenueNanos,
};
use pitwire_projections::{Change, OpeningDerivation, OrderState, Place, Views};

const MARKET: InstrumentId = InstrumentId(0);
const MINE: AccountId = AccountId(0);

fn observe(views: &mut Views, at: u64, command: Command, events: &[Event]) -> Vec<Change> {
    let mut changes = Vec::new();
    let stamped = SequencedCommand { seq: Seq(at), at: VenueNanos(at), command };
    views.observe(&stamped, events, &mut changes);
    let image = views.image();
    assert_eq!(Views::from_image(image.clone()).image(), image);
    changes
}

fn passed(views: &mut Views, at: u64, events: &[Event]) -> Vec<Change> {
    observe(views, at, Command::PassTime, events)
}

fn opened() -> Views {
    let mut views = Views::new();
    let spec = InstrumentSpec { id: MARKET, max_resting_orders: 100, ..share() };
    let account = AccountSpec {
        id: MINE,
        name: "mine".to_owned(),
        credit: Credit::Limited,
        settings: AccountSettings::default(),
    };
    passed(&mut views, 1, &[Event::InstrumentAdded(Box::new(spec)), Event::AccountAdded(account)]);
    views
}

fn trade(seq: u64, price: i64, lots: u64, kind: TradeKind) -> Event {
    let [maker, taker] = [900, 901].map(|order| (order, AccountId(7), 0));
    pitwire_fixtures::trade(seq, price, lots, maker, taker, Side::Buy, kind)
}

fn busted(seq: u64, price: i64, lots: u64) -> Event {
    Event::TradeBusted(Box::new(Bust {
        instrument: MARKET,
        trade_seq: TradeSeq(seq),
        price: Ticks(price),
        lots: Lots(lots),
        buyer: AccountId(7),
        seller: AccountId(7),
        reason: Label::NONE,
    }))
}

type Figures = (Option<i64>, Option<i64>, Option<i64>, Option<i64>, Option<i64>, u64, u128, u64);

/// Statistics of a day: open, high, low, last, VWAP, volume, turnover, trades.
fn figures(views: &Views) -> Figures {
    let day = &views.session(MARKET).expect("a session").day;
    let price = |ticks: Option<Ticks>| ticks.map(|ticks| ticks.0);
    let open = price(day.open().map(|(open, _)| open));
    (
        open,
        price(day.high()),
        price(day.low()),
        price(day.last()),
        price(day.vwap()),
        day.volume,
        day.turnover,
        day.trades,
    )
}

#[test]
fn cross_counts_in_volume_only_and_busts_are_removed() {
    let mut views = opened();
    assert_eq!(figures(&views), (None, None, None, None, None, 0, 0, 0));
    let call = TradeKind::Call(Phase::OpeningCall);
    passed(&mut views, 2, &[trade(1, 100, 10, call), trade(2, 100, 5, call)]);
    let opening = views.session(MARKET).and_then(|session| session.day.open());
    assert_eq!(opening, Some((Ticks(100), OpeningDerivation::OpeningAuction)));
    passed(&mut views, 3, &[trade(3, 120, 1, TradeKind::Continuous), trade(4, 90, 2, TradeKind::Filter)]);
    // 15 x 100 + 120 + 180 = 1800 for 18 lots: 100.
    assert_eq!(figures(&views), (Some(100), Some(120), Some(90), Some(90), Some(100), 18, 1_800, 4));
    // Two lots at 200 in the cross: 2200 / 20 = 110. The prices of the day do not change.
    passed(&mut views, 4, &[trade(5, 200, 2, TradeKind::Cross)]);
    assert_eq!(figures(&views), (Some(100), Some(120), Some(90), Some(90), Some(110), 20, 2_200, 5));
    // Without trade 3: 2080 / 19 = 109.47, rounded down. Without trade 4: 1900 / 17 = 111.76.
    passed(&mut views, 5, &[busted(3, 120, 1)]);
    assert_eq!(figures(&views), (Some(100), Some(100), Some(90), Some(90), Some(109), 19, 2_080, 4));
    passed(&mut views, 6, &[busted(4, 90, 2)]);
    assert_eq!(figures(&views), (Some(100), Some(100), Some(100), Some(100), Some(111), 17, 1_900, 3));
    // The first trade is removed. The second trade, of the same call, is now the open.
    passed(&mut views, 7, &[busted(1, 100, 10)]);
    assert_eq!(figures(&views).0, Some(100));
    passed(&mut views, 8, &[busted(2, 100, 5)]);
    assert_eq!(figures(&views), (None, None, None, None, Some(200), 2, 400, 1));
}

#[test]
fn late_bust_does_not_change_the_next_day() {
    let mut views = opened();
    let close = Event::ClosingPriceSet { instrument: MARKET, price: Ticks(105), derivation: Derivation::Vwap };
    passed(&mut views, 2, &[trade(1, 105, 3, TradeKind::Continuous), close]);
    let session = views.session(MARKET).expect("a session");
    assert_eq!((session.closing, session.previous_close), (Some((Ticks(105), Derivation::Vwap)), None));
    passed(&mut views, 3, &[Event::DayEnded]);
    let session = views.session(MARKET).expect("a session");
    assert_eq!((session.closing, session.previous_close), (None, Some(Ticks(105))));
    passed(&mut views, 4, &[trade(2, 106, 4, TradeKind::Continuous)]);
    assert_eq!(
        views.session(MARKET).and_then(|session| session.day.open()),
        Some((Ticks(106), OpeningDerivation::FirstTrade))
    );
    passed(&mut views, 5, &[busted(1, 105, 3)]);
    assert_eq!(figures(&views), (Some(106), Some(106), Some(106), Some(106), Some(106), 4, 424, 1));
    // A day without a closing price keeps the previous one.
    passed(&mut views, 6, &[Event::DayEnded]);
    assert_eq!(views.session(MARKET).and_then(|session| session.previous_close), Some(Ticks(105)));
}

#[test]
fn new_session_clears_the_indicative_price() {
    let mut views = opened();
    let turn =
        |from, to| Event::SessionChanged { instrument: MARKET, from, to, reason: SessionReason::Scheduled, ends: None };
    let would = Event::Indicative { instrument: MARKET, price: Some(Ticks(100)), volume: Lots(5), imbalance: -2 };
    passed(&mut views, 2, &[turn(Phase::Continuous, Phase::IntradayCall), would]);
    let indicative = views.session(MARKET).and_then(|session| session.indicative).expect("a price");
    assert_eq!((indicative.willing(Side::Buy), indicative.willing(Side::Sell)), (5, 7));
    let extended = Event::SessionChanged {
        instrument: MARKET,
        from: Phase::IntradayCall,
        to: Phase::IntradayCall,
        reason: SessionReason::Extended,
        ends: Some(VenueNanos(99)),
    };
    passed(&mut views, 3, &[extended]);
    let session = views.session(MARKET).expect("a session");
    assert_eq!(
        (session.ends, session.since, session.indicative),
        (Some(VenueNanos(99)), VenueNanos(2), Some(indicative))
    );
    passed(&mut views, 4, &[turn(Phase::IntradayCall, Phase::Continuous)]);
    assert_eq!(views.session(MARKET).and_then(|session| session.indicative), None);
}

fn stop(id: u64) -> NewOrder {
    NewOrder {
        id: OrderId(id),
        account: MINE,
        instrument: MARKET,
        side: Side::Sell,
        order_type: OrderType::StopLimit { stop: Ticks(95), price: Ticks(94) },
        lots: Lots(6),
        tif: TimeInForce::GoodTillCancel,
        ..NewOrder::PLAIN
    }
}

#[test]
fn elected_stop_is_reported_twice() {
    let mut views = opened();
    let order = stop(2);
    observe(&mut views, 2, Command::Enter(order.clone()), &[accepted(&order)]);
    let record =
        |views: &Views| views.account(MINE).and_then(|book| book.order(OrderId(2))).cloned().expect("a record");
    assert_eq!((record(&views).place, record(&views).elected_at), (Place::Unelected, None));
    let (order, account, instrument) = (OrderId(2), MINE, MARKET);
    let triggered = Event::Triggered { order, account, instrument, last: Ticks(95) };
    let gone = Event::Cancelled {
        order,
        account,
        instrument,
        side: Side::Sell,
        price: Ticks(94),
        open: Lots(6),
        reason: CancelReason::NothingExecutes,
    };
    let changes = passed(&mut views, 3, &[triggered, gone]);
    assert_eq!(changes, [Change::Elected { account, order }, Change::Order { account, order }]);
    let record = record(&views);
    assert_eq!(
        (record.place, record.elected_at, record.state),
        (Place::Active, Some(Ticks(95)), OrderState::Cancelled)
    );
}

#[test]
fn parked_order_is_parked_until_its_session() {
    let mut views = opened();
    let (order, account, instrument) = (OrderId(2), MINE, MARKET);
    let order_type = OrderType::Limit { price: Ticks(99) };
    let entered = NewOrder { order_type, tif: TimeInForce::ClosingCall, ..stop(2) };
    let parked = Event::Parked { order, account, instrument, open: Lots(6) };
    observe(&mut views, 2, Command::Enter(entered.clone()), &[accepted(&entered), parked]);
    let place = |views: &Views| views.account(MINE).and_then(|book| book.order(order)).map(|record| record.place);
    assert_eq!(place(&views), Some(Place::Parked));
    passed(&mut views, 3, &[Event::Injected { order, account, instrument }]);
    assert_eq!(place(&views), Some(Place::Active));
}
