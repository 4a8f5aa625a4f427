//! Accounts' own channels for those who come back: `user.orders` and `user.trades`.
//!
//! Does        tell each message with its token; say what was missed, from the diary or else from the account's history.
//! Holds       1. of one epoch exactly what was missed is told, in order, as far as the diary reaches;
//!             2. else every fill and every order that has changed since the token's time, as they stand now: a fill or an
//!                order of that very nanosecond may be told again, none is left out without a word.
//! Start at    [`Session::tell_resumed`], [`come_back`].

use pitwire_engine::Engine;
use pitwire_jsonrpc::{
    CaughtUp, Channel, Interval, Scope, Token, Why, objects, write_notification, write_numbered, write_resumption,
};
use pitwire_model::{AccountId, InstrumentId, VenueNanos};
use pitwire_views::AccountBook;

use crate::desk::{Call, Desk, Effect};
use crate::diary::{Diary, Entry, Pages, Place, What};
use crate::methods::trading::moment_of;
use crate::notices::covers;
use crate::session::{PrivateSubscription, Session};

/// Most bytes of missed messages that one request fetches of public channels, and of private ones.
pub const RESUMED_BYTES: usize = 1024 * 1024;
/// How long what those may come back to who have gone is written on, in venue time.
pub const RESUMABLE_NS: u64 = 120_000_000_000;
/// What a look into an account's history takes of that at least: it goes through all its orders.
const HISTORY_BYTES: usize = 128 * 1024;
/// What an order that waits for the end of a window counts as.
const ORDER_BYTES: usize = 512;
/// Most fills, and most orders, that are told from history, and most of one message.
const HISTORY_MOST: usize = 1_000;
const FILLS_A_MESSAGE: usize = 100;

impl Desk {
    /// The start that tokens are of, and whether what earlier ones have told is in this venue's history.
    pub fn begin_epoch(&mut self, epoch: u64, remembers: bool) {
        self.diary.epoch = epoch;
        self.diary.remembers = remembers;
    }

    /// Takes in what commands have changed, for those who will come back. Before any session is told.
    pub fn record(&mut self, engine: &Engine, views: &pitwire_views::Views, changes: &[pitwire_views::Change]) {
        self.diary.record(engine, views, changes);
    }

    /// Tells a session's resumable channels what was recorded: `send` gets each message.
    pub fn tell_resumed(&self, session: &mut Session, engine: &Engine, send: &mut dyn FnMut(&[u8])) {
        session.tell_resumed(&self.diary, engine, send);
    }

    /// Every now and then: these sessions are all there are.
    pub fn keep_diaries<'a>(&mut self, sessions: impl Iterator<Item = &'a Session>, now: VenueNanos) {
        self.diary.keep(sessions.flat_map(Session::accounts_resumable), now);
    }
}

impl Session {
    fn accounts_resumable(&self) -> impl Iterator<Item = AccountId> {
        let resumable = self.private.iter().filter(|(_, subs)| subs.values().any(|sub| sub.stands.is_some()));
        resumable.map(|(account, _)| *account)
    }

    fn tell_resumed(&mut self, diary: &Diary, engine: &Engine, send: &mut dyn FnMut(&[u8])) {
        for (account, subs) in &mut self.private {
            let Some(pages) = diary.of(*account) else { continue };
            let Some(from) = subs.values().filter_map(|sub| sub.stands).map(Place::of).min() else { continue };
            // Fills come before the state they lead to: by place, and then by channel.
            for entry in pages.after(from) {
                for (name, sub) in subs.iter() {
                    let is_new = sub.stands.is_some_and(|stands| entry.place > Place::of(stands));
                    if is_new && sub.is_told_from_diary() && tells(&sub.channel, entry, engine) {
                        send(&message(name, entry, diary.epoch));
                    }
                }
            }
            // What a merged channel has collected goes with the end of its window.
            for stands in subs.values_mut().filter_map(|sub| sub.stands.as_mut()) {
                *stands = pages.last.token(diary.epoch);
            }
        }
    }
}

