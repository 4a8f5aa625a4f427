//! Notifications of private channels.

use std::collections::BTreeMap;

use crate::account_events::{AccountEvent, AccountEventKind};
use crate::codec::{Channel, Interval, Json, Scope, notification, numbered_notification, objects};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, InstrumentSpec, OrderId, Seq};
use pitwire_projections::{OrderRecord, UserTrade, Views};

use crate::account_objects::{order_moment, summary_facts, write_position, write_report};
use crate::notice_texts::NoticeTexts;
use crate::session::Session;
use crate::subscription::{PendingFills, PrivateSubscription, RECORDS_PER_MESSAGE, take_orders};

type Subscriptions = BTreeMap<String, PrivateSubscription>;
/// Sends the text of an event on a channel, which the function makes if no session has got it.
type SendText<'a> = dyn FnMut(&str, &dyn Fn() -> Vec<u8>) + 'a;

impl Session {
    /// Sends events to this session's private channels. `send` gets each message. Fills are sent
    /// before the order state that they lead to. `texts` are those of the same events for other
    /// sessions.
    pub fn notify(
        &mut self,
        (engine, views): (&Engine, &Views),
        events: &[AccountEvent],
        texts: &mut NoticeTexts,
        send: &mut dyn FnMut(&[u8]),
    ) {
        let venue = VenueView { engine, views };
        for (&listener, subs) in &mut self.private {
            // If one channel is resumable, all raw channels are sent from the replay buffer, in one
            // order.
            let by_replay = subs.values().any(PrivateSubscription::is_sent_from_replay);
            let mut moves_money = false;
            for (at, event) in events.iter().enumerate().filter(|(_, event)| event.account() == listener) {
                let mut text = |name: &str, write: &dyn Fn() -> Vec<u8>| send(texts.get(at, name, write));
                match &event.kind {
                    AccountEventKind::Fill(fill) => venue.send_trade((subs, by_replay), fill, &mut text),
                    AccountEventKind::Order { record, triggers } => {
                        venue.send_order((subs, by_replay), record, *triggers, &mut text);
                    }
                    AccountEventKind::Report(report) => venue.send_report(subs, listener, *report, send),
                    AccountEventKind::Money => {}
                }
                moves_money |= !matches!(event.kind, AccountEventKind::Report(_));
            }
            for (name, sub) in subs {
                sub.portfolio.stale |= moves_money;
                if sub.channel.interval() == Interval::Raw {
                    venue.send_changes(name, sub, listener, send);
                }
            }
        }
    }

    /// Sends what merged channels collected in the window that has just ended: about as many
    /// orders and fills as `budget` says, which it reduces. Returns whether everything was sent.
    pub fn send_window(
        &mut self,
        interval: Interval,
        engine: &Engine,
        views: &Views,
        budget: &mut usize,
        send: &mut dyn FnMut(&[u8]),
    ) -> bool {
        let venue = VenueView { engine, views };
        for (&account, subs) in &mut self.private {
            let mut due: Vec<_> = subs.iter_mut().filter(|(_, sub)| sub.is_due_at(interval)).collect();
            // Fills are sent before the order state that they lead to.
            due.sort_by_key(|(_, sub)| !matches!(sub.channel, Channel::UserTrades { .. }));
            for (name, sub) in due {
                while sub.waits() {
                    if *budget == 0 {
                        return false;
                    }
                    let cost = match sub.channel {
                        Channel::UserPortfolio { .. } => venue.send_portfolio(name, sub, account, send),
                        Channel::UserChanges { .. } => venue.send_next_change(name, sub, account, send),
                        _ => venue.send_next_collected(name, sub, account, send),
                    };
                    *budget = budget.saturating_sub(cost);
                }
            }
        }
        true
    }
}

/// The state that notifications are written from.
#[derive(Clone, Copy)]
pub(crate) struct VenueView<'a> {
    pub engine: &'a Engine,
    pub views: &'a Views,
}

