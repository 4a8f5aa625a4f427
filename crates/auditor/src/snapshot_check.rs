//! Starts an audit from a snapshot, and compares a snapshot with the observed state.

use std::collections::BTreeMap;

use pitwire_model::{CurrencyId, InstrumentId, OrderId, OrderType};

use crate::market::AuditedSession;
use crate::model::VenueModel;
use crate::money::PerpetualPosition;
use crate::order_updates::add_order;
use crate::orders::{LiveOrder, LiveOrderKind, kind_of};
use crate::reader::EventReader;
use crate::snapshot::{
    AuditSnapshot, SnapshotMarket, SnapshotOrder, SnapshotPosition, SnapshotSession, snapshot_order,
};
use crate::validity::{legal_lots, legal_price};
use crate::violation::{CheckResult, fail};

/// Loads a snapshot into an empty model.
///
/// # Errors
/// M9 if ids are not consecutive, M10 if a definition is out of range, M4 if balances, credit or
/// orders do not fit the definitions.
pub fn load_snapshot(model: &mut VenueModel, snapshot: AuditSnapshot) -> CheckResult {
    (model.seq, model.at) = (snapshot.seq, snapshot.at);
    model.kills.venue = snapshot.venue_killed;
    model.venue_day = snapshot.today;
    model.kills.sessions = snapshot.killed_sessions.into_iter().collect();
    for currency in &snapshot.currencies {
        model.add_currency(currency)?;
    }
    let reserved: Vec<_> = snapshot.accounts.iter().map(|account| account.reserved.clone()).collect();
    for account in snapshot.accounts {
        model.add_account(&account.spec)?;
        if account.totals.len() != model.definitions.currencies.len() {
            fail!(M4, "account {} has no balance for each currency", account.spec.id);
        }
        if let Some(holder) = model.ledger.accounts.last_mut() {
            holder.totals = account.totals;
            holder.restrictions = account.restrictions;
            for (currency, units) in account.credit {
                match holder.credit.get_mut(currency.0 as usize) {
                    Some(line) => *line = units,
                    None => fail!(M4, "account {} has credit in currency {currency}", account.spec.id),
                }
            }
            let held = |held: SnapshotPosition| PerpetualPosition { lots: held.lots, entry_value: held.entry_value };
            holder.positions = account.positions.into_iter().map(|(id, position)| (id, held(position))).collect();
        }
    }
    for market in snapshot.markets {
        model.add_market(&market.spec, market.phase)?;
        if let Some(own) = model.markets.last_mut() {
            (own.change_id, own.trades) = (market.change_id, market.trades.0);
            own.prices.last = market.last;
            own.busted = market.busted.into_iter().collect();
        }
        let mut orders = market.orders.clone();
        orders.sort_by_key(|order| order.time);
        let oldest = model.orders.last_priority();
        for order in &orders {
            load_order(model, market.spec.id, order)?;
        }
        let SnapshotSession { ends, missed, remaining, unfinished, continues, static_reference, dynamic, .. } =
            market.sessions;
        let own = model.market_mut(market.spec.id);
        own.session = AuditedSession { phase: market.phase, ends, missed, remaining, unfinished, continues };
        (own.prices.static_reference, own.prices.dynamic) = (static_reference, dynamic);
        own.call.indicated = market.sessions.indicated;
        own.closing = market.sessions.close;
        own.reporting = market.reporting;
        own.call.batch_ends = market.sessions.batch_ends.iter().map(|older| oldest + older).collect();
    }
    if let Some(at) = model.ledger.accounts.iter().zip(&reserved).position(|(own, actual)| own.reserved != *actual) {
        fail!(
            M4,
            "account {at} has reserved {:?}, but its orders cost {:?}",
            reserved[at],
            model.ledger.accounts[at].reserved
        );
    }
    model.ledger.accept_totals();
    Ok(())
}

/// Adds an order of the snapshot. Orders must come in order of priority.
fn load_order(model: &mut VenueModel, instrument: InstrumentId, order: &SnapshotOrder) -> CheckResult {
    let SnapshotOrder { id, account, side, open, shown, display, ordered, place, tif, .. } = *order;
    let kind = kind_of(order.order_type);
    let live = LiveOrder {
        id,
        account,
        instrument,
        side,
        kind,
        place,
        tif,
        price: order.order_type.limit_price().unwrap_or_default(),
        stop: order.order_type.stop_price().unwrap_or_default(),
        minimum: match order.order_type {
            OrderType::Hidden { minimum_execution, .. } => minimum_execution.0,
            _ => 0,
        },
        bound: order.bound,
        open: open.0,
        shown: shown.0,
        peak: display,
        ordered: ordered.0,
        arrival: model.orders.next_priority(),
        entered: Some(order.entered),
        mode: order.self_match,
        group: order.group,
        session: order.session,
        cancel_on_disconnect: order.cancel_on_disconnect,
        reduce_only: order.reduce_only,
    };
    let shows = display.map_or(shown == open, |display| !shown.is_zero() && shown <= display.min(open));
    let is_priced = order.order_type.limit_price().is_some_and(|price| legal_price(price).is_ok());
    let is_legal = legal_lots(open).and(legal_lots(ordered)).is_ok()
        && open <= ordered
        && (is_priced || matches!(kind, LiveOrderKind::Market | LiveOrderKind::Stop))
        && (shows || !live.is_visible());
    if !is_legal || !model.ledger.has_account(account) || model.orders.contains_key(&id) {
        fail!(M10, "order {id} cannot rest as the snapshot says");
    }
    let cost = model.order_cost(&live, live.open);
    model.ledger.reserve(account, cost);
    add_order(model, &mut EventReader::new(&[]), live);
    Ok(())
}

