//! Checks one trade: its event, its money, its effect on the day's figures, and the events that it
//! requires at once.

use pitwire_model::{
    AccountId, CancelReason, Event, InstrumentId, Lots, OrderId, Phase, Side, Throttle, Ticks, TradeKind, TradeSeq,
};

use crate::departures::check_departure;
use crate::limits::is_worse;
use crate::model::VenueModel;
use crate::order_updates::{note_level_change, remove_order, replace_order};
use crate::orders::LiveOrder;
use crate::reader::{EventReader, unexpected_event};
use crate::recent_trades::RecentTrade;
use crate::violation::{BrokenPromise, CheckResult, Promise, fail};

/// An expected trade. Both orders are as they were before it.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedTrade {
    pub maker: LiveOrder,
    pub taker: LiveOrder,
    pub price: Ticks,
    pub lots: u64,
    pub kind: TradeKind,
    /// Whether the taker's cost is already reserved. Otherwise it must be free.
    pub taker_reserves: bool,
}

impl ExpectedTrade {
    /// Returns the event of the trade.
    fn event(&self, number: u64) -> Event {
        let ExpectedTrade { maker, taker, price, lots, kind, .. } = *self;
        Event::Trade {
            instrument: maker.instrument,
            trade_seq: TradeSeq(number),
            price,
            lots: Lots(lots),
            taker_side: taker.side,
            maker: maker.id,
            maker_account: maker.account,
            maker_open: Lots(maker.open - lots),
            taker: taker.id,
            taker_account: taker.account,
            taker_open: Lots(taker.open - lots),
            kind,
        }
    }
}

/// Checks that the next event is this trade, settles it and counts it. The caller updates the two
/// orders.
///
/// # Errors
/// M1, M2, M3 or M6 if the trade is another one or missing, M4 or M5 if one of its orders was
/// cancelled first, M8 if a breach was published that is none. Also the errors of its settlement.
pub fn check_trade(model: &mut VenueModel, reader: &mut EventReader<'_>, deal: &ExpectedTrade) -> CheckResult {
    let ExpectedTrade { maker, taker, price, lots, kind, .. } = *deal;
    let instrument = maker.instrument;
    let expected = deal.event(model.markets[instrument.0 as usize].trades + 1);
    match reader.peek(model)? {
        Some(actual) if *actual == expected => reader.advance(),
        Some(actual @ Event::Trade { .. }) => return Err(wrong_trade(model, deal, actual)),
        Some(Event::Cancelled { order, reason, .. }) if *order == taker.id => {
            fail!(M5, "order {order} expired while it could still trade ({reason:?}): {lots} at {price}");
        }
        Some(Event::Cancelled { order, reason, .. }) if *order == maker.id => {
            fail!(M4, "order {order} was cancelled ({reason:?}) out of order: it must trade {lots} at {price}")
        }
        Some(Event::Level { side, price: at, .. }) if (*side, *at) == (taker.side, taker.price) => {
            let (bid, offer) = if taker.side == Side::Buy { (at, &maker.price) } else { (&maker.price, at) };
            fail!(M3, "order {} could trade and the book is left with a bid of {bid} and an offer of {offer}", taker.id)
        }
        Some(event @ Event::Level { .. }) => return Err(unexpected_event(model, event)),
        Some(Event::Refreshed { order, .. }) => fail!(M2, "order {order} was refilled without need"),
        Some(Event::Triggered { order, .. }) => {
            fail!(M5, "order {order} was elected before order {} had its {lots} at {price}", taker.id)
        }
        Some(Event::Breached { .. }) => fail!(M8, "a trade at {price} was reported as a breach, but breaches nothing"),
        other => {
            let actual = other.map_or("nothing".to_owned(), |event| format!("{event:?}"));
            if matches!(kind, TradeKind::Continuous | TradeKind::Filter) {
                fail!(M3, "order {} and order {} must trade {lots} at {price}: {actual}", taker.id, maker.id);
            }
            fail!(M6, "order {} and order {} must trade {lots} at {price}: {actual}", maker.id, taker.id);
        }
    }
    let Some(Event::Trade { trade_seq, .. }) = Some(&expected) else { return Ok(()) };
    let (buyer, seller) = match taker.side {
        Side::Buy => (taker.account, maker.account),
        Side::Sell => (maker.account, taker.account),
    };
    model.recent_trades.add(instrument, *trade_seq, RecentTrade { price, lots: Lots(lots), buyer, seller });
    count_trade(model, instrument, trade_seq.0, price, lots, kind);
    settle_trade(model, deal)?;
    for account in [maker.account, taker.account] {
        if count_execution(model, account) {
            reader.trips.push_back(account);
        }
    }
    Ok(())
}

