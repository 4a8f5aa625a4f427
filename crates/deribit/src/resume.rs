//! Accounts' own channels for those who come back: `user.orders`, `user.trades`, and both together in `user.changes`.
//!
//! Does        tell each message with its token; say what was missed, from the replay or else from the account's history.
//! Holds       1. of one epoch exactly what was missed is told, in order, as far as the replay reaches;
//!             2. else every fill and every order that has changed since the token's time, as they stand now: a fill or an
//!                order of that very nanosecond may be told again, none is left out without a word.
//! Start at    [`send_resumable`], [`come_back`].

use crate::codec::{
    CaughtUp, Channel, Interval, Scope, Token, Why, objects, write_notification, write_numbered, write_resumption,
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

/// Most bytes of missed messages that one request fetches of public channels, and of private ones.
pub const RESUMED_BYTES: usize = 1024 * 1024;
/// What a look into an account's history takes of that at least: it goes through all its orders.
const HISTORY_BYTES: usize = 128 * 1024;
/// What each closed order counts as that is looked at on the way, wanted or not.
const LOOKED_BYTES: usize = 16;
/// What an order that waits for the end of a window counts as.
const ORDER_BYTES: usize = 512;
/// Most fills, and most orders, that are told from history, and most of either in one message.
const HISTORY_MOST: usize = 1_000;
const A_MESSAGE: usize = 100;

/// Sends what the replay buffers have recorded to the resumable channels of a session. `send` gets each message.
pub(crate) fn send_resumable(
    session: &mut Session,
    replay: &ReplayBuffers,
    venue: VenueView<'_>,
    send: &mut dyn FnMut(&[u8]),
) {
    for (account, subs) in &mut session.private {
        let Some(buffer) = replay.of(*account) else { continue };
        let Some(from) = subs.values().filter_map(|sub| sub.stands).map(ReplayPosition::of).min() else { continue };
        // Channels without tokens beside those that have them too: fills come before the state they lead to, by place,
        // and then by channel. Between two calls each has heard all up to the same place.
        let by_replay = subs.values().any(PrivateSubscription::is_sent_from_replay);
        for entry in buffer.after(from).take_while(|_| by_replay) {
            for (name, sub) in subs.iter_mut() {
                let is_new = sub.stands.is_none_or(|stands| entry.place > ReplayPosition::of(stands));
                if !(is_new && sub.is_replayable_raw() && tells(&sub.channel, entry, venue.engine)) {
                    continue;
                }
                match sub.channel {
                    Channel::UserChanges { .. } => sub.collect(entry),
                    _ => send(&message(name, entry, sub.stands.map(|_| replay.epoch))),
                }
            }
        }
        // What a merged channel has collected goes with the end of its window.
        for (name, sub) in subs.iter_mut() {
            if let Some(stands) = &mut sub.stands {
                *stands = buffer.last.token(replay.epoch);
            }
            if by_replay && sub.is_replayable_raw() {
                venue.tell_changes(name, sub, *account, send);
            }
        }
    }
}

/// With its token, if its reader has asked for tokens.
fn message(name: &str, entry: &ReplayEntry, epoch: Option<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    write_numbered(&mut out, name, epoch.map(|epoch| entry.place.token(epoch)), |j| match entry.what {
        ReplayEventKind::Fill => j.array(|j| j.raw(&entry.object).end()).end(),
        ReplayEventKind::Order { .. } => j.raw(&entry.object).end(),
    });
    out
}

fn tells(channel: &Channel, entry: &ReplayEntry, engine: &Engine) -> bool {
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

/// Subscribes a private channel whose reader wants to be able to come back, and comes back now if it has a token.
pub(crate) fn come_back(
    call: &mut Call<'_>,
    account: AccountId,
    (name, channel): (String, Channel),
    token: Option<Token>,
    room: &mut usize,
) {
    let mut told = Vec::new();
    if call.session.hears(&name, Some(account)) {
        write_resumption(&mut told, &name, CaughtUp::Nothing(Why::AlreadySubscribed), None);
        return call.effects.push(Effect::Send(told));
    }
    call.session.subscribe_private(account, &name, channel);
    let Some(sub) = call.session.private.get_mut(&account).and_then(|subs| subs.get_mut(&name)) else { return };
    if !is_numbered(&sub.channel) {
        write_resumption(&mut told, &name, CaughtUp::Nothing(Why::NotNumbered), None);
        return call.effects.push(Effect::Send(told));
    }
    let now = call.venue.now();
    let (epoch, has_history) = (call.state.replay.epoch, call.state.replay.has_history);
    let buffer = call.state.replay.open(account, now);
    let mut stands = buffer.last.token(epoch);
    sub.stands = Some(stands);
    let venue = VenueView { engine: call.venue.engine(), views: call.venue.views() };
    let (caught_up, messages) = match token {
        None => (CaughtUp::Nothing(Why::New), Vec::new()),
        Some(token) if token.epoch != epoch && !(has_history && token.epoch < epoch) => {
            (CaughtUp::Nothing(Why::OtherEpoch), Vec::new())
        }
        Some(token) if token.epoch == epoch && ReplayPosition::of(token) > buffer.last => {
            (CaughtUp::Nothing(Why::Unknown), Vec::new())
        }
        Some(_) if *room == 0 => (CaughtUp::Nothing(Why::TooMuch), Vec::new()),
        Some(token) if token.epoch == epoch && ReplayPosition::of(token) >= buffer.first => {
            let messages = from_replay(&name, sub, buffer, (venue, account), token);
            // What waits for the end of a window has been fetched as well.
            let (bytes, orders) = sub.collected();
            *room = room.saturating_sub(bytes + orders * ORDER_BYTES);
            if sub.awaits() {
                // The end of the window tells it, and a better token.
                stands = token;
            }
            (CaughtUp::Messages, messages)
        }
        Some(token) => {
            let why = if token.epoch == epoch { Why::TooOld } else { Why::OtherEpoch };
            let mut looked = HISTORY_BYTES;
            let history = from_history(&name, sub, (venue, account), token.number, &mut looked);
            *room = room.saturating_sub(looked);
            history.map_or((CaughtUp::Nothing(why), Vec::new()), |(is_whole, messages)| {
                (CaughtUp::History(if is_whole { why } else { Why::TooMuch }), messages)
            })
        }
    };
    *room = room.saturating_sub(messages.iter().map(Vec::len).sum());
    call.effects.extend(messages.into_iter().map(Effect::Send));
    write_resumption(&mut told, &name, caught_up, Some(stands));
    call.effects.push(Effect::Send(told));
}

/// What came after a place. A merged channel collects it for the end of its window.
fn from_replay(
    name: &str,
    sub: &mut PrivateSubscription,
    buffer: &ReplayBuffer,
    (venue, account): (VenueView<'_>, AccountId),
    token: Token,
) -> Vec<Vec<u8>> {
    let missed = buffer.after(ReplayPosition::of(token)).filter(|entry| tells(&sub.channel, entry, venue.engine));
    let (is_raw, is_changes) = (sub.is_sent_from_replay(), matches!(sub.channel, Channel::UserChanges { .. }));
    if is_raw && !is_changes {
        return missed.map(|entry| message(name, entry, Some(token.epoch))).collect();
    }
    let missed: Vec<&ReplayEntry> = missed.collect();
    missed.into_iter().for_each(|entry| sub.collect(entry));
    let mut messages = Vec::new();
    if is_raw {
        venue.tell_changes(name, sub, account, &mut |text| messages.push(text.to_vec()));
    }
    messages
}

/// What has happened since a token's time, as far as the account's book goes back; whether that is all. An account
/// without a book has no history.
fn from_history(
    name: &str,
    sub: &mut PrivateSubscription,
    (venue, account): (VenueView<'_>, AccountId),
    since: u64,
    looked: &mut usize,
) -> Option<(bool, Vec<Vec<u8>>)> {
    let book = venue.views.account(account)?;
    Some(match &sub.channel {
        Channel::UserTrades { scope, .. } => {
            let (fills, is_whole) = fills_since(book, scope, venue.engine, since);
            (is_whole, fills.chunks(A_MESSAGE).map(|fills| fills_message(name, fills, venue.engine)).collect())
        }
        Channel::UserOrders { scope, interval } => {
            let (orders, is_whole) = orders_since(book, scope, venue.engine, since, looked);
            let is_raw = *interval == Interval::Raw;
            let messages = orders.iter().filter_map(|order| order_message(name, order, is_raw, venue.engine));
            (is_whole, messages.collect())
        }
        Channel::UserChanges { scope, .. } => {
            let (fills, has_all_fills) = fills_since(book, scope, venue.engine, since);
            let (orders, has_all_orders) = orders_since(book, scope, venue.engine, since, looked);
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
    looked: &mut usize,
) -> (Vec<&'b OrderRecord>, bool) {
    // Closed ones stand in the order in which they have closed.
    let closed = book.closed_orders().rev().take_while(|order| order.updated.0 >= since);
    let closed = closed.inspect(|_| *looked += LOOKED_BYTES);
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
    let mut out = Vec::new();
    write_notification(&mut out, name, |j| {
        j.array(|j| {
            for fill in fills {
                if let Some(market) = engine.market(fill.instrument) {
                    objects::user_trade(j, &market.spec, fill, engine.currencies());
                }
            }
        });
    });
    out
}

fn order_message(name: &str, order: &OrderRecord, is_raw: bool, engine: &Engine) -> Option<Vec<u8>> {
    let market = engine.market(order.instrument)?;
    let mut out = Vec::new();
    write_notification(&mut out, name, |j| {
        let moment = order_moment(engine, order);
        if is_raw {
            objects::order(j, &market.spec, order, moment);
        } else {
            j.array(|j| objects::order(j, &market.spec, order, moment));
        }
    });
    Some(out)
}

/// For each instrument a message of up to so many fills, and of as many orders; told at once by merged channels too.
fn changes_messages(
    name: &str,
    sub: &mut PrivateSubscription,
    (venue, account): (VenueView<'_>, AccountId),
    fills: &[&UserTrade],
    orders: &[&OrderRecord],
) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut send = |text: &[u8]| messages.push(text.to_vec());
    // Without tokens: what they tell is not of this epoch's numbering.
    let stands = sub.stands.take();
    for fills in fills.chunks(A_MESSAGE) {
        fills.iter().for_each(|fill| venue.collect_change(sub, fill));
        venue.tell_changes(name, sub, account, &mut send);
    }
    for orders in orders.chunks(A_MESSAGE) {
        for order in orders {
            sub.changes.entry(order.instrument).or_default().orders.insert(order.id);
        }
        venue.tell_changes(name, sub, account, &mut send);
    }
    sub.stands = stands;
    messages
}
