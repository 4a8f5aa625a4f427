//! The handle of a connection: calls and subscriptions.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep_until, timeout_at};

use crate::command::{AnswerSink, CallProgress, CallResult, ConnectionCommand, QueuedCall};
use crate::driver::{ConnectionState, Driver, TOO_MANY_REQUESTS, wall_clock_us};
use crate::message::raw;
use crate::pause::GrowingPause;
use crate::queue::{NoticeQueue, SubscriptionEvent};
use crate::transport::{Traffic, TrafficCounters};
use crate::{Error, Settings};

/// Commands that wait for the task of a connection. Above this bound the callers wait.
const WAITING_COMMANDS: usize = 1024;

/// One logical connection to a venue. Clones share its socket. The last clone closes it.
///
/// A task owns the socket. After a failure it opens another one, logs in, and subscribes to the
/// same channels. [`Settings::reconnect`] sets the pauses.
#[derive(Clone, Debug)]
pub struct VenueConnection {
    commands: mpsc::Sender<ConnectionCommand>,
    state: watch::Receiver<ConnectionState>,
    clock_offset_us: Arc<AtomicI64>,
    traffic: Arc<TrafficCounters>,
    limited_until: Arc<Mutex<Option<Instant>>>,
    timeout: Duration,
    check_interval: Option<Duration>,
    queue_bytes: usize,
}

impl VenueConnection {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// Fails if the venue cannot be reached, is not trusted, serves no WebSocket at the URL, or
    /// refuses the login.
    pub async fn open(settings: Settings) -> Result<Self, Error> {
        Ok(Self::open_with(settings, None).await?.0)
    }

    /// Connects and logs in every agent of [`Settings::agents`]. Returns the connection and the
    /// messages of `user.changes.any.any.raw` of all agents, whose orders have the `user_id` of
    /// their account. The connection has no other private channel. After a cut all agents log in
    /// and subscribe again.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::open`], also if the venue refuses the login of one agent.
    pub async fn open_for_agents(settings: Settings) -> Result<(Self, Subscription), Error> {
        let queue = Arc::new(NoticeQueue::new(settings.queue_bytes));
        let (connection, channel) = Self::open_with(settings, Some(Arc::clone(&queue))).await?;
        // Discards the event of the first subscription.
        queue.next().await;
        let commands = connection.commands.clone();
        Ok((connection, Subscription { channel, queue, commands }))
    }

    /// Opens a connection, with a queue for the messages of all agents. Returns the channel of the
    /// queue, too.
    async fn open_with(settings: Settings, queue: Option<Arc<NoticeQueue>>) -> Result<(Self, String), Error> {
        let (state, states) = watch::channel(ConnectionState::Reconnecting { cause: "not opened yet".into() });
        let (clock_offset_us, traffic) = (Arc::new(AtomicI64::new(0)), Arc::<TrafficCounters>::default());
        let (timeout, check_interval, queue_bytes) = (settings.timeout, settings.check_interval, settings.queue_bytes);
        let mut driver = Driver::new(settings, state, Arc::clone(&clock_offset_us), Arc::clone(&traffic));
        let channel = driver.follow_agents(queue);
        let socket = driver.connect().await?;
        let (commands, waiting) = mpsc::channel(WAITING_COMMANDS);
        tokio::spawn(driver.run(socket, waiting));
        let limited_until = Arc::new(Mutex::new(None));
        let connection = VenueConnection {
            commands,
            state: states,
            clock_offset_us,
            traffic,
            limited_until,
            timeout,
            check_interval,
            queue_bytes,
        };
        Ok((connection, channel))
    }

    /// Returns the state and follows its changes.
    pub fn state(&self) -> watch::Receiver<ConnectionState> {
        self.state.clone()
    }

    pub(crate) fn commands(&self) -> &mpsc::Sender<ConnectionCommand> {
        &self.commands
    }

    /// Returns [`Settings::timeout`].
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns [`Settings::check_interval`].
    pub(crate) fn check_interval(&self) -> Option<Duration> {
        self.check_interval
    }

    /// Returns the venue's wall clock in milliseconds since 1970, estimated from its last answer.
    pub fn venue_clock_ms(&self) -> i64 {
        (wall_clock_us() + self.clock_offset_us.load(Ordering::Relaxed)) / 1000
    }

    /// Returns the bytes that all sockets of this connection have sent and received.
    pub fn traffic(&self) -> Traffic {
        self.traffic.traffic()
    }

    /// Sends a call and waits for its answer. Returns the `result` as the venue sent it, so that no
    /// digit is lost. After an answer 10028 this call and later ones wait for as long as the venue
    /// demands, and the call is repeated.
    ///
    /// # Errors
    ///
    /// - [`Error::Venue`]: the venue refused the call.
    /// - [`Error::NotSent`]: the venue did not get the call; it can be repeated safely.
    /// - [`Error::Unanswered`], [`Error::Garbled`]: the venue may have executed the call.
    pub async fn call<P: Serialize + ?Sized>(&self, method: &str, params: &P) -> CallResult {
        self.call_as(None, method, params).await
    }