/// Names the promise that a wrong trade breaks.
fn wrong_trade(model: &VenueModel, expected: &ExpectedTrade, actual: &Event) -> BrokenPromise {
    let Event::Trade {
        instrument, trade_seq, price, lots, taker_side, maker, taker, maker_open, taker_open, kind, ..
    } = *actual
    else {
        return BrokenPromise { promise: Promise::S1, sentence: format!("{actual:?} is not a trade") };
    };
    let finding = |promise, sentence| BrokenPromise { promise, sentence };
    let market = &model.markets[expected.maker.instrument.0 as usize];
    if instrument != expected.maker.instrument {
        return finding(Promise::M8, format!("trade {trade_seq} is in instrument {instrument}, where nothing trades"));
    }
    if trade_seq.0 != market.trades + 1 {
        return finding(Promise::F1, format!("trade {trade_seq} follows trade {}", market.trades));
    }
    if kind != expected.kind {
        return finding(Promise::M8, format!("trade {trade_seq} is published as {kind:?}, but is {:?}", expected.kind));
    }
    for order in [&expected.maker, &expected.taker] {
        if order.reach().is_some_and(|limit| is_worse(order.side, price, limit)) {
            let sentence = format!("trade {trade_seq} at {price} is worse than the limit of order {}", order.id);
            return finding(Promise::M1, sentence);
        }
    }
    let by_one_price = !matches!(kind, TradeKind::Continuous | TradeKind::Cross);
    if by_one_price && price != expected.price {
        let sentence = format!("trade {trade_seq} at {price}, but the uncross price is {}", expected.price);
        return finding(Promise::M6, sentence);
    }
    if !by_one_price && taker != expected.taker.id {
        let sentence = format!("trade {trade_seq} names order {taker} as its taker, which is not the incoming order");
        return finding(Promise::M4, sentence);
    }
    if maker != expected.maker.id || taker != expected.taker.id {
        return finding(Promise::M2, priority_sentence(model, expected, trade_seq, maker, taker));
    }
    if taker_side != expected.taker.side {
        return finding(Promise::M4, format!("trade {trade_seq} of maker {maker} has the wrong taker side"));
    }
    if price != expected.price && expected.maker.is_hidden() {
        let sentence =
            format!("trade {trade_seq} at {price}, but hidden order {maker} trades at {} here", expected.price);
        return finding(Promise::M1, sentence);
    }
    if price != expected.price {
        return finding(
            Promise::M1,
            format!("trade {trade_seq} at {price}, but its maker rests at {}", expected.price),
        );
    }
    if lots.0 != expected.lots {
        let promise = if by_one_price { Promise::M6 } else { Promise::M4 };
        return finding(promise, format!("trade {trade_seq} of {lots}, but {} were available", expected.lots));
    }
    let actual = format!("trade {trade_seq} of {lots} does not leave {maker_open} of its maker and {taker_open}");
    finding(Promise::M4, format!("{actual} of its taker"))
}

fn priority_sentence(
    model: &VenueModel,
    expected: &ExpectedTrade,
    number: TradeSeq,
    maker: OrderId,
    taker: OrderId,
) -> String {
    let (wrong, right) = if maker == expected.maker.id { (taker, expected.taker) } else { (maker, expected.maker) };
    let Some(other) = model.orders.get(&wrong).filter(|order| order.instrument == right.instrument) else {
        return format!("trade {number} with order {wrong}, which does not rest there; order {} does", right.id);
    };
    let what = if other.side != right.side || other.reach() != right.reach() {
        "a better price"
    } else if other.is_hidden() != right.is_hidden() {
        "a visible order for a hidden one"
    } else {
        "an older order"
    };
    format!("trade {number} passes over {what}: order {} must trade, but order {wrong} did", right.id)
}

fn settle_trade(model: &mut VenueModel, deal: &ExpectedTrade) -> CheckResult {
    let ExpectedTrade { maker, taker, price, lots, .. } = *deal;
    model.ledger.release(maker.account, model.order_cost(&maker, lots));
    if deal.taker_reserves {
        model.ledger.release(taker.account, model.order_cost(&taker, lots));
    } else {
        let spends = model.markets[maker.instrument.0 as usize].terms.cost(taker.side, price, lots);
        model.ledger.check_can_spend(taker.account, spends)?;
    }
    let parties = [(taker.account, taker.side), (maker.account, maker.side)];
    let market = &model.markets[maker.instrument.0 as usize];
    model.ledger.settle(market.spec.id, &market.terms, parties, price, lots);
    Ok(())
}

/// Reduces a resting order by a fill, and returns it.
pub fn reduce_order(model: &mut VenueModel, reader: &mut EventReader<'_>, order: &LiveOrder, lots: u64) -> LiveOrder {
    let left = LiveOrder { open: order.open - lots, shown: order.shown.saturating_sub(lots), ..*order };
    note_level_change(model, reader, order);
    let book = &mut model.markets[order.instrument.0 as usize].book;
    book.shrink(order, order.shown - left.shown, lots);
    model.orders.insert(left);
    left
}

