//! The loop of the screen: keys, messages of the venue, and drawing.

use std::io::stdout;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pitwire_client::{
    ConnectionState, Credentials, OrderBook, Settings, Subscription, SubscriptionEvent, Trader, VenueConnection,
};
use pitwire_client_commands::confirmation::ConfirmationBound;
use pitwire_failure::Failure;
use pitwire_terminal::output::has_colours;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::Event;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::draw::draw;
use crate::instrument::Instrument;
use crate::key_thread::KeyThread;
use crate::market_feed::{MarketEvent, MarketFeed};
use crate::messages::OwnTrade;
use crate::requests::{Requests, Update};
use crate::screen::{Action, Link, MessageKind, Screen};
use crate::terminal_guard::TerminalGuard;
use crate::theme::Theme;

/// Interval of round trips, queue positions and balances.
const POLL: Duration = Duration::from_secs(1);
/// Longest time without a drawing, so that the countdown moves.
const REDRAW: Duration = Duration::from_millis(500);
const OWN_TRADES: &str = "user.trades.any.any.raw";

/// What the screen is to show, and how.
#[derive(Debug)]
pub struct ScreenOptions {
    pub settings: Settings,
    pub credentials: Option<Credentials>,
    /// Time after which the venue refuses an order that it has not read yet.
    pub validity: Duration,
    pub cancel_on_disconnect: bool,
    /// Name of the first instrument. `None` chooses the first one that accepts orders.
    pub instrument: Option<String>,
    pub confirmation: ConfirmationBound,
    pub is_one_key: bool,
    /// Most drawings per second.
    pub frames_per_s: u32,
}

/// Both connections, before the screen is shown.
struct Session {
    requests: Requests,
    updates: mpsc::UnboundedReceiver<Update>,
    own_trades: Option<Subscription>,
    screen: Screen,
}

/// Connects, shows the screen, and serves it until the user quits.
///
/// # Errors
///
/// Fails if the venue cannot be reached or refuses the login, if the connection ends for good, or
/// if the terminal fails.
pub async fn run(options: ScreenOptions) -> Result<(), Failure> {
    let session = connect(&options).await?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&is_stopped))?;
    }
    let term = |name: &str| std::env::var(name).unwrap_or_default();
    let theme = Theme::of(has_colours(&stdout()), &term("TERM"), &term("COLORTERM"));
    let guard = TerminalGuard::enter().map_err(terminal_failure)?;
    let served = serve(session, &options, theme, &guard, &is_stopped).await;
    // The terminal is restored before the message is printed.
    drop(guard);
    served
}

fn terminal_failure(error: std::io::Error) -> Failure {
    Failure::new(format!("the terminal failed: {error}")).remedy("start it again in another terminal")
}

async fn connect(options: &ScreenOptions) -> Result<Session, Failure> {
    let data = VenueConnection::open(options.settings.clone()).await?;
    let answer = data.call("public/get_instruments", &json!({"currency": "any"})).await?;
    let unusable = |what| Failure::new(format!("the venue's instruments cannot be shown: {what}"));
    let instruments = Instrument::list(answer.get()).map_err(unusable)?;
    let selected = match &options.instrument {
        None => 0,
        Some(name) => instruments.iter().position(|instrument| instrument.name == *name).ok_or_else(|| {
            Failure::usage(format!("the venue has no instrument {name:?}")).remedy(format!(
                "choose one of its {} instruments, such as {}",
                instruments.len(),
                instruments[0].name
            ))
        })?,
    };
    let (mut trader, mut own_trades) = (None, None);
    if let Some(credentials) = &options.credentials {
        let settings = Settings {
            credentials: Some(credentials.clone()),
            cancel_on_disconnect: options.cancel_on_disconnect,
            ..options.settings.clone()
        };
        let opened = Trader::open(settings, options.validity).await?;
        own_trades = Some(opened.connection().subscribe(OWN_TRADES).await?);
        trader = Some(Arc::new(opened));
    }
    let client_id = options.credentials.as_ref().map(|credentials| credentials.client_id.as_str());
    let url = &options.settings.url;
    let venue = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest.split('/').next().unwrap_or(rest));
    let mut screen = Screen::new(venue, instruments, selected, client_id);
    screen.confirmation = options.confirmation.clone();
    screen.is_one_key = options.is_one_key;
    let (requests, updates) = Requests::new(data, trader);
    Ok(Session { requests, updates, own_trades, screen })
}

