//! Resumption of private channels: `user.orders`, `user.trades` and `user.changes`.
//!
//! Does        send each message with its token; send a returning subscriber the messages that it
//!             missed, from the replay buffer or else from the account's history.
//! Holds       1. within an epoch the subscriber gets exactly the missed messages, in order, up to
//!                the reach of the replay buffer;
//!             2. otherwise it gets every fill and every changed order since the token's time, in
//!                the current state. A fill or order of that very nanosecond may come twice; none
//!                is left out without notice.
//! Start at    [`send_resumable`], [`resume_private`].

use crate::codec::{
    CatchUpSource, Channel, Interval, ResumeReason, Scope, Token, notification, numbered_notification, objects,
    write_resumption,
};
use pitwire_engine::Engine;
use pitwire_model::{AccountId, InstrumentId};
use pitwire_projections::{AccountBook, OrderRecord, UserTrade};

use crate::account_objects::order_moment;
use crate::call::{Call, Effect};
use crate::notices::{VenueView, covers};
use crate::replay_buffer::{ReplayBuffer, ReplayBuffers, ReplayEntry, ReplayEventKind, ReplayPosition};
use crate::session::Session;
use crate::subscription::{PrivateSubscription, is_numbered};

/// Most bytes of missed messages that one request may fetch from public channels, and as many from
/// private ones.
pub const RESUMED_BYTES: usize = 1024 * 1024;
/// Least budget in bytes that a look into an account's history costs: it visits all its orders.
const HISTORY_BYTES: usize = 128 * 1024;
/// Budget in bytes that each visited closed order costs, wanted or not.
const VISITED_BYTES: usize = 16;
/// Budget in bytes that an order costs that waits for the end of a window.
const ORDER_BYTES: usize = 512;
/// Most fills, and most orders, that are sent from history.
const HISTORY_MOST: usize = 1_000;
const A_MESSAGE: usize = 100;

/// Sends the recorded messages to the resumable channels of a session. `send` gets
/// each message.
pub(crate) fn send_resumable(
    session: &mut Session,
    replay: &ReplayBuffers,
    venue: VenueView<'_>,
    send: &mut dyn FnMut(&[u8]),
) {
    for (account, subs) in &mut session.private {
        let Some(buffer) = replay.of(*account) else { continue };
        let Some(from) = subs.values().filter_map(|sub| sub.token).map(ReplayPosition::of).min() else { continue };
        // Raw channels without tokens on the same connection are sent from the buffer too: fills
        // come before the state they lead to, by position and then by channel. Between two calls,
        // each channel has been sent everything up to the same position.
        let by_replay = subs.values().any(PrivateSubscription::is_sent_from_replay);
        for entry in buffer.after(from).take_while(|_| by_replay) {
            for (name, sub) in subs.iter_mut() {
                let is_new = sub.token.is_none_or(|position| entry.place > ReplayPosition::of(position));
                if !(is_new && sub.is_replayable_raw() && concerns(&sub.channel, entry, venue.engine)) {
                    continue;
                }
                match sub.channel {
                    Channel::UserChanges { .. } => sub.collect(entry),
                    _ => send(&message(name, entry, sub.token.map(|_| replay.epoch))),
                }
            }
        }
        // A merged channel sends its collected changes at the end of its window.
        for (name, sub) in subs.iter_mut() {
            if let Some(position) = &mut sub.token {
                *position = buffer.last.token(replay.epoch);
            }
            if by_replay && sub.is_replayable_raw() {
                venue.send_changes(name, sub, *account, send);
            }
        }
    }
}

/// Returns the notification, with its token if the subscriber asked for tokens.
fn message(name: &str, entry: &ReplayEntry, epoch: Option<u64>) -> Vec<u8> {
    numbered_notification(name, epoch.map(|epoch| entry.place.token(epoch)), |j| match entry.what {
        ReplayEventKind::Fill => j.array(|j| j.raw(&entry.object).end()).end(),
        ReplayEventKind::Order { .. } => j.raw(&entry.object).end(),
    })
}

fn concerns(channel: &Channel, entry: &ReplayEntry, engine: &Engine) -> bool {
    let scope = match (channel, entry.what) {
        (Channel::UserTrades { scope, .. }, ReplayEventKind::Fill)
        | (Channel::UserOrders { scope, .. }, ReplayEventKind::Order { .. })
        | (Channel::UserChanges { scope, .. }, _) => scope,
        _ => return false,
    };
    is_covered(scope, entry.instrument, engine)
}

fn is_covered(scope: &Scope, instrument: InstrumentId, engine: &Engine) -> bool {
    engine.market(instrument).is_some_and(|market| covers(scope, &market.spec, engine))
}

