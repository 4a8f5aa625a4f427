//! Private channels: what an account's sessions are told after a command.

use std::collections::BTreeMap;

use pitwire_engine::Engine;
use pitwire_jsonrpc::{Channel, Interval, Json, Scope, objects, write_notification};
use pitwire_model::{AccountId, InstrumentId, InstrumentSpec, OrderId};
use pitwire_views::{Change, Views};

use crate::methods::cover::is_of_currency;
use crate::session::{PrivateSubscription, Session};

type Subscriptions = BTreeMap<String, PrivateSubscription>;

impl Session {
    /// Tells this session what commands changed for the accounts that it listens to: `send` gets each message. Fills
    /// come before the state they lead to.
    pub fn notify(&mut self, engine: &Engine, views: &Views, changes: &[Change], send: &mut dyn FnMut(&[u8])) {
        let venue = Venue { engine, views };
        for (&listener, subs) in &mut self.private {
            // An account's fills are told oldest first, but its book keeps the newest last: count back.
            let mut fills = changes.iter().filter(|change| is_fill_of(change, listener)).count();
            for change in changes {
                match *change {
                    Change::Trade { account, instrument } if account == listener => {
                        venue.tell_trade(subs, account, instrument, fills, send);
                        fills -= 1;
                    }
                    Change::Order { account, order } if account == listener => {
                        venue.tell_order(subs, account, order, send);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Tells what merged channels have collected in a window that has just closed.
    pub fn close_window(&mut self, interval: Interval, engine: &Engine, views: &Views, send: &mut dyn FnMut(&[u8])) {
        let venue = Venue { engine, views };
        for (&account, subs) in &mut self.private {
            for (name, sub) in subs.iter_mut().filter(|(_, sub)| sub.waits_for(interval)) {
                let mut out = Vec::new();
                write_notification(&mut out, name, |j| {
                    j.array(|j| match sub.channel {
                        Channel::UserTrades { .. } => drop_ref(j.raw(&sub.trades)),
                        _ => sub.orders.iter().for_each(|id| venue.write_order(j, account, *id)),
                    });
                });
                send(&out);
                sub.trades.clear();
                sub.orders.clear();
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Venue<'a> {
    engine: &'a Engine,
    views: &'a Views,
}

impl Venue<'_> {
    fn tell_trade(
        self,
        subs: &mut Subscriptions,
        account: AccountId,
        instrument: InstrumentId,
        from_end: usize,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let (Some(market), Some(book)) = (self.engine.market(instrument), self.views.account(account)) else { return };
        let Some(fill) = book.trades().len().checked_sub(from_end).and_then(|at| book.trades().get(at)) else { return };
        for (name, sub) in subs {
            let Channel::UserTrades { scope, interval } = &sub.channel else { continue };
            if !covers(scope, &market.spec, self.engine) {
                continue;
            }
            if *interval == Interval::Raw {
                let mut out = Vec::new();
                write_notification(&mut out, name, |j| {
                    j.array(|j| objects::user_trade(j, &market.spec, fill, self.engine.currencies()));
                });
                send(&out);
            } else {
                if !sub.trades.is_empty() {
                    sub.trades.push(b',');
                }
                objects::user_trade(&mut Json::new(&mut sub.trades), &market.spec, fill, self.engine.currencies());
            }
        }
    }

    fn tell_order(self, subs: &mut Subscriptions, account: AccountId, order: OrderId, send: &mut dyn FnMut(&[u8])) {
        let Some(record) = self.views.account(account).and_then(|book| book.order(order)) else { return };
        let Some(market) = self.engine.market(record.instrument) else { return };
        for (name, sub) in subs {
            let Channel::UserOrders { scope, interval } = &sub.channel else { continue };
            if !covers(scope, &market.spec, self.engine) {
                continue;
            }
            if *interval == Interval::Raw {
                let mut out = Vec::new();
                write_notification(&mut out, name, |j| objects::order(j, &market.spec, record));
                send(&out);
            } else {
                sub.orders.insert(order);
            }
        }
    }

    fn write_order(self, j: &mut Json<'_>, account: AccountId, id: OrderId) {
        let Some(record) = self.views.account(account).and_then(|book| book.order(id)) else { return };
        if let Some(market) = self.engine.market(record.instrument) {
            objects::order(j, &market.spec, record);
        }
    }
}

fn is_fill_of(change: &Change, account: AccountId) -> bool {
    matches!(change, Change::Trade { account: of, .. } if *of == account)
}

/// The builder returns itself for chaining; a closure that ends a chain has no use for it.
fn drop_ref(_: &mut Json<'_>) {}

fn covers(scope: &Scope, spec: &InstrumentSpec, engine: &Engine) -> bool {
    match scope {
        Scope::Instrument(name) => *name == spec.name,
        Scope::Kind { kind, currency } => {
            let kind_fits = kind == "any" || kind == objects::instrument_kind(spec);
            kind_fits && is_of_currency(spec, engine, currency)
        }
    }
}
