//! The task of a connection: it owns the socket, sends calls, matches answers, and reconnects.

use std::borrow::Cow;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::{Sink, Stream};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::command::{AnswerSink, CallProgress, CallResult, ConnectionCommand, QueuedCall};
use crate::message::{ServerMessage, call_text, raw};
use crate::pause::GrowingPause;
use crate::queue::{Notice, NoticeQueue, SubscriptionEvent};
use crate::transport::{self, Socket, TrafficCounters};
use crate::{Error, Reconnect, Settings};

/// Channels per request to subscribe. Their names must fit into one frame of 32 KiB.
const CHANNELS_PER_REQUEST: usize = 200;
/// Silent heartbeat intervals after which a socket counts as dead.
const SILENT_INTERVALS: u32 = 3;
/// Requests in a row without an answer after which a socket counts as dead, although it still
/// brings messages of channels.
const UNANSWERED_MAX: u32 = 3;
const TICK: Duration = Duration::from_millis(500);
/// The channel of all agents.
const AGENT_CHANNEL: &str = "user.changes.any.any.raw";
/// Lifetime of the access tokens of agents, and the time after which the connection asks for
/// others. It opens another socket for that.
const TOKEN_LIFE: Duration = Duration::from_secs(7 * 86_400);
const TOKEN_USE: Duration = Duration::from_secs(6 * 86_400);
/// The venue's code for a call above a rate limit. The call was not executed.
pub(crate) const TOO_MANY_REQUESTS: i64 = 10028;
/// Commands that one write sends at most.
const COMMANDS_PER_WRITE: usize = 64;

/// State of a connection, as its handles see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Logged in and subscribed. `connections` is the number of sockets opened so far.
    Ready { connections: u64 },
    /// The socket has failed, and the connection tries to open another one.
    Reconnecting { cause: String },
    /// The connection has ended and will not return.
    Ended { cause: String },
}

/// A sent request without an answer yet.
struct SentRequest {
    sent_at: Instant,
    pending: AnswerUse,
}

/// The use of an answer.
enum AnswerUse {
    Call { method: Cow<'static, str>, answer: AnswerSink },
    Subscribe { channel: String, queue: Arc<NoticeQueue>, answer: oneshot::Sender<Result<(), Error>> },
    Refresh { channel: String },
    Ignored,
}

pub(crate) struct Driver {
    settings: Settings,
    state: watch::Sender<ConnectionState>,
    clock_offset_us: Arc<AtomicI64>,
    traffic: Arc<TrafficCounters>,
    /// Access tokens of the agents, in the order of [`Settings::agents`].
    tokens: Vec<String>,
    logged_in_at: Instant,
    pending: HashMap<u64, SentRequest>,
    channels: HashMap<String, Arc<NoticeQueue>>,
    next_id: u64,
    connections: u64,
    has_unsent: bool,
    /// End of the polling after the last call.
    spin_until: Instant,
    last_received: Instant,
    /// Overdue requests since the last answer.
    unanswered: u32,
    /// Received bytes at `last_received`. A long answer arrives in many parts, which count too.
    noted_bytes: u64,
}

/// Why a socket is served no longer.
enum SocketEnd {
    /// Every handle is gone.
    NoHandles,
    Lost(Error),
}

#[derive(Serialize)]
struct Channels<'a> {
    channels: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    access_token: Option<String>,
}

#[derive(Serialize)]
struct NoParams {}

impl Driver {
    pub fn new(
        settings: Settings,
        state: watch::Sender<ConnectionState>,
        clock_offset_us: Arc<AtomicI64>,
        traffic: Arc<TrafficCounters>,
    ) -> Self {
        Driver {
            settings,
            state,
            clock_offset_us,
            traffic,
            tokens: Vec::new(),
            logged_in_at: Instant::now(),
            pending: HashMap::new(),
            channels: HashMap::new(),
            next_id: 1,
            connections: 0,
            has_unsent: false,
            spin_until: Instant::now(),
            last_received: Instant::now(),
            unanswered: 0,
            noted_bytes: 0,
        }
    }

    /// Puts the messages of all agents into a queue. Returns the name of their channel.
    pub fn follow_agents(&mut self, queue: Option<Arc<NoticeQueue>>) -> String {
        self.channels.extend(queue.map(|queue| (AGENT_CHANNEL.to_owned(), queue)));
        AGENT_CHANNEL.into()
    }