/// Compares the model with a snapshot taken at the same command.
///
/// # Errors
/// M4 with the first part that differs.
pub fn compare_snapshot(model: &VenueModel, actual: &AuditSnapshot) -> CheckResult {
    if model.seq != actual.seq {
        fail!(M4, "the snapshot follows command {}, but command {} was observed last", actual.seq, model.seq);
    }
    if actual.currencies != model.definitions.currencies {
        fail!(M4, "the snapshot differs in currencies");
    }
    if actual.venue_killed != model.kills.venue || !model.kills.sessions.iter().eq(&actual.killed_sessions) {
        fail!(M4, "the snapshot differs in kills");
    }
    if (actual.markets.len(), actual.accounts.len()) != (model.markets.len(), model.definitions.accounts.len()) {
        fail!(M4, "the snapshot differs in the number of instruments or accounts");
    }
    for (own, actual) in model.markets.iter().zip(&actual.markets) {
        let id = own.spec.id;
        if (&own.spec, own.session.phase, own.change_id, own.trades, own.prices.last)
            != (&actual.spec, actual.phase, actual.change_id, actual.trades.0, actual.last)
        {
            fail!(M4, "the snapshot differs in the definition, phase or counters of instrument {id}");
        }
        if !own.busted.iter().eq(&actual.busted) {
            fail!(M4, "the snapshot differs in the busted trades of instrument {id}");
        }
        if own.reporting != actual.reporting {
            fail!(M4, "the snapshot differs in the trade reporting of instrument {id}");
        }
        compare_orders(model, actual)?;
        compare_sessions(model, actual)?;
    }
    for ((own, spec), actual) in model.ledger.accounts.iter().zip(&model.definitions.accounts).zip(&actual.accounts) {
        if *spec != actual.spec || own.totals != actual.totals {
            fail!(M4, "the snapshot differs in the definition or balances of account {}", spec.id);
        }
        let lines = (0..).map(CurrencyId).zip(own.credit.iter().copied()).filter(|(_, units)| *units != 0);
        if own.restrictions != actual.restrictions || !lines.eq(actual.credit.iter().copied()) {
            fail!(M4, "the snapshot differs in the restrictions or credit of account {}", spec.id);
        }
        if own.reserved != actual.reserved {
            fail!(M4, "the snapshot differs in the reserve of account {}", spec.id);
        }
        let flat = |(_, held): &(InstrumentId, SnapshotPosition)| *held != SnapshotPosition::default();
        let held = own
            .positions
            .iter()
            .map(|(id, held)| (*id, SnapshotPosition { lots: held.lots, entry_value: held.entry_value }));
        if !held.filter(flat).eq(actual.positions.iter().copied().filter(flat)) {
            fail!(M4, "the snapshot differs in the positions of account {}", spec.id);
        }
    }
    Ok(())
}

/// Compares the live orders by id. Of their priorities, only the sequence is compared.
fn compare_orders(model: &VenueModel, actual: &SnapshotMarket) -> CheckResult {
    let id = actual.spec.id;
    let mut times: Vec<u64> = actual.orders.iter().map(|order| order.time).collect();
    times.sort_unstable();
    let rank = |time: u64| times.partition_point(|other| *other < time) as u64;
    let orders: BTreeMap<OrderId, SnapshotOrder> =
        actual.orders.iter().map(|order| (order.id, SnapshotOrder { time: rank(order.time), ..*order })).collect();
    let mine: Vec<&LiveOrder> = model.orders.of_instrument(id).collect();
    let mut arrivals: Vec<u64> = mine.iter().map(|order| order.arrival).collect();
    arrivals.sort_unstable();
    for order in &mine {
        let time = arrivals.partition_point(|other| *other < order.arrival) as u64;
        let own = SnapshotOrder { time, ..snapshot_order(order) };
        match orders.get(&order.id) {
            Some(actual) if *actual == own => {}
            Some(actual) => {
                fail!(M4, "the snapshot differs in an order of instrument {id}: {actual:?}, expected {own:?}")
            }
            None => {
                fail!(M4, "the snapshot lacks an order of instrument {id}: {}", order.id)
            }
        }
    }
    if orders.len() != mine.len() || orders.len() != actual.orders.len() {
        fail!(M4, "the snapshot has {} orders of instrument {id}", actual.orders.len());
    }
    Ok(())
}

fn compare_sessions(model: &VenueModel, actual: &SnapshotMarket) -> CheckResult {
    let own = model.market(actual.spec.id);
    let mine = model.orders.of_instrument(actual.spec.id);
    let arrivals: Vec<u64> = mine.map(|order| order.arrival).collect();
    let older = |end: &u64| arrivals.iter().filter(|arrival| **arrival <= *end).count() as u64;
    let mut batch_ends: Vec<u64> = own.call.batch_ends.iter().map(older).filter(|older| *older > 0).collect();
    batch_ends.dedup();
    let AuditedSession { ends, missed, remaining, continues, .. } = own.session;
    let sessions = SnapshotSession {
        ends,
        missed,
        remaining,
        unfinished: own.session.unfinished.clone(),
        continues,
        static_reference: own.prices.static_reference,
        dynamic: own.prices.dynamic,
        indicated: own.call.indicated,
        batch_ends,
        close: own.closing.clone(),
    };
    if sessions != actual.sessions {
        fail!(
            M8,
            "the snapshot differs in the session of instrument {}: {:?}, expected {sessions:?}",
            actual.spec.id,
            actual.sessions
        );
    }
    Ok(())
}
