//! A session: one client's connection to the venue, and its numbered messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitwire_client::{Credentials, Error, Reconnect, Settings, Subscription, SubscriptionEvent, VenueConnection};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::messages::*;
use crate::profile::{ClientFrames, ClientMessage, Profile, PublicSink, Refusal, SessionProfile};
use crate::replay_log::ReplayLog;
use crate::translate::{self, AccountChanges, DialectCall, Instruments, OrderAnswer, OrderState, Rejection};

/// A session exists from the first logon of a client until the venue stops, so that reports reach
/// the log while the client is away.
pub(crate) struct SbeSession {
    profile: Box<dyn SessionProfile>,
    venue: VenueConnection,
    instruments: Mutex<Arc<Instruments>>,
    log: Mutex<ReplayLog>,
    unnumbered: Mutex<UnnumberedQueue>,
    /// Tasks that follow the public data of an instrument for the connected client.
    public: tokio::sync::Mutex<BTreeMap<u32, JoinHandle<()>>>,
    /// Number of the next message. Each new frame sends it.
    next: watch::Sender<u64>,
    has_client: AtomicBool,
    has_ended: AtomicBool,
}

/// Bound of the frames without number that wait for the client, in bytes.
const UNNUMBERED_BYTES: usize = 4 << 20;

/// Frames without number that wait for the connected client.
#[derive(Debug, Default)]
pub(crate) struct UnnumberedQueue {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Frames were discarded above the bound, so the connection must end.
    pub has_overflowed: bool,
}

impl UnnumberedQueue {
    fn push(&mut self, frame: Vec<u8>) {
        if self.bytes + frame.len() > UNNUMBERED_BYTES {
            self.has_overflowed = true;
        } else {
            self.bytes += frame.len();
            self.frames.push_back(frame);
        }
    }

    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn list_instruments(venue: &VenueConnection) -> Result<Instruments, Error> {
    let entries = venue.query("public/get_instruments", &serde_json::json!({"currency": "any"})).await?;
    Ok(Instruments::of(entries))
}

/// Settings of a connection that checks a login and is then closed.
fn login_settings(url: &str, credentials: Credentials) -> Settings {
    Settings { credentials: Some(credentials), reconnect: Reconnect::Never, heartbeat: None, ..Settings::new(url) }
}

/// Checks a client id and its secret at the venue.
///
/// # Errors
///
/// Fails if the venue refuses the login or cannot be reached.
pub(crate) async fn check_login(url: &str, credentials: Credentials) -> Result<(), Error> {
    VenueConnection::open(login_settings(url, credentials)).await.map(drop)
}

impl SbeSession {
    /// Logs in at the venue and subscribes to the reports of the account.
    ///
    /// # Errors
    ///
    /// Fails if the venue refuses the login or cannot be reached.
    pub async fn open(url: &str, credentials: Credentials, profile: &dyn Profile) -> Result<Arc<Self>, Error> {
        let profile = profile.open(&credentials.client_id);
        let settings = Settings { credentials: Some(credentials), ..Settings::new(url) };
        let venue = VenueConnection::open(settings).await?;
        let reports = venue.subscribe("user.changes.any.any.raw").await?;
        let instruments = Mutex::new(Arc::new(list_instruments(&venue).await?));
        if profile.wants_open_orders() {
            let orders: Vec<OrderState> = venue.query("private/get_open_orders", &serde_json::json!({})).await?;
            for order in &orders {
                profile.observe_open_order(order);
            }
        }
        let session = Arc::new(SbeSession {
            profile,
            venue,
            instruments,
            log: Mutex::new(ReplayLog::new()),
            unnumbered: Mutex::default(),
            public: tokio::sync::Mutex::default(),
            next: watch::Sender::new(1),
            has_client: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
        });
        tokio::spawn(follow_reports(Arc::clone(&session), reports));
        Ok(session)
    }

    /// Claims the session for a client. Returns `false` if a client has it already.
    pub fn claim(&self) -> bool {
        !self.has_client.swap(true, Ordering::Relaxed)
    }

    pub fn release(&self) {
        *self.unnumbered() = UnnumberedQueue::default();
        self.has_client.store(false, Ordering::Relaxed);
    }

    /// Returns whether the venue has closed the session's connection for good.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    pub fn log(&self) -> MutexGuard<'_, ReplayLog> {
        lock(&self.log)
    }