/// Subscribes a private channel with tokens and, if there is a token, sends the missed messages.
pub(crate) fn resume_private(
    call: &mut Call<'_>,
    account: AccountId,
    (name, channel): (String, Channel),
    token: Option<Token>,
    budget_bytes: &mut usize,
) {
    let mut notice = Vec::new();
    if call.session.is_subscribed(&name, Some(account)) {
        write_resumption(&mut notice, &name, CatchUpSource::Nothing(ResumeReason::AlreadySubscribed), None);
        return call.effects.push(Effect::Send(notice));
    }
    call.session.subscribe_private(account, &name, channel);
    let Some(sub) = call.session.private.get_mut(&account).and_then(|subs| subs.get_mut(&name)) else { return };
    if !is_numbered(&sub.channel) {
        write_resumption(&mut notice, &name, CatchUpSource::Nothing(ResumeReason::NotNumbered), None);
        return call.effects.push(Effect::Send(notice));
    }
    let now = call.venue.now();
    let (epoch, has_history) = (call.state.replay.epoch, call.state.replay.has_history);
    let buffer = call.state.replay.open(account, now);
    let mut position = buffer.last.token(epoch);
    sub.token = Some(position);
    let venue = VenueView { engine: call.venue.engine(), views: call.venue.views() };
    let (caught_up, messages) = match token {
        None => (CatchUpSource::Nothing(ResumeReason::New), Vec::new()),
        Some(token) if token.epoch != epoch && !(has_history && token.epoch < epoch) => {
            (CatchUpSource::Nothing(ResumeReason::OtherEpoch), Vec::new())
        }
        Some(token) if token.epoch == epoch && ReplayPosition::of(token) > buffer.last => {
            (CatchUpSource::Nothing(ResumeReason::Unknown), Vec::new())
        }
        Some(_) if *budget_bytes == 0 => (CatchUpSource::Nothing(ResumeReason::TooMuch), Vec::new()),
        Some(token) if token.epoch == epoch && ReplayPosition::of(token) >= buffer.first => {
            let messages = from_replay(&name, sub, buffer, (venue, account), token);
            // What waits for the end of a window counts against the budget as well.
            let (bytes, orders) = sub.collected();
            *budget_bytes = budget_bytes.saturating_sub(bytes + orders * ORDER_BYTES);
            if sub.has_collected() {
                // The end of the window sends it, with a newer token.
                position = token;
            }
            (CatchUpSource::Messages, messages)
        }
        Some(token) => {
            let why = if token.epoch == epoch { ResumeReason::TooOld } else { ResumeReason::OtherEpoch };
            let mut visited_bytes = HISTORY_BYTES;
            let history = from_history(&name, sub, (venue, account), token.number, &mut visited_bytes);
            *budget_bytes = budget_bytes.saturating_sub(visited_bytes);
            history.map_or((CatchUpSource::Nothing(why), Vec::new()), |(is_whole, messages)| {
                (CatchUpSource::History(if is_whole { why } else { ResumeReason::TooMuch }), messages)
            })
        }
    };
    *budget_bytes = budget_bytes.saturating_sub(messages.iter().map(Vec::len).sum());
    call.effects.extend(messages.into_iter().map(Effect::Send));
    write_resumption(&mut notice, &name, caught_up, Some(position));
    call.effects.push(Effect::Send(notice));
}

