//! Questions about one's own orders and fills.

use pitwire_jsonrpc::{Json, RpcError, objects};
use pitwire_model::InstrumentId;
use pitwire_views::{AccountBook, OrderRecord, UserTrade};

use super::{Done, trading};
use crate::desk::Call;

/// Which instruments a history request covers. Histories by currency must not overlap, for clients add them up:
/// an instrument belongs to the currency it settles in.
struct Cover {
    instrument: Option<InstrumentId>,
    currency: String,
    kind: String,
}

impl Cover {
    fn of(call: &Call<'_>, method: &str) -> Result<Cover, RpcError> {
        let instrument = if method.contains("by_instrument") { Some(call.instrument_id()?) } else { None };
        let kind = call.params.text("kind")?.filter(|kind| !kind.is_empty());
        Ok(Cover { instrument, currency: call.currency()?, kind: kind.map_or("any".into(), |kind| kind.into_owned()) })
    }

    fn covers(&self, call: &Call<'_>, id: InstrumentId) -> bool {
        if let Some(instrument) = self.instrument {
            return instrument == id;
        }
        let engine = call.venue.engine();
        engine.market(id).is_some_and(|market| {
            let settled = objects::settlement_name(&market.spec, engine.currencies());
            (self.currency.eq_ignore_ascii_case("any") || self.currency.eq_ignore_ascii_case(settled))
                && (self.kind == "any" || self.kind == objects::instrument_kind(&market.spec))
        })
    }
}

fn book<'a>(call: &'a Call<'_>) -> Result<Option<&'a AccountBook>, RpcError> {
    Ok(call.venue.views().account(call.account()?))
}

fn write_orders(call: &Call<'_>, orders: &[&OrderRecord]) -> Vec<u8> {
    let mut out = Vec::new();
    let engine = call.venue.engine();
    Json::new(&mut out).array(|j| {
        for order in orders {
            if let Some(market) = engine.market(order.instrument) {
                objects::order(j, &market.spec, order);
            }
        }
    });
    out
}

fn write_fills(call: &Call<'_>, j: &mut Json<'_>, fills: &[&UserTrade]) {
    let engine = call.venue.engine();
    j.array(|j| {
        for fill in fills {
            if let Some(market) = engine.market(fill.instrument) {
                objects::user_trade(j, &market.spec, fill, engine.currencies());
            }
        }
    });
}

pub fn order_state(call: &mut Call<'_>) -> Done {
    let id = trading::order_id(call)?;
    let record = book(call)?.and_then(|book| book.order(id));
    let record = record.ok_or_else(|| RpcError::param("unknown_order", "order_id", format!("no order {id}")))?;
    let market = call.market(record.instrument)?;
    let mut out = Vec::new();
    objects::order(&mut Json::new(&mut out), &market.spec, record);
    call.out = out;
    Ok(())
}

pub fn order_state_by_label(call: &mut Call<'_>) -> Done {
    let label = call.params.required("label")?;
    let cover = Cover::of(call, "by_currency")?;
    let Some(book) = book(call)? else { return empty(call) };
    let all = book.open_orders().chain(book.closed_orders());
    let found: Vec<_> =
        all.filter(|order| order.label.as_str() == label && cover.covers(call, order.instrument)).collect();
    call.out = write_orders(call, &found);
    Ok(())
}

fn empty(call: &mut Call<'_>) -> Done {
    call.json().array(|_| {});
    Ok(())
}

pub fn open_orders(call: &mut Call<'_>, method: &str) -> Done {
    let cover = Cover::of(call, method)?;
    let label = if method.ends_with("by_label") { Some(call.params.required("label")?) } else { None };
    let Some(book) = book(call)? else { return empty(call) };
    let wanted = |order: &&OrderRecord| {
        cover.covers(call, order.instrument) && label.as_deref().is_none_or(|label| order.label.as_str() == label)
    };
    let found: Vec<_> = book.open_orders().filter(wanted).collect();
    call.out = write_orders(call, &found);
    Ok(())
}

/// Closed orders, newest first. Those cancelled without a fill are left out unless `include_unfilled`.
pub fn order_history(call: &mut Call<'_>, method: &str) -> Done {
    let cover = Cover::of(call, method)?;
    let count = call.count(20)?;
    let offset = usize::try_from(call.params.integer("offset")?.unwrap_or(0).max(0)).unwrap_or(0);
    let unfilled = call.params.boolean("include_unfilled")?.unwrap_or(false);
    let Some(book) = book(call)? else { return empty(call) };
    let wanted = |order: &&OrderRecord| cover.covers(call, order.instrument) && (unfilled || !order.filled.is_zero());
    let found: Vec<_> = book.closed_orders().rev().filter(wanted).skip(offset).take(count).collect();
    call.out = write_orders(call, &found);
    Ok(())
}

pub fn user_trades(call: &mut Call<'_>, method: &str) -> Done {
    let cover = Cover::of(call, method)?;
    let count = call.count(10)?;
    let (from_ms, to_ms) = call.time_range()?;
    let ascending = call.is_ascending()?;
    let seq = |name| Ok::<_, RpcError>(call.params.integer(name)?.and_then(|value| u64::try_from(value).ok()));
    let (start_seq, end_seq) = (seq("start_seq")?.unwrap_or(0), seq("end_seq")?.unwrap_or(u64::MAX));
    let fills = book(call)?.map(|book| book.trades());
    let wanted = |fill: &&UserTrade| {
        cover.covers(call, fill.instrument)
            && (from_ms..=to_ms).contains(&fill.trade.at.as_millis())
            && (start_seq..=end_seq).contains(&fill.trade.seq.0)
    };
    let mut found: Vec<&UserTrade> = match fills {
        None => Vec::new(),
        Some(fills) if ascending => fills.iter().filter(wanted).take(count + 1).collect(),
        Some(fills) => fills.iter().rev().filter(wanted).take(count + 1).collect(),
    };
    let has_more = found.len() > count;
    found.truncate(count);
    let mut out = Vec::new();
    Json::new(&mut out).object(|j| {
        j.key("trades");
        write_fills(call, j, &found);
        j.key("has_more").bool(has_more);
    });
    call.out = out;
    Ok(())
}

/// A bare array, oldest first unless asked otherwise: the one answer of this family without an object around it.
pub fn user_trades_by_order(call: &mut Call<'_>) -> Done {
    let id = trading::order_id(call)?;
    let descending = call.params.text("sorting")?.as_deref() == Some("desc");
    let Some(book) = book(call)? else { return empty(call) };
    let mut found: Vec<&UserTrade> = book.trades().iter().filter(|fill| fill.order == id).collect();
    if descending {
        found.reverse();
    }
    let mut out = Vec::new();
    write_fills(call, &mut Json::new(&mut out), &found);
    call.out = out;
    Ok(())
}
