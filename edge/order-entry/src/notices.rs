//! Private channels: what an account's sessions are told after a command.

use pitwire_engine::Engine;
use pitwire_jsonrpc::{Channel, Interval, Json, Scope, objects, write_notification};
use pitwire_model::{AccountId, InstrumentId, InstrumentSpec, OrderId};
use pitwire_views::{Change, Views};

use crate::session::Session;

impl Session {
    /// Tells this session what a command changed for its account: `send` gets each message. Fills come before
    /// the state they lead to.
    pub fn notify(&mut self, engine: &Engine, views: &Views, changes: &[Change], send: &mut dyn FnMut(&[u8])) {
        let Some(login) = self.login else { return };
        // An account's fills are told oldest first, but its book keeps the newest last: count back.
        let mut fills = changes.iter().filter(|change| is_fill_of(change, login.account)).count();
        for change in changes {
            match *change {
                Change::Trade { account, instrument } if account == login.account => {
                    self.tell_trade(engine, views, account, instrument, fills, send);
                    fills -= 1;
                }
                Change::Order { account, order } if account == login.account => {
                    self.tell_order(engine, views, account, order, send);
                }
                _ => {}
            }
        }
    }

    /// Tells what merged channels have collected in a window that has just closed.
    pub fn close_window(&mut self, interval: Interval, engine: &Engine, views: &Views, send: &mut dyn FnMut(&[u8])) {
        let Some(login) = self.login.filter(|_| self.waits_for(interval)) else { return };
        for sub in self.private.iter_mut().filter(|sub| sub.channel.interval() == interval) {
            if !sub.trades.is_empty() {
                let mut out = Vec::new();
                write_notification(&mut out, &sub.name, |j| drop_ref(j.array(|j| drop_ref(j.raw(&sub.trades)))));
                send(&out);
                sub.trades.clear();
            }
            if !sub.orders.is_empty() {
                let mut out = Vec::new();
                write_notification(&mut out, &sub.name, |j| {
                    j.array(|j| sub.orders.iter().for_each(|id| write_order(j, engine, views, login.account, *id)));
                });
                send(&out);
                sub.orders.clear();
            }
        }
    }

    fn tell_trade(
        &mut self,
        engine: &Engine,
        views: &Views,
        account: AccountId,
        instrument: InstrumentId,
        from_end: usize,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let (Some(market), Some(book)) = (engine.market(instrument), views.account(account)) else { return };
        let Some(fill) = book.trades().len().checked_sub(from_end).and_then(|at| book.trades().get(at)) else { return };
        for sub in &mut self.private {
            let Channel::UserTrades { scope, interval } = &sub.channel else { continue };
            if !covers(scope, &market.spec, engine) {
                continue;
            }
            if *interval == Interval::Raw {
                let mut out = Vec::new();
                write_notification(&mut out, &sub.name, |j| {
                    j.array(|j| objects::user_trade(j, &market.spec, fill, engine.currencies()));
                });
                send(&out);
            } else {
                if !sub.trades.is_empty() {
                    sub.trades.push(b',');
                }
                objects::user_trade(&mut Json::new(&mut sub.trades), &market.spec, fill, engine.currencies());
            }
        }
    }

    fn tell_order(
        &mut self,
        engine: &Engine,
        views: &Views,
        account: AccountId,
        order: OrderId,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let Some(record) = views.account(account).and_then(|book| book.order(order)) else { return };
        let Some(market) = engine.market(record.instrument) else { return };
        for sub in &mut self.private {
            let Channel::UserOrders { scope, interval } = &sub.channel else { continue };
            if !covers(scope, &market.spec, engine) {
                continue;
            }
            if *interval == Interval::Raw {
                let mut out = Vec::new();
                write_notification(&mut out, &sub.name, |j| objects::order(j, &market.spec, record));
                send(&out);
            } else if !sub.orders.contains(&order) {
                sub.orders.push(order);
            }
        }
    }
}

fn is_fill_of(change: &Change, account: AccountId) -> bool {
    matches!(change, Change::Trade { account: of, .. } if *of == account)
}

fn write_order(j: &mut Json<'_>, engine: &Engine, views: &Views, account: AccountId, id: OrderId) {
    let Some(record) = views.account(account).and_then(|book| book.order(id)) else { return };
    if let Some(market) = engine.market(record.instrument) {
        objects::order(j, &market.spec, record);
    }
}

/// The builder returns itself for chaining; a closure that ends a chain has no use for it.
fn drop_ref(_: &mut Json<'_>) {}

pub(crate) fn covers(scope: &Scope, spec: &InstrumentSpec, engine: &Engine) -> bool {
    match scope {
        Scope::Instrument(name) => *name == spec.name,
        Scope::Kind { kind, currency } => {
            let kind_fits = kind == "any" || kind == objects::instrument_kind(spec);
            kind_fits && in_currency(spec, engine, currency)
        }
    }
}

/// Whether a request by currency means this instrument: spot is found by either of its currencies.
pub(crate) fn in_currency(spec: &InstrumentSpec, engine: &Engine, wanted: &str) -> bool {
    let is = |id| engine.currency(id).is_some_and(|currency| currency.name.eq_ignore_ascii_case(wanted));
    wanted.eq_ignore_ascii_case("any") || is(spec.base()) || (spec.is_spot() && is(spec.quote()))
}