    pub fn unnumbered(&self) -> MutexGuard<'_, UnnumberedQueue> {
        lock(&self.unnumbered)
    }

    /// Decodes a message of the client.
    ///
    /// # Errors
    ///
    /// Fails if the message is malformed, or if it is none of a client.
    pub fn decode(&self, frame: &[u8]) -> Result<ClientMessage, Refusal> {
        let next = self.log().next();
        self.profile.decode(frame, next)
    }

    /// Returns the frames that precede the messages of a retransmission.
    pub fn acknowledge_retransmit(&self) -> Vec<u8> {
        self.profile.acknowledge_retransmit()
    }

    /// Encodes a message of the session protocol, which has no number.
    pub fn encode(&self, message: impl Into<SbeMessage>) -> Vec<u8> {
        match self.profile.encode(message.into(), 0) {
            ClientFrames::Numbered(frames) | ClientFrames::Unnumbered(frames) => frames,
            ClientFrames::Nothing => Vec::new(),
        }
    }

    /// Follows the number of the next message. Also wakes its readers when the session ends.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    fn publish(&self, message: impl Into<SbeMessage>) {
        let mut log = self.log();
        match self.profile.encode(message.into(), log.next()) {
            ClientFrames::Numbered(frames) => log.append(frames),
            ClientFrames::Unnumbered(frames) => {
                drop(log);
                return self.push(frames);
            }
            ClientFrames::Nothing => return,
        }
        let next = log.next();
        drop(log);
        self.next.send_replace(next);
    }

    /// Starts or ends the public data of an instrument.
    ///
    /// # Errors
    ///
    /// Fails if no instrument has the number, or if the schema cannot express its prices.
    pub async fn follow_public(self: &Arc<Self>, instrument_id: u32, is_wanted: bool) -> Result<(), Rejection> {
        let instruments = self.instruments_with(Some(instrument_id)).await;
        let name = instruments.name(instrument_id)?;
        self.check_instrument(&instruments, Some(instrument_id))?;
        let mut following = self.public.lock().await;
        if is_wanted && !following.contains_key(&instrument_id) {
            let sink = Arc::clone(self) as Arc<dyn PublicSink>;
            let follow = self.profile.follow_public(sink, name.to_owned(), instrument_id);
            following.insert(instrument_id, tokio::spawn(follow));
        } else if !is_wanted && let Some(task) = following.remove(&instrument_id) {
            task.abort();
            // The end of the task unsubscribes, which must precede a new subscription.
            drop(task.await);
        }
        Ok(())
    }

    /// Checks whether the schema can express an instrument, if it exists.
    fn check_instrument(&self, instruments: &Instruments, id: Option<u32>) -> Result<(), Rejection> {
        match id.and_then(|id| instruments.steps(id)) {
            Some((tick, lot)) => self.profile.check_instrument(tick, lot),
            None => Ok(()),
        }
    }

    /// Ends the public data, and executes the requests that the profile has left for the end of the
    /// connection.
    pub async fn end_connection(&self) {
        for (_, task) in std::mem::take(&mut *self.public.lock().await) {
            task.abort();
            drop(task.await);
        }
        for request in self.profile.end_connection() {
            self.execute(request).await;
        }
    }

    fn instruments(&self) -> Arc<Instruments> {
        Arc::clone(&lock(&self.instruments))
    }

    /// Returns the instruments. Reads the list again if it does not have the given one.
    async fn instruments_with(&self, id: Option<u32>) -> Arc<Instruments> {
        let instruments = self.instruments();
        match id {
            Some(id) if instruments.name(id).is_err() => self.refresh_instruments().await,
            _ => instruments,
        }
    }

    /// Reads the list of instruments again, because operators create new ones. Returns the old list
    /// if the venue does not answer.
    async fn refresh_instruments(&self) -> Arc<Instruments> {
        match list_instruments(&self.venue).await {
            Ok(list) => *lock(&self.instruments) = Arc::new(list),
            Err(error) => warn!(%error, "cannot read the list of instruments"),
        }
        self.instruments()
    }

    /// Executes one request and publishes its answer.
    pub async fn execute(&self, request: SbeMessage) {
        let mut next = Some(request);
        while let Some(request) = next {
            let answer = self.answer(request).await;
            next = self.profile.undo(&answer);
            self.publish(answer);
        }
    }

    async fn answer(&self, request: SbeMessage) -> SbeMessage {
        let template = request.template_id();
        let instruments = self.instruments_with(request.instrument_id()).await;
        let instruments = instruments.as_ref();
        let check = self.check_instrument(instruments, request.instrument_id());
        let (request_id, answer) = match &request {
            SbeMessage::NewOrder(order) => {
                let call = check.and_then(|()| translate::new_order(order, instruments));
                let answer = self.call(call).await;
                (order.request_id, answer.and_then(|json| entered(order.request_id, &json)))
            }
            SbeMessage::AmendOrder(order) => {
                let answer = self.call(Ok(translate::amend(order))).await;
                (order.request_id, answer.and_then(|json| entered(order.request_id, &json)))
            }
            SbeMessage::CancelOrder(order) => {
                let answer = self.call(Ok(translate::cancel(order))).await;
                (order.request_id, answer.and_then(|json| accepted(order.request_id, &parse(&json)?)))
            }
            SbeMessage::MassCancel(cancel) => {
                let request_id = cancel.request_id;
                let answer = self.call(translate::mass_cancel(cancel, instruments)).await;
                let cancelled = answer.and_then(|json| parse(&json));
                (
                    request_id,
                    cancelled.map(|count| MassCancelAccepted { sequence: 0, request_id, cancelled: count }.into()),
                )
            }
            SbeMessage::MarketQuery(query) => {
                let answer = self.call(check.and_then(|()| translate::market_query(query, instruments))).await;
                let message = |json: Box<RawValue>| translate::market_answer(query, json.get()).map_err(garbled);
                (query.request_id, answer.and_then(message))
            }
            _ => {
                let reason = format!("template id {template} is not a request of a logged-on client");
                (0, Err(Rejection::invalid(reason, "Send the requests that docs/sbe.md lists.")))
            }
        };
        answer.unwrap_or_else(|refusal| refusal.reject(request_id, template))
    }

    async fn call(&self, call: Result<DialectCall, Rejection>) -> Result<Box<RawValue>, Rejection> {
        let DialectCall { method, params } = call?;
        Ok(self.venue.call(method, &params).await?)
    }

    async fn report(&self, changes: &AccountChanges) {
        let (mut reports, mut lost) = changes.reports(&self.instruments());
        if lost > 0 {
            let instruments = self.refresh_instruments().await;
            (reports, lost) = changes.reports(&instruments);
        }
        for report in reports {
            self.publish(report);
        }
        if lost > 0 {
            self.publish(ReportsLost { sequence: 0, count: lost });
        }
    }
}