fn message(name: &str, entry: &Entry, epoch: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write_numbered(&mut out, name, Some(entry.place.token(epoch)), |j| match entry.what {
        What::Fill => j.array(|j| j.raw(&entry.object).end()).end(),
        What::Order { .. } => j.raw(&entry.object).end(),
    });
    out
}

fn tells(channel: &Channel, entry: &Entry, engine: &Engine) -> bool {
    let scope = match (channel, entry.what) {
        (Channel::UserTrades { scope, .. }, What::Fill) | (Channel::UserOrders { scope, .. }, What::Order { .. }) => {
            scope
        }
        _ => return false,
    };
    is_covered(scope, entry.instrument, engine)
}

fn is_covered(scope: &Scope, instrument: InstrumentId, engine: &Engine) -> bool {
    engine.market(instrument).is_some_and(|market| covers(scope, &market.spec, engine))
}

/// Whether a channel's messages can be resumed by their place.
fn is_numbered(channel: &Channel) -> bool {
    matches!(channel, Channel::UserOrders { .. } | Channel::UserTrades { .. })
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
        return call.effects.push(Effect::Tell(told));
    }
    call.session.subscribe_private(account, &name, channel);
    let Some(sub) = call.session.private.get_mut(&account).and_then(|subs| subs.get_mut(&name)) else { return };
    if !is_numbered(&sub.channel) {
        write_resumption(&mut told, &name, CaughtUp::Nothing(Why::NotNumbered), None);
        return call.effects.push(Effect::Tell(told));
    }
    let now = call.venue.now();
    let (epoch, remembers) = (call.desk.diary.epoch, call.desk.diary.remembers);
    let pages = call.desk.diary.open(account, now);
    let mut stands = pages.last.token(epoch);
    sub.stands = Some(stands);
    let engine = call.venue.engine();
    let of_history = |sub: &PrivateSubscription, token: Token, why| {
        let book = call.venue.views().account(account);
        book.map_or((CaughtUp::Nothing(why), Vec::new()), |book| from_history(&name, sub, book, engine, token, why))
    };
    let (caught_up, messages) = match token {
        None => (CaughtUp::Nothing(Why::New), Vec::new()),
        Some(token) if token.epoch != epoch && !(remembers && token.epoch < epoch) => {
            (CaughtUp::Nothing(Why::OtherEpoch), Vec::new())
        }
        Some(token) if token.epoch == epoch && Place::of(token) > pages.last => {
            (CaughtUp::Nothing(Why::Unknown), Vec::new())
        }
        Some(_) if *room == 0 => (CaughtUp::Nothing(Why::TooMuch), Vec::new()),
        Some(token) if token.epoch == epoch && Place::of(token) >= pages.first => {
            let messages = from_diary(&name, sub, pages, engine, token);
            // What waits for the end of a window has been fetched as well.
            *room = room.saturating_sub(sub.trades.len() + sub.orders.len() * ORDER_BYTES);
            if sub.awaits() {
                // The end of the window tells it, and a better token.
                stands = token;
            }
            (CaughtUp::Messages, messages)
        }
        Some(token) => {
            let why = if token.epoch == epoch { Why::TooOld } else { Why::OtherEpoch };
            let (caught_up, messages) = of_history(sub, token, why);
            *room = room.saturating_sub(HISTORY_BYTES);
            (caught_up, messages)
        }
    };
    *room = room.saturating_sub(messages.iter().map(Vec::len).sum());
    call.effects.extend(messages.into_iter().map(Effect::Tell));
    write_resumption(&mut told, &name, caught_up, Some(stands));
    call.effects.push(Effect::Tell(told));
}