/// Updates a resting order after a fill in continuous trading, and checks the events that the fill
/// requires.
///
/// # Errors
/// M2 if an iceberg is not refilled, S1 if a throttle is not applied, M5 if a hidden order below
/// its minimum execution stays.
pub fn check_after_fill(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    maker: &LiveOrder,
    lots: u64,
) -> CheckResult {
    let left = reduce_order(model, reader, maker, lots);
    if left.open == 0 {
        remove_order(model, reader, &left);
    } else if left.is_visible() && left.shown == 0 {
        check_refresh(model, reader, left.id)?;
    }
    check_throttle_trips(reader)?;
    if left.is_hidden() && left.open > 0 && left.open < left.minimum {
        check_departure(model, reader, left.id, CancelReason::BelowMinimumExecution)?;
    }
    Ok(())
}

/// Checks that an iceberg without displayed lots displays its next part and loses priority.
///
/// # Errors
/// M2 if the event is missing or has other terms.
pub fn check_refresh(model: &mut VenueModel, reader: &mut EventReader<'_>, order: OrderId) -> CheckResult {
    let Some(before) = model.orders.get(&order).copied() else { return Ok(()) };
    let after = LiveOrder { shown: before.displayed_lots(), ..before };
    let expected = Event::Refreshed {
        order,
        account: after.account,
        instrument: after.instrument,
        side: after.side,
        price: after.price,
        shown: Lots(after.shown),
    };
    match reader.next_event() {
        Some(actual) if *actual == expected => reader.advance(),
        Some(actual @ Event::Refreshed { .. }) => {
            fail!(M2, "order {order} was refilled as {actual:?}, but must be {after:?}");
        }
        _ => fail!(M2, "order {order} has no displayed lots left and was not refilled"),
    }
    let arrival = model.orders.next_priority();
    replace_order(model, reader, &before, LiveOrder { arrival, ..after });
    Ok(())
}

/// Checks the events of throttles that a fill has tripped, the maker's first.
///
/// # Errors
/// S1 if an account was stopped too early, or not at all.
pub fn check_throttle_trips(reader: &mut EventReader<'_>) -> CheckResult {
    while let Some(account) = reader.trips.pop_front() {
        match reader.next_event() {
            Some(Event::ThrottleTripped { account: actual }) if *actual == account => reader.advance(),
            _ => fail!(S1, "account {account} exceeded its throttle and was not stopped"),
        }
    }
    if let Some(Event::ThrottleTripped { account }) = reader.next_event() {
        fail!(S1, "account {account} was stopped by its throttle too early");
    }
    Ok(())
}

/// Counts a fill. Returns whether it trips the throttle of the account.
fn count_execution(model: &mut VenueModel, account: AccountId) -> bool {
    let Some(Throttle { executions, window_ns }) = model.definitions.accounts[account.0 as usize].settings.throttle
    else {
        return false;
    };
    let restrictions = &mut model.ledger.accounts[account.0 as usize].restrictions;
    let window = model.at.0.checked_div(window_ns).unwrap_or(0);
    let counted = if restrictions.window == window { restrictions.executions } else { 0 };
    (restrictions.window, restrictions.executions) = (window, counted.saturating_add(1));
    let trips = restrictions.executions > executions && !restrictions.throttled;
    restrictions.throttled |= trips;
    trips
}

/// Reverses the money of a busted trade. The buyer is settled first.
pub fn reverse_trade(model: &mut VenueModel, instrument: InstrumentId, traded: &RecentTrade) {
    let parties = [(traded.buyer, Side::Sell), (traded.seller, Side::Buy)];
    let market = &model.markets[instrument.0 as usize];
    let price: Ticks = traded.price;
    model.ledger.settle(market.spec.id, &market.terms, parties, price, traded.lots.0);
}

fn count_trade(
    model: &mut VenueModel,
    instrument: InstrumentId,
    number: u64,
    price: Ticks,
    lots: u64,
    kind: TradeKind,
) {
    let at = model.at;
    let market = model.market_mut(instrument);
    market.trades = number;
    let makes_price = kind != TradeKind::Cross;
    market.day.count(price, lots, makes_price);
    if makes_price {
        market.prices.last = Some(price);
        market.prices.dynamic = Some(price);
        market.closing.last = Some(price);
    }
    if market.session.phase == Phase::Continuous {
        market.closing.count(at, number, price, lots);
    }
}

/// Stores the reference prices after a call has uncrossed.
pub fn set_references(model: &mut VenueModel, instrument: InstrumentId, call: Phase, price: Ticks) {
    let market = model.market_mut(instrument);
    market.prices.static_reference = Some(price);
    if call == Phase::ClosingCall
        || (call == Phase::VolatilityCall && market.session.continues == Some(Phase::ClosingCall))
    {
        market.closing.closing_call = Some(price);
    }
}