    /// Opens a socket, logs in, and subscribes to every channel again.
    ///
    /// # Errors
    ///
    /// Returns an error if the venue cannot be reached, or refuses the login or a channel.
    pub async fn connect(&mut self) -> Result<Socket, Error> {
        let mut socket = transport::open(&self.settings, &self.traffic).await?;
        self.has_unsent = false;
        self.unanswered = 0;
        self.note_received();
        let credentials = self.settings.credentials.clone().filter(|_| self.settings.agents.is_empty());
        if credentials.is_some() || !self.settings.agents.is_empty() {
            // The answer carries the venue's clock. The signature uses it, so that a wrong clock of
            // this machine does not prevent the login. Some venues do not know the method.
            let hello = serde_json::json!({"client_name": "pitwire", "client_version": env!("CARGO_PKG_VERSION")});
            match self.ask(&mut socket, "public/hello", &hello).await {
                Ok(_) | Err(Error::Venue(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.log_in_agents(&mut socket).await?;
        if let Some(credentials) = credentials {
            let offset_us = self.clock_offset_us.load(Ordering::Relaxed);
            let signed = credentials.signed(offset_us / 1000).map_err(Error::Login)?;
            self.ask(&mut socket, "public/auth", &signed).await?;
            if self.settings.cancel_on_disconnect {
                let scope = serde_json::json!({"scope": "connection"});
                self.ask(&mut socket, "private/enable_cancel_on_disconnect", &scope).await?;
            }
        }
        if let Some(heartbeat) = self.settings.heartbeat {
            let interval = serde_json::json!({"interval": heartbeat.as_secs().max(10)});
            match self.ask(&mut socket, "public/set_heartbeat", &interval).await {
                Ok(_) | Err(Error::Venue(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.subscribe_again(&mut socket).await?;
        self.connections += 1;
        self.state.send_replace(ConnectionState::Ready { connections: self.connections });
        Ok(socket)
    }

    /// Logs in every agent. Must come before the first subscription: the venue ends the private
    /// channels of an account when another one logs in on the connection.
    async fn log_in_agents(&mut self, socket: &mut Socket) -> Result<(), Error> {
        #[derive(Deserialize)]
        struct LoginGrant {
            access_token: String,
        }
        self.tokens.clear();
        for credentials in self.settings.agents.clone() {
            let granted = loop {
                let offset_us = self.clock_offset_us.load(Ordering::Relaxed);
                let signed = credentials.signed(offset_us / 1000).map_err(Error::Login)?;
                match self.ask(socket, "public/auth", &signed.lasting(TOKEN_LIFE.as_secs())).await {
                    Err(Error::Venue(refusal)) if refusal.code == TOO_MANY_REQUESTS => {
                        sleep(Duration::from_millis(refusal.data.retry_after_ms.unwrap_or(1_000).clamp(1, 10_000)))
                            .await;
                    }
                    granted => break granted?,
                }
            };
            let granted: LoginGrant = serde_json::from_str(granted.get())
                .map_err(|error| Error::Garbled { what: format!("public/auth: {error}") })?;
            self.tokens.push(granted.access_token);
        }
        self.logged_in_at = Instant::now();
        Ok(())
    }

    async fn subscribe_again(&mut self, socket: &mut Socket) -> Result<(), Error> {
        let (private, public): (Vec<String>, Vec<String>) =
            self.channels.keys().cloned().partition(|channel| is_private(channel));
        for channels in public.chunks(CHANNELS_PER_REQUEST).chain(private.chunks(CHANNELS_PER_REQUEST)) {
            // The events precede the messages that the venue may send before its answer.
            for channel in channels {
                self.channels[channel].push(SubscriptionEvent::Restarted);
            }
            let tokens: Vec<Option<String>> = if is_private(&channels[0]) && !self.tokens.is_empty() {
                self.tokens.iter().cloned().map(Some).collect()
            } else {
                vec![None]
            };
            for access_token in tokens {
                let params = Channels { channels, access_token };
                let granted = self.ask(socket, method(&channels[0], "subscribe"), &params).await?;
                let granted: Vec<String> = serde_json::from_str(granted.get()).unwrap_or_default();
                for channel in channels.iter().filter(|channel| !granted.contains(channel)) {
                    self.end_channel(channel, format!("the venue has no channel {channel}"));
                }
            }
        }
        Ok(())
    }

    /// Serves the socket and its successors until every handle is gone or the connection ends.
    pub async fn run(mut self, mut socket: Socket, mut commands: mpsc::Receiver<ConnectionCommand>) {
        let cause = 'sockets: loop {
            let error = match self.serve(&mut socket, &mut commands).await {
                SocketEnd::NoHandles => {
                    drop(timeout(TICK, socket.close(None)).await);
                    break "the connection was closed by its user".to_owned();
                }
                SocketEnd::Lost(error) => error,
            };
            // A venue that still sends must notice the end now, not when another socket is open.
            drop(socket);
            self.fail_pending(&error.to_string());
            let Reconnect::WithPauses { first, longest } = self.settings.reconnect else { break error.to_string() };
            let mut pause = GrowingPause::new(first, longest);
            let mut cause = error.to_string();
            socket = loop {
                self.state.send_replace(ConnectionState::Reconnecting { cause });
                sleep(pause.next()).await;
                if commands.is_closed() && commands.is_empty() {
                    break 'sockets "the connection was closed by its user".to_owned();
                }
                match self.connect().await {
                    Ok(opened) => break opened,
                    // Repeating a login with wrong credentials would lock the account out.
                    Err(error) if error.is_final() => break 'sockets error.to_string(),
                    Err(error) => cause = error.to_string(),
                }
            };
        };
        self.state.send_replace(ConnectionState::Ended { cause: cause.clone() });
        for (_, queue) in self.channels.drain() {
            queue.end(cause.clone());
        }
    }

    async fn serve(&mut self, socket: &mut Socket, commands: &mut mpsc::Receiver<ConnectionCommand>) -> SocketEnd {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let has_unsent = self.has_unsent;
            let done = tokio::select! {
                event = std::future::poll_fn(|cx| poll_socket(socket, &mut self.has_unsent, cx)) => {
                    self.receive(socket, event)
                }
                // While the socket takes no more bytes, the commands wait in their queue.
                command = commands.recv(), if !has_unsent => match command {
                    Some(command) => self.execute_waiting(socket, command, commands),
                    None => return SocketEnd::NoHandles,
                },
                _ = ticks.tick() => self.check(socket),
                // The event loop looks at its sockets before the next turn of this task.
                () = yield_now(), if Instant::now() < self.spin_until => Ok(()),
            };
            if let Err(error) = done {
                return SocketEnd::Lost(error);
            }
        }
    }

    /// Executes a command and the waiting commands behind it, so that one write sends them all.
    fn execute_waiting(
        &mut self,
        socket: &mut Socket,
        first: ConnectionCommand,
        commands: &mut mpsc::Receiver<ConnectionCommand>,
    ) -> Result<(), Error> {
        self.execute(socket, first)?;
        for _ in 1..COMMANDS_PER_WRITE {
            let Ok(command) = commands.try_recv() else { break };
            self.execute(socket, command)?;
        }
        Ok(())
    }

    fn execute(&mut self, socket: &mut Socket, command: ConnectionCommand) -> Result<(), Error> {
        match command {
            ConnectionCommand::Call(call) => {
                if !call.answer.begin_sending() {
                    return Ok(());
                }
                let params = match call.agent.map(|agent| self.with_token(agent, &call)) {
                    None => call.params,
                    Some(Ok(params)) => params,
                    Some(Err(error)) => {
                        call.answer.send(Err(error));
                        return Ok(());
                    }
                };
                let text = self.next_text(&call.method, &params)?;
                self.send_text(socket, text, AnswerUse::Call { method: call.method, answer: call.answer })
            }
            ConnectionCommand::Subscribe { channel, queue, answer } => {
                if is_private(&channel) && !self.settings.agents.is_empty() {
                    drop(answer.send(Err(Error::AlreadySubscribed { channel })));
                    return Ok(());
                }
                if let Some(present) = self.channels.get(&channel) {
                    if present.has_reader() {
                        drop(answer.send(Err(Error::AlreadySubscribed { channel })));
                        return Ok(());
                    }
                    self.unsubscribe(socket, &channel)?;
                }
                // Messages may precede the answer, so the queue must be known before.
                self.channels.insert(channel.clone(), Arc::clone(&queue));
                let name = method(&channel, "subscribe");
                let params = raw_channels(&channel)?;
                self.send(socket, name, &params, AnswerUse::Subscribe { channel, queue, answer })
            }
            ConnectionCommand::Unsubscribe { channel } => {
                if self.channels.get(&channel).is_some_and(|queue| !queue.has_reader()) {
                    self.unsubscribe(socket, &channel)?;
                }
                Ok(())
            }
            ConnectionCommand::Refresh { channel } => {
                let params = raw_channels(&channel)?;
                self.send(socket, method(&channel, "unsubscribe"), &params, AnswerUse::Ignored)?;
                self.send(socket, method(&channel, "subscribe"), &params, AnswerUse::Refresh { channel })
            }
        }
    }

    /// Returns the parameters of a call with the access token of an agent.
    fn with_token(&self, agent: usize, call: &QueuedCall) -> Result<Box<RawValue>, Error> {
        let not_sent = |cause: &str| Error::NotSent { method: call.method.to_string(), cause: cause.into() };
        let token = self.tokens.get(agent).ok_or_else(|| not_sent("there is no such agent"))?;
        let token = raw(token).map_err(|error| Error::Garbled { what: error.to_string() })?;
        let fields = call.params.get().trim().strip_prefix('{').map(str::trim_start);
        let fields = fields.ok_or_else(|| not_sent("the parameters of an agent's call must be an object"))?;
        let comma = if fields.starts_with('}') { "" } else { "," };
        RawValue::from_string(format!("{{\"access_token\":{}{comma}{fields}", token.get()))
            .map_err(|error| Error::Garbled { what: error.to_string() })
    }

    fn unsubscribe(&mut self, socket: &mut Socket, channel: &str) -> Result<(), Error> {
        self.channels.remove(channel);
        let params = raw_channels(channel)?;
        self.send(socket, method(channel, "unsubscribe"), &params, AnswerUse::Ignored)
    }

    fn send(&mut self, socket: &mut Socket, method: &str, params: &RawValue, pending: AnswerUse) -> Result<(), Error> {
        let text = self.next_text(method, params)?;
        self.send_text(socket, text, pending)
    }

    /// Returns the text of the next call.
    fn next_text(&self, method: &str, params: &RawValue) -> Result<String, Error> {
        call_text(self.next_id, method, params).map_err(|error| Error::Garbled { what: error.to_string() })
    }

    fn send_text(&mut self, socket: &mut Socket, text: String, pending: AnswerUse) -> Result<(), Error> {
        let sent_at = Instant::now();
        self.spin_until = sent_at + self.settings.spin;
        self.pending.insert(self.next_id, SentRequest { sent_at, pending });
        self.next_id += 1;
        self.has_unsent = true;
        Pin::new(socket).start_send(Message::text(text)).map_err(|error| lost(&error))
    }

    /// Sends a request during the start of a socket and waits for its answer.
    async fn ask<P: Serialize>(&mut self, socket: &mut Socket, method: &str, params: &P) -> CallResult {
        let params = raw(params).map_err(|error| Error::Garbled { what: error.to_string() })?;
        let (answer, mut answered) = oneshot::channel();
        let answer = AnswerSink::Caller { progress: CallProgress::default(), answer };
        self.send(socket, method, &params, AnswerUse::Call { method: method.to_owned().into(), answer })?;
        let patience = self.settings.timeout;
        let unanswered = Error::Unanswered { method: method.into(), cause: format!("nothing in {patience:?}") };
        let work = async {
            loop {
                let event = std::future::poll_fn(|cx| poll_socket(socket, &mut self.has_unsent, cx)).await;
                self.receive(socket, event)?;
                if let Ok(result) = answered.try_recv() {
                    return result;
                }
            }
        };
        timeout(patience, work).await.unwrap_or(Err(unanswered))
    }

    fn receive(&mut self, socket: &mut Socket, event: SocketEvent) -> Result<(), Error> {
        let SocketEvent::Received(message) = event else { return Ok(()) };
        self.note_received();
        let closed = |cause: String| Error::Lost { cause };
        match message {
            Some(Ok(Message::Text(text))) => self.receive_text(socket, &text),
            Some(Ok(Message::Close(Some(frame)))) => {
                Err(closed(format!("the venue closed the connection with {} {}", frame.code, frame.reason)))
            }
            Some(Ok(Message::Close(None))) | None => Err(closed("the venue closed the connection".into())),
            // The pong is queued already. The dialect has no binary frames.
            Some(Ok(_)) => {
                self.has_unsent = true;
                Ok(())
            }
            Some(Err(error)) => Err(lost(&error)),
        }
    }

    fn receive_text(&mut self, socket: &mut Socket, text: &str) -> Result<(), Error> {
        let received: ServerMessage<'_> =
            serde_json::from_str(text).map_err(|error| Error::Garbled { what: error.to_string() })?;
        if let Some(sent_us) = received.sent_us {
            self.clock_offset_us.store(sent_us - wall_clock_us(), Ordering::Relaxed);
        }
        if let Some(id) = received.id() {
            // A second or late answer has no pending request. It is ignored.
            if let Some(SentRequest { pending, .. }) = self.pending.remove(&id) {
                self.unanswered = 0;
                let result = match (received.result, received.error) {
                    (_, Some(refusal)) => Err(Error::Venue(refusal)),
                    (Some(result), None) => Ok(result.to_owned()),
                    (None, None) => Err(Error::Garbled { what: "it has neither result nor error".into() }),
                };
                self.answer(pending, result);
            }
            return Ok(());
        }
        if received.is_test_request() {
            let params = raw(&NoParams {}).map_err(|error| Error::Garbled { what: error.to_string() })?;
            return self.send(socket, "public/test", &params, AnswerUse::Ignored);
        }
        if received.method.as_deref() == Some("subscription")
            && let Some(params) = received.params
            && let (Some(channel), Some(data)) = (params.channel, params.data)
            && let Some(queue) = self.channels.get(&*channel)
        {
            queue.push(SubscriptionEvent::Notice(Notice { data: data.to_owned(), received_at: self.last_received }));
        }
        Ok(())
    }

    fn answer(&mut self, pending: AnswerUse, result: CallResult) {
        let grants = |result: &CallResult, channel: &String| match result {
            Ok(granted) => serde_json::from_str::<Vec<String>>(granted.get()).is_ok_and(|all| all.contains(channel)),
            Err(_) => false,
        };
        match pending {
            AnswerUse::Call { answer, .. } => answer.send(result),
            AnswerUse::Subscribe { channel, queue, answer } => {
                if grants(&result, &channel) {
                    drop(answer.send(Ok(())));
                    return;
                }
                if self.channels.get(&channel).is_some_and(|present| Arc::ptr_eq(present, &queue)) {
                    self.channels.remove(&channel);
                }
                drop(answer.send(Err(result.err().unwrap_or(Error::NoChannel { channel }))));
            }
            AnswerUse::Refresh { channel } => {
                if grants(&result, &channel) {
                    if let Some(queue) = self.channels.get(&channel) {
                        queue.push(SubscriptionEvent::Restarted);
                    }
                } else {
                    self.end_channel(&channel, format!("the venue ended the channel {channel}"));
                }
            }
            AnswerUse::Ignored => {}
        }
    }

    fn end_channel(&mut self, channel: &str, reason: String) {
        if let Some(queue) = self.channels.remove(channel) {
            queue.end(reason);
        }
    }

    fn note_received(&mut self) {
        self.last_received = Instant::now();
        self.noted_bytes = self.traffic.traffic().received_bytes;
    }

    /// Drops what no caller waits for, and finds a dead socket.
    fn check(&mut self, socket: &mut Socket) -> Result<(), Error> {
        if self.traffic.traffic().received_bytes != self.noted_bytes {
            self.note_received();
        }
        let (patience, last_received) = (self.settings.timeout, self.last_received);
        let is_overdue = |request: &SentRequest| request.sent_at.elapsed() > patience;
        if self.pending.values().any(|request| is_overdue(request) && last_received < request.sent_at) {
            let cause = format!("the venue sent nothing for {patience:?} after a request");
            return Err(Error::Lost { cause });
        }
        // A caller gives up at about the time when its request is overdue.
        let before = self.pending.len();
        self.pending.retain(|_, request| {
            let is_overdue = is_overdue(request);
            let has_caller = match &mut request.pending {
                AnswerUse::Call { answer: AnswerSink::Caller { answer, .. }, .. } => !answer.is_closed(),
                AnswerUse::Call { method, answer: AnswerSink::Pipeline(sink) } => {
                    if is_overdue {
                        let cause = format!("nothing in {patience:?}");
                        sink.send(Err(Error::Unanswered { method: method.to_string(), cause }));
                    }
                    false
                }
                AnswerUse::Subscribe { answer, .. } => !answer.is_closed(),
                AnswerUse::Refresh { .. } | AnswerUse::Ignored => false,
            };
            has_caller || !is_overdue
        });
        let overdue = u32::try_from(before - self.pending.len()).unwrap_or(u32::MAX);
        self.unanswered = self.unanswered.saturating_add(overdue);
        if self.unanswered >= UNANSWERED_MAX {
            let cause = format!("the venue left {} requests in a row without an answer", self.unanswered);
            return Err(Error::Lost { cause });
        }
        let unread: Vec<String> =
            self.channels.iter().filter(|(_, queue)| !queue.has_reader()).map(|(channel, _)| channel.clone()).collect();
        for channel in unread {
            self.unsubscribe(socket, &channel)?;
        }
        if !self.tokens.is_empty() && self.logged_in_at.elapsed() > TOKEN_USE {
            return Err(Error::Lost { cause: "the access tokens of the agents are about to expire".into() });
        }
        match self.settings.heartbeat {
            Some(heartbeat) if self.last_received.elapsed() > heartbeat * SILENT_INTERVALS => Err(Error::Lost {
                cause: format!("the venue sent nothing for {} s", (heartbeat * SILENT_INTERVALS).as_secs()),
            }),
            _ => Ok(()),
        }
    }

    fn fail_pending(&mut self, cause: &str) {
        for (_, SentRequest { pending, .. }) in std::mem::take(&mut self.pending) {
            let unanswered = |method: &str| Error::Unanswered { method: method.into(), cause: cause.into() };
            match pending {
                AnswerUse::Call { method, answer } => answer.send(Err(unanswered(&method))),
                AnswerUse::Subscribe { channel, answer, .. } => {
                    self.channels.remove(&channel);
                    drop(answer.send(Err(unanswered("public/subscribe"))));
                }
                AnswerUse::Refresh { .. } | AnswerUse::Ignored => {}
            }
        }
    }
}

/// An event of a socket.
enum SocketEvent {
    /// Everything has been sent, so that commands can continue.
    Flushed,
    /// `None` is the end of the stream.
    Received(Option<Result<Message, tungstenite::Error>>),
}

/// Sends waiting bytes and reads the next message.
fn poll_socket(socket: &mut Socket, has_unsent: &mut bool, cx: &mut Context<'_>) -> Poll<SocketEvent> {
    if *has_unsent {
        match Pin::new(&mut *socket).poll_flush(cx) {
            Poll::Ready(Ok(())) => {
                *has_unsent = false;
                return Poll::Ready(SocketEvent::Flushed);
            }
            Poll::Ready(Err(error)) => return Poll::Ready(SocketEvent::Received(Some(Err(error)))),
            Poll::Pending => {}
        }
    }
    Pin::new(socket).poll_next(cx).map(SocketEvent::Received)
}

fn lost(error: &tungstenite::Error) -> Error {
    match error {
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            Error::Lost { cause: "the venue closed the connection".into() }
        }
        error => Error::Lost { cause: error.to_string() },
    }
}

pub(crate) fn is_private(channel: &str) -> bool {
    channel.starts_with("user.") || channel.starts_with("drop_copy.")
}

fn method(channel: &str, verb: &str) -> &'static str {
    match (is_private(channel), verb) {
        (true, "subscribe") => "private/subscribe",
        (true, _) => "private/unsubscribe",
        (false, "subscribe") => "public/subscribe",
        (false, _) => "public/unsubscribe",
    }
}

fn raw_channels(channel: &str) -> Result<Box<RawValue>, Error> {
    raw(&Channels { channels: &[channel.to_owned()], access_token: None })
        .map_err(|error| Error::Garbled { what: error.to_string() })
}

/// Wall clock of this machine in microseconds since 1970.
pub(crate) fn wall_clock_us() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX)
}