/// Waits for the next event of an optional source. A missing source never has one.
async fn next_of(subscription: &mut Option<Subscription>) -> SubscriptionEvent {
    match subscription {
        Some(subscription) => subscription.next().await,
        None => std::future::pending().await,
    }
}

async fn next_market(feed: &mut Option<Box<MarketFeed>>) -> Result<MarketEvent, pitwire_client::Error> {
    match feed {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

async fn serve(
    session: Session,
    options: &ScreenOptions,
    theme: Theme,
    guard: &TerminalGuard,
    is_stopped: &AtomicBool,
) -> Result<(), Failure> {
    let Session { requests, mut updates, mut own_trades, mut screen } = session;
    // Its drop shows the cursor, as the guard does, and panics if the terminal is gone.
    let terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(terminal_failure)?;
    let mut terminal = ManuallyDrop::new(terminal);
    let (_keys, mut events) = KeyThread::start().map_err(terminal_failure)?;
    let mut data_state = requests.data.state();
    let mut order_state = requests.trader.as_ref().map(|trader| trader.connection().state());
    let mut revision = requests.trader.as_ref().map(|trader| trader.revision());
    let mut feed: Option<Box<MarketFeed>> = None;
    let empty = OrderBook::default();
    let mut polls = interval(POLL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut frames = interval(Duration::from_secs(1) / options.frames_per_s.max(1));
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut must_draw = true;
    let mut drawn_at = Instant::now();
    // Whether the channels of the instrument are being opened.
    let mut is_opening = true;
    requests.open_market(screen.selected, &screen.instrument().name);
    if let Some(trader) = &requests.trader {
        screen.take_account(trader.open_orders(), trader.positions());
    }
    loop {
        tokio::select! {
            event = events.recv() => {
                let event = event.unwrap_or_else(|| Err(std::io::Error::other("no more keys arrive")));
                let book = feed.as_ref().map_or(&empty, |feed| feed.book());
                must_draw = true;
                let action = match event.map_err(terminal_failure)? {
                    Event::Key(key) => screen.press(key, book),
                    _ => None,
                };
                match action {
                    None => {}
                    Some(Action::Quit) => return Ok(()),
                    // `Terminal::clear` asks for the position of the cursor, and the key thread
                    // would read the answer.
                    Some(Action::Redraw) => {
                        let size = terminal.size().map_err(terminal_failure)?;
                        terminal.resize(size.into()).map_err(terminal_failure)?;
                    }
                    Some(Action::Select(index)) => {
                        feed = None;
                        screen.select(index);
                        if !is_opening {
                            is_opening = true;
                            requests.open_market(index, &screen.instrument().name);
                        }
                    }
                    Some(action) => requests.execute(action, &screen.instrument().name),
                }
            }
            event = next_market(&mut feed) => {
                match event {
                    Ok(event) => take_market_event(event, &mut screen, &requests),
                    Err(error) => {
                        feed = None;
                        take_market_fault(error, &mut screen);
                    }
                }
                must_draw = true;
            }
            Some(update) = updates.recv() => {
                if let Update::Market { index, feed: opened } = update {
                    feed = take_market(index, opened, &mut screen);
                    // The user may have chosen another instrument in the meantime.
                    is_opening = index != screen.selected;
                    if is_opening {
                        requests.open_market(screen.selected, &screen.instrument().name);
                    }
                } else {
                    take_update(update, &mut screen);
                }
                must_draw = true;
            }
            event = next_of(&mut own_trades) => {
                take_own_trades(event, &mut screen)?;
                must_draw = true;
            }
            () = changed(Some(&mut data_state)) => {
                screen.link = link(&data_state)?;
                must_draw = true;
            }
            () = changed(order_state.as_mut()) => {
                if let (Some(account), Some(state)) = (&mut screen.account, &order_state) {
                    account.link = link(state)?;
                }
                must_draw = true;
            }
            () = changed(revision.as_mut()) => {
                if let Some(trader) = &requests.trader {
                    screen.take_account(trader.open_orders(), trader.positions());
                }
                must_draw = true;
            }
            _ = polls.tick() => {
                requests.poll();
            }
            _ = frames.tick() => {
                if is_stopped.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if !guard.is_intact() {
                    return Err(Failure::new("a part of the screen has failed; your orders stay in the market")
                        .remedy("report the message above, and start it again"));
                }
                if must_draw || drawn_at.elapsed() >= REDRAW {
                    let book = feed.as_ref().map_or(&empty, |feed| feed.book());
                    drawn_at = Instant::now();
                    terminal
                        .draw(|frame| draw(frame, &mut screen, book, theme, drawn_at))
                        .map_err(terminal_failure)?;
                    must_draw = false;
                }
            }
        }
    }
}

/// Waits for a change. A missing or ended source never changes.
async fn changed<T>(receiver: Option<&mut watch::Receiver<T>>) {
    if let Some(receiver) = receiver
        && receiver.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Returns the state of a connection, or the failure that ended it.
fn link(state: &watch::Receiver<ConnectionState>) -> Result<Link, Failure> {
    let state = state.borrow();
    match &*state {
        ConnectionState::Ended { cause } => Err(ended(cause)),
        state => Ok(Link::from(state)),
    }
}

fn ended(cause: &str) -> Failure {
    Failure::new(format!("the connection ended: {cause}"))
        .remedy("start it again; your orders may still be in the market")
}

fn take_market(
    index: usize,
    opened: Result<Box<MarketFeed>, pitwire_client::Error>,
    screen: &mut Screen,
) -> Option<Box<MarketFeed>> {
    let now = Instant::now();
    match opened {
        Ok(mut feed) if index == screen.selected => {
            if let Some((trades, ticker)) = feed.take_first() {
                screen.take_trades(trades, None);
                screen.take_ticker(ticker, now);
            }
            Some(feed)
        }
        Err(error) if index == screen.selected => {
            take_market_fault(error, screen);
            None
        }
        Ok(_) | Err(_) => None,
    }
}

/// Reports that the channels of the instrument have ended. The connection may be up.
fn take_market_fault(error: pitwire_client::Error, screen: &mut Screen) {
    screen.note(MessageKind::Fault, &Failure::from(error).to_string());
    screen.book_changed(Some("no market data; choose the instrument again".into()), Instant::now());
}

fn take_market_event(event: MarketEvent, screen: &mut Screen, requests: &Requests) {
    let now = Instant::now();
    match event {
        MarketEvent::Book { fault } => screen.book_changed(fault, now),
        MarketEvent::Trades(trades) => screen.take_trades(trades, Some(now)),
        MarketEvent::Ticker(ticker) => screen.take_ticker(*ticker, now),
        MarketEvent::Gap => requests.reload_trades(screen.selected, &screen.instrument().name),
    }
}

fn take_update(update: Update, screen: &mut Screen) {
    match update {
        Update::Answer { took, result } => screen.take_answer(took, result),
        Update::Filled { took } => screen.order_latency.record(took),
        Update::Unknown { label } => {
            if let Some(account) = &mut screen.account {
                account.unknown.push(label);
            }
        }
        Update::Settled { label, result } => {
            if let Some(account) = &mut screen.account {
                account.unknown.retain(|unknown| *unknown != label);
            }
            screen.take_answer(None, result);
        }
        Update::Ping(took) => screen.ping_latency.record(took),
        Update::Balances(balances) => {
            if let Some(account) = &mut screen.account {
                account.balances = balances;
            }
        }
        Update::Trades { index, trades } if index == screen.selected => screen.take_trades(trades, None),
        // The user has chosen another instrument. The market is taken over elsewhere.
        Update::Trades { .. } | Update::Market { .. } => {}
    }
}

fn take_own_trades(event: SubscriptionEvent, screen: &mut Screen) -> Result<(), Failure> {
    match event {
        SubscriptionEvent::Notice(notice) => {
            let trades: Vec<OwnTrade> = serde_json::from_str(notice.data.get()).unwrap_or_default();
            trades.iter().for_each(|trade| screen.take_own_trade(trade));
        }
        SubscriptionEvent::Lost { messages } => {
            screen.note(MessageKind::Fault, &format!("{messages} notices of own trades were lost"));
        }
        SubscriptionEvent::Restarted => {}
        SubscriptionEvent::Ended { reason } => return Err(ended(&reason)),
    }
    Ok(())
}