/// What came after a place. A merged channel collects it for the end of its window.
fn from_diary(name: &str, sub: &mut PrivateSubscription, pages: &Pages, engine: &Engine, token: Token) -> Vec<Vec<u8>> {
    let missed = pages.after(Place::of(token)).filter(|entry| tells(&sub.channel, entry, engine));
    if sub.channel.interval() == Interval::Raw {
        return missed.map(|entry| message(name, entry, token.epoch)).collect();
    }
    for entry in missed {
        match entry.what {
            What::Fill => {
                if !sub.trades.is_empty() {
                    sub.trades.push(b',');
                }
                sub.trades.extend_from_slice(&entry.object);
            }
            What::Order { id, .. } => drop(sub.orders.insert(id)),
        }
    }
    Vec::new()
}

/// What has happened since a token's time, as far as the account's book goes back.
fn from_history(
    name: &str,
    sub: &PrivateSubscription,
    book: &AccountBook,
    engine: &Engine,
    token: Token,
    why: Why,
) -> (CaughtUp, Vec<Vec<u8>>) {
    let since = token.number;
    let (messages, is_whole) = match &sub.channel {
        Channel::UserTrades { scope, .. } => fills_since(name, scope, book, engine, since),
        Channel::UserOrders { scope, interval } => orders_since(name, (scope, *interval), book, engine, since),
        _ => return (CaughtUp::Nothing(why), Vec::new()),
    };
    (CaughtUp::History(if is_whole { why } else { Why::TooMuch }), messages)
}

fn fills_since(name: &str, scope: &Scope, book: &AccountBook, engine: &Engine, since: u64) -> (Vec<Vec<u8>>, bool) {
    let later = book.trades().iter().rev().take_while(|fill| fill.trade.at.0 >= since);
    let mut fills: Vec<_> =
        later.filter(|fill| is_covered(scope, fill.instrument, engine)).take(HISTORY_MOST + 1).collect();
    let is_forgotten = book.trades().len() == AccountBook::TRADES
        && book.trades().front().is_some_and(|oldest| oldest.trade.at.0 >= since);
    let is_whole = fills.len() <= HISTORY_MOST && !is_forgotten;
    fills.truncate(HISTORY_MOST);
    fills.reverse();
    let write = |fills: &[&pitwire_views::UserTrade]| {
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
    };
    (fills.chunks(FILLS_A_MESSAGE).map(write).collect(), is_whole)
}

fn orders_since(
    name: &str,
    (scope, interval): (&Scope, Interval),
    book: &AccountBook,
    engine: &Engine,
    since: u64,
) -> (Vec<Vec<u8>>, bool) {
    // Closed ones stand in the order in which they have closed.
    let closed = book.closed_orders().rev().take_while(|order| order.updated.0 >= since);
    let closed = closed.filter(|order| is_covered(scope, order.instrument, engine)).take(HISTORY_MOST + 1);
    let open = book.open_orders().filter(|order| order.updated.0 >= since);
    let open = open.filter(|order| is_covered(scope, order.instrument, engine));
    let mut orders: Vec<_> = closed.chain(open).collect();
    orders.sort_by_key(|order| (order.updated, order.id));
    let mut closed = book.closed_orders();
    let is_forgotten = closed.next().is_some_and(|oldest| oldest.updated.0 >= since)
        && 1 + closed.count() >= AccountBook::CLOSED_ORDERS;
    let is_whole = orders.len() <= HISTORY_MOST && !is_forgotten;
    let messages = orders.iter().skip(orders.len().saturating_sub(HISTORY_MOST)).filter_map(|order| {
        let market = engine.market(order.instrument)?;
        let mut out = Vec::new();
        write_notification(&mut out, name, |j| {
            let moment = moment_of(engine, order);
            if interval == Interval::Raw {
                objects::order(j, &market.spec, order, moment);
            } else {
                j.array(|j| objects::order(j, &market.spec, order, moment));
            }
        });
        Some(out)
    });
    (messages.collect(), is_whole)
}