    /// Sends a call as [`VenueConnection::call`], with the login of the agent at an index of
    /// [`Settings::agents`].
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`]; [`Error::NotSent`] also for an unknown agent.
    pub async fn call_as<P: Serialize + ?Sized>(&self, agent: Option<usize>, method: &str, params: &P) -> CallResult {
        let params = raw(params).map_err(|error| Error::Garbled { what: error.to_string() })?;
        let deadline = Instant::now() + self.timeout;
        let mut pause = GrowingPause::new(Duration::from_millis(100), Duration::from_secs(5));
        loop {
            self.wait_for_rate_limit(method, deadline).await?;
            let refusal = match self.call_once(agent, method, params.clone(), deadline).await {
                Err(Error::Venue(refusal)) if refusal.code == TOO_MANY_REQUESTS => refusal,
                result => return result,
            };
            let wait = refusal.data.retry_after_ms.map_or_else(|| pause.next(), Duration::from_millis);
            let until = Instant::now() + wait.max(Duration::from_millis(1));
            if until >= deadline {
                return Err(Error::Venue(refusal));
            }
            let mut limited = self.limited_until.lock().unwrap_or_else(PoisonError::into_inner);
            *limited = limited.max(Some(until));
        }
    }

    /// Sends a call and parses its result.
    ///
    /// # Errors
    ///
    /// As [`VenueConnection::call`]; [`Error::Garbled`] also if the result has another form.
    pub async fn query<P: Serialize + ?Sized, R: DeserializeOwned>(
        &self,
        method: &str,
        params: &P,
    ) -> Result<R, Error> {
        let result = self.call(method, params).await?;
        serde_json::from_str(result.get()).map_err(|error| Error::Garbled { what: format!("{method}: {error}") })
    }

    async fn wait_for_rate_limit(&self, method: &str, deadline: Instant) -> Result<(), Error> {
        let limited = *self.limited_until.lock().unwrap_or_else(PoisonError::into_inner);
        match limited {
            Some(until) if until > deadline => Err(not_sent(method, "the venue's rate limit lasts longer")),
            Some(until) => {
                sleep_until(until.into()).await;
                Ok(())
            }
            None => Ok(()),
        }
    }

    async fn call_once(
        &self,
        agent: Option<usize>,
        method: &str,
        params: Box<RawValue>,
        deadline: Instant,
    ) -> CallResult {
        let progress = CallProgress::default();
        let (answer, mut answered) = oneshot::channel();
        let answer = AnswerSink::Caller { progress: progress.clone(), answer };
        let call = QueuedCall { agent, method: method.to_owned().into(), params, answer };
        let silent = || format!("nothing in {:?}", self.timeout);
        match timeout_at(deadline.into(), self.commands.send(ConnectionCommand::Call(call))).await {
            Err(_) => return Err(not_sent(method, "too many calls wait already")),
            Ok(Err(_)) => return Err(not_sent(method, &self.end_cause())),
            Ok(Ok(())) => {}
        }
        match timeout_at(deadline.into(), &mut answered).await {
            Ok(Ok(result)) => result,
            // The task ended with the call in its queue or in flight.
            Ok(Err(_)) if progress.abandon() => Err(not_sent(method, &self.end_cause())),
            Ok(Err(_)) => Err(Error::Unanswered { method: method.into(), cause: self.end_cause() }),
            Err(_) if progress.abandon() => Err(not_sent(method, "there was no connection")),
            Err(_) => Err(Error::Unanswered { method: method.into(), cause: silent() }),
        }
    }

    fn end_cause(&self) -> String {
        match &*self.state.borrow() {
            ConnectionState::Ended { cause } | ConnectionState::Reconnecting { cause } => cause.clone(),
            ConnectionState::Ready { .. } => "the connection has ended".into(),
        }
    }

    /// Subscribes to a channel. A connection has at most one subscription of a channel, because the
    /// venue sends each message once.
    ///
    /// # Errors
    ///
    /// Fails if the connection has the channel already, if the venue refuses it, or as a call does.
    pub async fn subscribe(&self, channel: &str) -> Result<Subscription, Error> {
        const METHOD: &str = "public/subscribe";
        let queue = Arc::new(NoticeQueue::new(self.queue_bytes));
        let (answer, answered) = oneshot::channel();
        let subscription =
            Subscription { channel: channel.into(), queue: Arc::clone(&queue), commands: self.commands.clone() };
        let command = ConnectionCommand::Subscribe { channel: channel.into(), queue, answer };
        let work = async {
            self.commands.send(command).await.map_err(|_| not_sent(METHOD, &self.end_cause()))?;
            answered.await.map_err(|_| not_sent(METHOD, &self.end_cause()))?
        };
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done.map(|()| subscription),
            Err(_) => Err(Error::Unanswered { method: METHOD.into(), cause: format!("nothing in {:?}", self.timeout) }),
        }
    }
}

fn not_sent(method: &str, cause: &str) -> Error {
    Error::NotSent { method: method.into(), cause: cause.into() }
}

/// The messages of one channel. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    channel: String,
    queue: Arc<NoticeQueue>,
    commands: mpsc::Sender<ConnectionCommand>,
}

impl Subscription {
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Waits for the next event. Dropping the future loses no event.
    pub async fn next(&mut self) -> SubscriptionEvent {
        self.queue.next().await
    }

    /// Asks the venue for a new snapshot. [`SubscriptionEvent::Restarted`] precedes it.
    ///
    /// # Errors
    ///
    /// Fails if the connection has ended.
    pub async fn refresh(&self) -> Result<(), Error> {
        let command = ConnectionCommand::Refresh { channel: self.channel.clone() };
        self.commands.send(command).await.map_err(|_| not_sent("public/subscribe", "the connection has ended"))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.queue.leave();
        // If the queue of commands is full, the task finds the reader gone at its next check.
        drop(self.commands.try_send(ConnectionCommand::Unsubscribe { channel: self.channel.clone() }));
    }
}