/// Returns the messages after a position. A merged channel collects them for the end of its window.
fn from_replay(
    name: &str,
    sub: &mut PrivateSubscription,
    buffer: &ReplayBuffer,
    (venue, account): (VenueView<'_>, AccountId),
    token: Token,
) -> Vec<Vec<u8>> {
    let missed = buffer.after(ReplayPosition::of(token)).filter(|entry| concerns(&sub.channel, entry, venue.engine));
    let (is_raw, is_changes) = (sub.is_sent_from_replay(), matches!(sub.channel, Channel::UserChanges { .. }));
    if is_raw && !is_changes {
        return missed.map(|entry| message(name, entry, Some(token.epoch))).collect();
    }
    let missed: Vec<&ReplayEntry> = missed.collect();
    missed.into_iter().for_each(|entry| sub.collect(entry));
    let mut messages = Vec::new();
    if is_raw {
        venue.send_changes(name, sub, account, &mut |text| messages.push(text.to_vec()));
    }
    messages
}

/// Returns the messages since a token's time, as far back as the account's book reaches, and
/// whether that is all of them. `None` for an account without a book.
fn from_history(
    name: &str,
    sub: &mut PrivateSubscription,
    (venue, account): (VenueView<'_>, AccountId),
    since: u64,
    visited_bytes: &mut usize,
) -> Option<(bool, Vec<Vec<u8>>)> {
    let book = venue.views.account(account)?;
    Some(match &sub.channel {
        Channel::UserTrades { scope, .. } => {
            let (fills, is_whole) = fills_since(book, scope, venue.engine, since);
            (is_whole, fills.chunks(A_MESSAGE).map(|fills| fills_message(name, fills, venue.engine)).collect())
        }
        Channel::UserOrders { scope, interval } => {
            let (orders, is_whole) = orders_since(book, scope, venue.engine, since, visited_bytes);
            let is_raw = *interval == Interval::Raw;
            let messages = orders.iter().filter_map(|order| order_message(name, order, is_raw, venue.engine));
            (is_whole, messages.collect())
        }
        Channel::UserChanges { scope, .. } => {
            let (fills, has_all_fills) = fills_since(book, scope, venue.engine, since);
            let (orders, has_all_orders) = orders_since(book, scope, venue.engine, since, visited_bytes);
            (has_all_fills && has_all_orders, changes_messages(name, sub, (venue, account), &fills, &orders))
        }
        _ => (true, Vec::new()),
    })
}

fn fills_since<'b>(book: &'b AccountBook, scope: &Scope, engine: &Engine, since: u64) -> (Vec<&'b UserTrade>, bool) {
    let later = book.trades().iter().rev().take_while(|fill| fill.trade.at.0 >= since);
    let mut fills: Vec<_> =
        later.filter(|fill| is_covered(scope, fill.instrument, engine)).take(HISTORY_MOST + 1).collect();
    let is_forgotten = book.trades().len() == AccountBook::TRADES
        && book.trades().front().is_some_and(|oldest| oldest.trade.at.0 >= since);
    let is_whole = fills.len() <= HISTORY_MOST && !is_forgotten;
    fills.truncate(HISTORY_MOST);
    fills.reverse();
    (fills, is_whole)
}

fn orders_since<'b>(
    book: &'b AccountBook,
    scope: &Scope,
    engine: &Engine,
    since: u64,
    visited_bytes: &mut usize,
) -> (Vec<&'b OrderRecord>, bool) {
    // Closed orders are kept in the order in which they closed.
    let closed = book.closed_orders().rev().take_while(|order| order.updated.0 >= since);
    let closed = closed.inspect(|_| *visited_bytes += VISITED_BYTES);
    let closed = closed.filter(|order| is_covered(scope, order.instrument, engine)).take(HISTORY_MOST + 1);
    let open = book.open_orders().filter(|order| order.updated.0 >= since);
    let open = open.filter(|order| is_covered(scope, order.instrument, engine));
    let mut orders: Vec<_> = closed.chain(open).collect();
    orders.sort_by_key(|order| (order.updated, order.id));
    let is_forgotten = book.closed_orders_len() >= AccountBook::CLOSED_ORDERS
        && book.closed_orders().next().is_some_and(|oldest| oldest.updated.0 >= since);
    let is_whole = orders.len() <= HISTORY_MOST && !is_forgotten;
    orders.drain(..orders.len().saturating_sub(HISTORY_MOST));
    (orders, is_whole)
}

fn fills_message(name: &str, fills: &[&UserTrade], engine: &Engine) -> Vec<u8> {
    notification(name, |j| {
        j.array(|j| {
            for fill in fills {
                if let Some(market) = engine.market(fill.instrument) {
                    objects::user_trade(j, &market.spec, fill, engine.currencies());
                }
            }
        });
    })
}

fn order_message(name: &str, order: &OrderRecord, is_raw: bool, engine: &Engine) -> Option<Vec<u8>> {
    let market = engine.market(order.instrument)?;
    Some(notification(name, |j| {
        let moment = order_moment(engine, order);
        if is_raw {
            objects::order(j, &market.spec, order, moment);
        } else {
            j.array(|j| objects::order(j, &market.spec, order, moment));
        }
    }))
}

/// Returns messages per instrument with up to [`A_MESSAGE`] fills and as many orders each. Merged
/// channels send them at once, too.
fn changes_messages(
    name: &str,
    sub: &mut PrivateSubscription,
    (venue, account): (VenueView<'_>, AccountId),
    fills: &[&UserTrade],
    orders: &[&OrderRecord],
) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut send = |text: &[u8]| messages.push(text.to_vec());
    // Without tokens: these messages do not belong to this epoch's numbering.
    let position = sub.token.take();
    for fills in fills.chunks(A_MESSAGE) {
        fills.iter().for_each(|fill| venue.collect_change(sub, fill));
        venue.send_changes(name, sub, account, &mut send);
    }
    for orders in orders.chunks(A_MESSAGE) {
        for order in orders {
            sub.changes.entry(order.instrument).or_default().orders.insert(order.id);
        }
        venue.send_changes(name, sub, account, &mut send);
    }
    sub.token = position;
    messages
}
