//! Orders out: one, or all that a request covers.
//!
//! Holds       a mass cancel takes off what was asked for and nothing else; where a word could be read either way, it
//!             is refused.

use std::collections::BTreeMap;

use pitwire_jsonrpc::objects::OrderMoment;
use pitwire_jsonrpc::{Json, RpcError, objects};
use pitwire_model::{AccountId, CancelFilter, CancelReason, Command, Event, InstrumentId, OrderId};

use super::Done;
use super::cover::{self, Cover};
use super::trading::{no_history, not_live, order_id};
use crate::desk::Call;

pub fn cancel(call: &mut Call<'_>) -> Done {
    let (account, id) = (call.account()?, order_id(call)?);
    call.submit(Command::Cancel { account, order: id })?;
    if let Some(Event::CancelRefused { .. }) = call.venue.events().first() {
        return Err(not_live(call, account, id, "already_closed"));
    }
    let Call { venue, out, .. } = call;
    let record = venue.views().account(account).and_then(|book| book.order(id)).ok_or_else(no_history)?;
    let market = venue.engine().market(record.instrument).ok_or_else(no_history)?;
    objects::order(&mut Json::new(out), &market.spec, record, OrderMoment::default());
    Ok(())
}

/// What a mass cancel goes by.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    All,
    Instrument,
    Currency,
    KindOrType,
    Label,
}

/// Answers with the number of orders that were cancelled; with `detailed`, with the orders, instrument by instrument.
pub fn cancel_where(call: &mut Call<'_>, which: Which) -> Done {
    let account = call.account()?;
    let detailed = call.params.boolean("detailed")?.unwrap_or(false);
    let limits = cover::limit_orders(call)?;
    let given = |name| Ok::<_, RpcError>(call.params.text(name)?.is_some_and(|text| !text.is_empty()));
    let (instrument, wanted) = match which {
        Which::All => (None, None),
        Which::Instrument => (Some(call.instrument_id()?), None),
        Which::Currency => (None, Some(orders_in(call, account, &Cover::named_currency(call)?))),
        Which::KindOrType => {
            if !given("kind")? && !given("type")? {
                return Err(RpcError::invalid("kind", "kind or type is required"));
            }
            (None, Some(orders_in(call, account, &Cover::currency(call)?)))
        }
        Which::Label => {
            let (label, cover) = (call.required_label()?, Cover::currency(call)?);
            let mut wanted = orders_in(call, account, &cover);
            let book = call.venue.views().account(account);
            wanted.retain(|id| book.and_then(|book| book.order(*id)).is_some_and(|order| order.label == label));
            (None, Some(wanted))
        }
    };
    let mut cancelled = Cancelled::new();
    match wanted {
        // Only trigger orders were meant, and there are none.
        _ if !limits => {}
        None => {
            let which = instrument.map_or(CancelFilter::All, CancelFilter::Instrument);
            call.submit(Command::CancelAll { account, which, reason: CancelReason::Requested })?;
            collect(call, &mut cancelled);
        }
        Some(wanted) => {
            let which = CancelFilter::Listed(wanted.into());
            call.submit(Command::CancelAll { account, which, reason: CancelReason::Requested })?;
            collect(call, &mut cancelled);
        }
    }
    if detailed {
        write_details(call, account, &cancelled);
    } else {
        call.json().uint(cancelled.values().map(|orders| orders.len() as u64).sum());
    }
    Ok(())
}

type Cancelled = BTreeMap<InstrumentId, Vec<OrderId>>;

fn orders_in(call: &Call<'_>, account: AccountId, cover: &Cover) -> Vec<OrderId> {
    let Some(book) = call.venue.views().account(account) else { return Vec::new() };
    let engine = call.venue.engine();
    book.open_orders().filter(|order| cover.covers(engine, order.instrument)).map(|order| order.id).collect()
}

fn collect(call: &Call<'_>, cancelled: &mut Cancelled) {
    for event in call.venue.events() {
        if let Event::Cancelled { order, instrument, .. } = event {
            cancelled.entry(*instrument).or_default().push(*order);
        }
    }
}

fn write_details(call: &mut Call<'_>, account: AccountId, cancelled: &Cancelled) {
    let Call { venue, out, .. } = call;
    let (engine, book) = (venue.engine(), venue.views().account(account));
    Json::new(out).array(|j| {
        for (id, orders) in cancelled {
            let Some(market) = engine.market(*id) else { continue };
            j.object(|j| {
                j.key("type").string("limit");
                j.key("currency").string(objects::settlement_name(&market.spec, engine.currencies()));
                j.key("instrument_name").string(&market.spec.name);
                j.key("result").array(|j| {
                    for record in orders.iter().filter_map(|id| book?.order(*id)) {
                        objects::order(j, &market.spec, record, OrderMoment::default());
                    }
                });
            });
        }
    });
}
