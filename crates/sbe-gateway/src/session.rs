//! A session: one client's connection to the venue, and its numbered messages.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitwire_client::{Credentials, Error, Reconnect, Settings, Subscription, SubscriptionEvent, VenueConnection};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tracing::warn;

use crate::codec::DecodeError;
use crate::messages::*;
use crate::replay_log::ReplayLog;
use crate::translate::{self, AccountChanges, DialectCall, Instruments, OrderAnswer, OrderState, Rejection};

/// A session exists from the first logon of a client until the venue stops, so that reports reach
/// the log while the client is away.
pub(crate) struct SbeSession {
    venue: VenueConnection,
    instruments: Mutex<Arc<Instruments>>,
    log: Mutex<ReplayLog>,
    /// Number of the next message.
    next: watch::Sender<u64>,
    has_client: AtomicBool,
    has_ended: AtomicBool,
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
    pub async fn open(url: &str, credentials: Credentials) -> Result<Arc<Self>, Error> {
        let settings = Settings { credentials: Some(credentials), ..Settings::new(url) };
        let venue = VenueConnection::open(settings).await?;
        let reports = venue.subscribe("user.changes.any.any.raw").await?;
        let instruments = Mutex::new(Arc::new(list_instruments(&venue).await?));
        let session = Arc::new(SbeSession {
            venue,
            instruments,
            log: Mutex::new(ReplayLog::new()),
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
        self.has_client.store(false, Ordering::Relaxed);
    }

    /// Returns whether the venue has closed the session's connection for good.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    pub fn log(&self) -> MutexGuard<'_, ReplayLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the number of the next message. Also wakes its readers when the session ends.
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    fn publish(&self, message: impl Into<SbeMessage>) {
        let mut log = self.log();
        log.append(message.into());
        let next = log.next();
        drop(log);
        self.next.send_replace(next);
    }

    /// Refuses a message that cannot be decoded.
    pub fn refuse(&self, error: &DecodeError) {
        self.publish(Rejection::invalid(error.to_string()).reject(0, 0));
    }

    fn instruments(&self) -> Arc<Instruments> {
        Arc::clone(&self.instruments.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the list of instruments again, because operators create new ones. Returns the old list
    /// if the venue does not answer.
    async fn refresh_instruments(&self) -> Arc<Instruments> {
        match list_instruments(&self.venue).await {
            Ok(list) => *self.instruments.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(list),
            Err(error) => warn!(%error, "cannot read the list of instruments"),
        }
        self.instruments()
    }

    /// Executes one request and publishes its answer.
    pub async fn execute(&self, request: SbeMessage) {
        let template = request.template_id();
        let mut instruments = self.instruments();
        if request.instrument_id().is_some_and(|id| instruments.name(id).is_err()) {
            instruments = self.refresh_instruments().await;
        }
        let instruments = instruments.as_ref();
        let (request_id, answer) = match &request {
            SbeMessage::NewOrder(order) => {
                let answer = self.call(translate::new_order(order, instruments)).await;
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
                let answer = self.call(translate::market_query(query, instruments)).await;
                let message = |json: Box<RawValue>| translate::market_answer(query, json.get()).map_err(garbled);
                (query.request_id, answer.and_then(message))
            }
            _ => (0, Err(Rejection::invalid(format!("template id {template} is not a request of a logged-on client")))),
        };
        self.publish(answer.unwrap_or_else(|refusal| refusal.reject(request_id, template)));
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