impl PublicSink for SbeSession {
    fn venue(&self) -> &VenueConnection {
        &self.venue
    }

    /// Without a client the frames are discarded.
    fn push(&self, frames: Vec<u8>) {
        if self.has_client.load(Ordering::Relaxed) && !frames.is_empty() {
            self.unnumbered().push(frames);
            self.next.send_modify(|_| {});
        }
    }

    /// Refuses a message before it is executed.
    fn refuse(&self, refusal: Refusal) {
        let Refusal { request_id, template_id, rejection } = refusal;
        self.publish(rejection.reject(request_id, template_id));
    }
}

fn garbled(what: impl std::fmt::Display) -> Rejection {
    Error::Garbled { what: what.to_string() }.into()
}

fn parse<T: serde::de::DeserializeOwned>(json: &RawValue) -> Result<T, Rejection> {
    serde_json::from_str(json.get()).map_err(garbled)
}

fn entered(request_id: u64, json: &RawValue) -> Result<SbeMessage, Rejection> {
    accepted(request_id, &parse::<OrderAnswer>(json)?.order)
}

fn accepted(request_id: u64, order: &OrderState) -> Result<SbeMessage, Rejection> {
    order.accepted(request_id).ok_or_else(|| garbled("the order has no number"))
}

/// Publishes the reports of the account until the venue ends the session.
async fn follow_reports(session: Arc<SbeSession>, mut reports: Subscription) {
    loop {
        match reports.next().await {
            SubscriptionEvent::Notice(notice) => match serde_json::from_str(notice.data.get()) {
                Ok(changes) => session.report(&changes).await,
                Err(error) => {
                    warn!(%error, "cannot read a report of the venue");
                    session.publish(ReportsLost { sequence: 0, count: 1 });
                }
            },
            SubscriptionEvent::Lost { messages } => {
                session.publish(ReportsLost { sequence: 0, count: messages });
            }
            // The connection was interrupted, and the number of missing reports is unknown.
            SubscriptionEvent::Restarted => session.publish(ReportsLost { sequence: 0, count: 0 }),
            SubscriptionEvent::Ended { reason } => {
                warn!(reason, "the venue ended a session of binary order entry");
                session.has_ended.store(true, Ordering::Relaxed);
                session.next.send_modify(|_| {});
                return;
            }
        }
    }
}