impl VenueView<'_> {
    fn send_trade(self, (subs, by_replay): (&mut Subscriptions, bool), fill: &UserTrade, send: &mut SendText<'_>) {
        let Some(market) = self.engine.market(fill.instrument) else { return };
        for (name, sub) in self.listening(subs, by_replay, &market.spec) {
            match &sub.channel {
                Channel::UserTrades { interval: Interval::Raw, .. } => send(name, &|| {
                    notification(name, |j| {
                        j.array(|j| objects::user_trade(j, &market.spec, fill, self.engine.currencies()));
                    })
                }),
                Channel::UserTrades { .. } => self.collect(&mut sub.trades, &market.spec, fill),
                Channel::UserChanges { .. } => self.collect_change(sub, fill),
                _ => {}
            }
        }
    }

    /// Returns the subscriptions to orders, fills and changes of an instrument. With `by_replay`,
    /// raw channels are sent from the replay buffer instead.
    fn listening<'s>(
        self,
        subs: &'s mut Subscriptions,
        by_replay: bool,
        spec: &InstrumentSpec,
    ) -> impl Iterator<Item = (&'s String, &'s mut PrivateSubscription)> {
        subs.iter_mut().filter(move |(_, sub)| match &sub.channel {
            Channel::UserOrders { scope, .. }
            | Channel::UserTrades { scope, .. }
            | Channel::UserChanges { scope, .. } => {
                !(by_replay && sub.is_replayable_raw()) && covers(scope, spec, self.engine)
            }
            _ => false,
        })
    }

    fn send_report(self, subs: &Subscriptions, account: AccountId, report: Seq, send: &mut dyn FnMut(&[u8])) {
        let Some(record) = self.views.reports(account).rev().find(|record| record.report == report) else { return };
        let Some(market) = self.engine.market(record.trade.instrument) else { return };
        for (name, sub) in subs {
            let Channel::UserReports { scope } = &sub.channel else { continue };
            if covers(scope, &market.spec, self.engine) {
                send(&notification(name, |j| write_report(j, self.engine, record, account)));
            }
        }
    }

    /// Adds one fill to what `user.changes` will send for its instrument.
    pub(crate) fn collect_change(self, sub: &mut PrivateSubscription, fill: &UserTrade) {
        if let Some(market) = self.engine.market(fill.instrument) {
            self.collect(&mut sub.changes.entry(fill.instrument).or_default().trades, &market.spec, fill);
        }
    }

    /// Adds one fill to a list that will be sent later.
    fn collect(self, list: &mut PendingFills, spec: &InstrumentSpec, fill: &UserTrade) {
        list.push(|part| objects::user_trade(&mut Json::new(part), spec, fill, self.engine.currencies()));
    }

    /// Sends an order's state. `triggers` marks the message of a stop that was elected; merged
    /// channels send only the final state.
    fn send_order(
        self,
        (subs, by_replay): (&mut Subscriptions, bool),
        record: &OrderRecord,
        triggers: bool,
        send: &mut SendText<'_>,
    ) {
        let Some(market) = self.engine.market(record.instrument) else { return };
        for (name, sub) in self.listening(subs, by_replay, &market.spec) {
            match &sub.channel {
                Channel::UserOrders { interval: Interval::Raw, .. } => send(name, &|| {
                    notification(name, |j| {
                        let moment = objects::OrderMoment { triggers, ..order_moment(self.engine, record) };
                        objects::order(j, &market.spec, record, moment);
                    })
                }),
                Channel::UserOrders { .. } => _ = sub.orders.insert(record.id),
                Channel::UserChanges { .. } => {
                    sub.changes.entry(record.instrument).or_default().orders.insert(record.id);
                }
                _ => {}
            }
        }
    }

    /// Sends one message of collected fills or orders. The last one carries the token. Returns how
    /// many records it may have.
    fn send_next_collected(
        self,
        name: &str,
        sub: &mut PrivateSubscription,
        account: AccountId,
        send: &mut dyn FnMut(&[u8]),
    ) -> usize {
        let (trades, orders) = (sub.trades.take_part(), take_orders(&mut sub.orders));
        let token = sub.token.filter(|_| !sub.has_collected());
        send(&numbered_notification(name, token, |j| {
            j.array(|j| match sub.channel {
                Channel::UserTrades { .. } => j.raw(&trades).end(),
                _ => orders.iter().for_each(|id| self.write_order(j, account, *id)),
            });
        }));
        if trades.is_empty() { orders.len() } else { RECORDS_PER_MESSAGE }
    }

    /// Sends all collected changes of a `user.changes` channel.
    pub(crate) fn send_changes(
        self,
        name: &str,
        sub: &mut PrivateSubscription,
        account: AccountId,
        send: &mut dyn FnMut(&[u8]),
    ) {
        while !sub.changes.is_empty() {
            self.send_next_change(name, sub, account, send);
        }
    }

    /// Sends one message with changes of one instrument: its orders, fills and position together.
    /// An instrument with many changes takes several messages. The last message of all carries the
    /// token. Returns how many records the message may have.
    fn send_next_change(
        self,
        name: &str,
        sub: &mut PrivateSubscription,
        account: AccountId,
        send: &mut dyn FnMut(&[u8]),
    ) -> usize {
        let Some(mut entry) = sub.changes.first_entry() else { return 1 };
        let (instrument, waiting) = (*entry.key(), entry.get_mut());
        let (trades, orders) = (waiting.trades.take_part(), take_orders(&mut waiting.orders));
        if waiting.is_empty() {
            entry.remove();
        }
        let Some(market) = self.engine.market(instrument) else { return 1 };
        let token = sub.token.filter(|_| sub.changes.is_empty());
        send(&numbered_notification(name, token, |j| {
            j.object(|j| {
                j.key("instrument_name").string(&market.spec.name);
                j.key("trades").array(|j| j.raw(&trades).end());
                j.key("orders").array(|j| orders.iter().for_each(|id| self.write_order(j, account, *id)));
                j.key("positions").array(|j| {
                    if !market.spec.is_spot() && !trades.is_empty() {
                        write_position(j, self.engine, account, instrument);
                    }
                });
            });
        }));
        orders.len() + if trades.is_empty() { 0 } else { RECORDS_PER_MESSAGE }
    }

    /// Sends one message per currency whose summary differs from the last one sent. Returns its
    /// cost in records.
    fn send_portfolio(
        self,
        name: &str,
        sub: &mut PrivateSubscription,
        account: AccountId,
        send: &mut dyn FnMut(&[u8]),
    ) -> usize {
        let Channel::UserPortfolio { currency: wanted } = &sub.channel else { return 1 };
        sub.portfolio.stale = false;
        for currency in self.engine.currencies() {
            if !wanted.eq_ignore_ascii_case("any") && !wanted.eq_ignore_ascii_case(&currency.name) {
                continue;
            }
            let mut summary = Vec::new();
            objects::summary(&mut Json::new(&mut summary), currency, &summary_facts(self.engine, account, currency));
            if sub.portfolio.sent.get(&currency.id) == Some(&summary) {
                continue;
            }
            send(&notification(name, |j| j.raw(&summary).end()));
            sub.portfolio.sent.insert(currency.id, summary);
        }
        self.engine.currencies().len()
    }

    fn write_order(self, j: &mut Json<'_>, account: AccountId, id: OrderId) {
        let Some(record) = self.views.account(account).and_then(|book| book.order(id)) else { return };
        if let Some(market) = self.engine.market(record.instrument) {
            objects::order(j, &market.spec, record, order_moment(self.engine, record));
        }
    }
}

pub(crate) fn covers(scope: &Scope, spec: &InstrumentSpec, engine: &Engine) -> bool {
    match scope {
        Scope::Instrument(name) => *name == spec.name,
        Scope::Kind { kind, currency } => objects::is_of_family(spec, engine.currencies(), kind, currency),
    }
}
