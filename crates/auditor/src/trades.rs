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

/// A trade that is due, each order as it is before it.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedTrade {
    pub maker: LiveOrder,
    pub taker: LiveOrder,
    pub price: Ticks,
    pub lots: u64,
    pub kind: TradeKind,
    /// Whether the taker has set aside what it may spend; else it must have it free.
    pub taker_reserves: bool,
}

impl ExpectedTrade {
    /// The event that tells of it.
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

/// The next event must be this trade. Money moves and is counted; the two orders stay as they are.
pub fn check_trade(model: &mut VenueModel, reader: &mut EventReader<'_>, deal: &ExpectedTrade) -> CheckResult {
    let ExpectedTrade { maker, taker, price, lots, kind, .. } = *deal;
    let instrument = maker.instrument;
    let due = deal.event(model.markets[instrument.0 as usize].trades + 1);
    match reader.peek(model)? {
        Some(told) if *told == due => reader.advance(),
        Some(told @ Event::Trade { .. }) => return Err(wrong_trade(model, deal, told)),
        Some(Event::Cancelled { order, reason, .. }) if *order == taker.id => {
            fail!(M5, "order {order} expired while it could still trade ({reason:?}): {lots} at {price}");
        }
        Some(Event::Cancelled { order, reason, .. }) if *order == maker.id => {
            fail!(M4, "order {order} was cancelled ({reason:?}) out of order: it was to trade {lots} at {price}")
        }
        Some(Event::Level { side, price: at, .. }) if (*side, *at) == (taker.side, taker.price) => {
            let (bid, offer) = if taker.side == Side::Buy { (at, &maker.price) } else { (&maker.price, at) };
            fail!(M3, "order {} could trade and the book is left with a bid of {bid} and an offer of {offer}", taker.id)
        }
        Some(event @ Event::Level { .. }) => return Err(unexpected_event(model, event)),
        Some(Event::Refreshed { order, .. }) => fail!(M2, "order {order} was refreshed and had no need of it"),
        Some(Event::Triggered { order, .. }) => {
            fail!(M5, "order {order} was elected before order {} had its {lots} at {price}", taker.id)
        }
        Some(Event::Breached { .. }) => fail!(M8, "a trade at {price} was kept back, and breaches nothing"),
        other => {
            let said = other.map_or("nothing".to_owned(), |event| format!("{event:?}"));
            if matches!(kind, TradeKind::Continuous | TradeKind::Filter) {
                fail!(M3, "order {} and order {} were to trade {lots} at {price}: {said}", taker.id, maker.id);
            }
            fail!(M6, "order {} and order {} were to trade {lots} at {price}: {said}", maker.id, taker.id);
        }
    }
    let Some(Event::Trade { trade_seq, .. }) = Some(&due) else { return Ok(()) };
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

/// Which promise a trade breaks that is told and is not the one that was due.
fn wrong_trade(model: &VenueModel, due: &ExpectedTrade, told: &Event) -> BrokenPromise {
    let Event::Trade {
        instrument, trade_seq, price, lots, taker_side, maker, taker, maker_open, taker_open, kind, ..
    } = *told
    else {
        return BrokenPromise { promise: Promise::S1, sentence: format!("{told:?} is no trade") };
    };
    let fault = |promise, sentence| BrokenPromise { promise, sentence };
    let market = &model.markets[due.maker.instrument.0 as usize];
    if instrument != due.maker.instrument {
        return fault(Promise::M8, format!("trade {trade_seq} is in instrument {instrument}, where nothing trades"));
    }
    if trade_seq.0 != market.trades + 1 {
        return fault(Promise::F1, format!("trade {trade_seq} follows trade {}", market.trades));
    }
    if kind != due.kind {
        return fault(Promise::M8, format!("trade {trade_seq} is told as {kind:?} and is {:?}", due.kind));
    }
    for order in [&due.maker, &due.taker] {
        if order.reach().is_some_and(|limit| is_worse(order.side, price, limit)) {
            let sentence = format!("trade {trade_seq} at {price} is worse than the limit of order {}", order.id);
            return fault(Promise::M1, sentence);
        }
    }
    let by_one_price = !matches!(kind, TradeKind::Continuous | TradeKind::Cross);
    if by_one_price && price != due.price {
        let sentence = format!("trade {trade_seq} at {price}, and the one price is {}", due.price);
        return fault(Promise::M6, sentence);
    }
    if !by_one_price && taker != due.taker.id {
        let sentence = format!("trade {trade_seq} names order {taker} as its taker, which entered nothing");
        return fault(Promise::M4, sentence);
    }
    if maker != due.maker.id || taker != due.taker.id {
        return fault(Promise::M2, priority_sentence(model, due, trade_seq, maker, taker));
    }
    if taker_side != due.taker.side {
        return fault(Promise::M4, format!("trade {trade_seq} tells order {maker} as another than it is"));
    }
    if price != due.price && due.maker.is_hidden() {
        let sentence = format!("trade {trade_seq} at {price}, and hidden order {maker} gives {} here", due.price);
        return fault(Promise::M1, sentence);
    }
    if price != due.price {
        return fault(Promise::M1, format!("trade {trade_seq} at {price}, and its maker rests at {}", due.price));
    }
    if lots.0 != due.lots {
        let promise = if by_one_price { Promise::M6 } else { Promise::M4 };
        return fault(promise, format!("trade {trade_seq} of {lots}, and {} were to be had", due.lots));
    }
    let told = format!("trade {trade_seq} of {lots} does not leave {maker_open} of its maker and {taker_open}");
    fault(Promise::M4, format!("{told} of its taker"))
}

fn priority_sentence(
    model: &VenueModel,
    due: &ExpectedTrade,
    number: TradeSeq,
    maker: OrderId,
    taker: OrderId,
) -> String {
    let (wrong, right) = if maker == due.maker.id { (taker, due.taker) } else { (maker, due.maker) };
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
    format!("trade {number} passes over {what}: order {} was to trade, and order {wrong} did", right.id)
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

/// A resting order has traded in continuous trading: what is left of it, and what that makes due.
pub fn check_after_fill(
    model: &mut VenueModel,
    reader: &mut EventReader<'_>,
    maker: &LiveOrder,
    lots: u64,
) -> CheckResult {
    let left = LiveOrder { open: maker.open - lots, shown: maker.shown.saturating_sub(lots), ..*maker };
    note_level_change(model, reader, maker);
    let book = &mut model.markets[maker.instrument.0 as usize].book;
    book.shrink(maker, maker.shown - left.shown, lots);
    model.orders.insert(left);
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

/// An iceberg whose shown part is used up shows its next, last in its queue.
pub fn check_refresh(model: &mut VenueModel, reader: &mut EventReader<'_>, order: OrderId) -> CheckResult {
    let Some(before) = model.orders.get(&order).copied() else { return Ok(()) };
    let after = LiveOrder { shown: before.displayed_lots(), ..before };
    let due = Event::Refreshed {
        order,
        account: after.account,
        instrument: after.instrument,
        side: after.side,
        price: after.price,
        shown: Lots(after.shown),
    };
    match reader.next_event() {
        Some(told) if *told == due => reader.advance(),
        Some(told @ Event::Refreshed { .. }) => {
            fail!(M2, "order {order} was refreshed as {told:?}, and it is {after:?}");
        }
        _ => fail!(M2, "order {order} has shown all it shows and was not refreshed"),
    }
    let arrival = model.orders.next_priority();
    replace_order(model, reader, &before, LiveOrder { arrival, ..after });
    Ok(())
}

/// The throttles that a fill has tripped, the maker's first.
pub fn check_throttle_trips(reader: &mut EventReader<'_>) -> CheckResult {
    while let Some(account) = reader.trips.pop_front() {
        match reader.next_event() {
            Some(Event::ThrottleTripped { account: told }) if *told == account => reader.advance(),
            _ => fail!(S1, "account {account} traded more often than it may and was not stopped"),
        }
    }
    if let Some(Event::ThrottleTripped { account }) = reader.next_event() {
        fail!(S1, "account {account} was stopped by its throttle, which was not due");
    }
    Ok(())
}

/// Counts a fill; whether it is the one that trips the account's throttle.
fn count_execution(model: &mut VenueModel, account: AccountId) -> bool {
    let Some(Throttle { executions, window_ns }) = model.definitions.accounts[account.0 as usize].settings.throttle
    else {
        return false;
    };
    let standing = &mut model.ledger.accounts[account.0 as usize].restrictions;
    let window = model.at.0.checked_div(window_ns).unwrap_or(0);
    let counted = if standing.window == window { standing.executions } else { 0 };
    (standing.window, standing.executions) = (window, counted.saturating_add(1));
    let trips = standing.executions > executions && !standing.throttled;
    standing.throttled |= trips;
    trips
}

/// A bust moves back what its trade moved: who bought sells, and first.
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

/// A call has had its price.
pub fn set_references(model: &mut VenueModel, instrument: InstrumentId, call: Phase, price: Ticks) {
    let market = model.market_mut(instrument);
    market.prices.static_reference = Some(price);
    if call == Phase::ClosingCall
        || (call == Phase::VolatilityCall && market.session.continues == Some(Phase::ClosingCall))
    {
        market.closing.closing_call = Some(price);
    }
}
