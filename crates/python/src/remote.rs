//! A connection to a running venue.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use pitwire_client::{Credentials, Error, Settings, Subscription, SubscriptionEvent, VenueConnection};
use pyo3::prelude::*;
use serde_json::value::RawValue;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Mutex, oneshot};

use crate::errors::{ErrorType, check_signals, error, invalid};
use crate::exclusive::Exclusive;

/// Interval of checks for signals while a call waits.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Further wait after the time limit of the client has passed.
const GRACE: Duration = Duration::from_secs(5);
/// Name of the thread of a connection.
const THREAD: &str = "pitwire-connection";
/// Notices that one call returns at most.
const MAX_NOTICES: usize = 10_000;

struct Remote {
    connection: VenueConnection,
    handle: Handle,
    notices: Option<Arc<Mutex<Subscription>>>,
    timeout: Duration,
    /// Ends the thread of the connection when it is dropped.
    _end: oneshot::Sender<()>,
}

/// A connection to the JSON-RPC dialect of a venue. A thread keeps it alive between calls. With
/// agents, each call names the agent that it is from.
#[pyclass(frozen, module = "pitwire._native")]
pub struct Connection {
    remote: Exclusive<Remote>,
}

/// The text of an answer, or the exception that it means.
type Answer = Result<Box<RawValue>, Error>;

/// Runs a future on the thread of the connection, and waits without the interpreter's lock.
fn wait<T: Send + 'static>(
    py: Python<'_>,
    handle: &Handle,
    timeout: Duration,
    future: impl Future<Output = T> + Send + 'static,
) -> PyResult<T> {
    if std::thread::current().name() == Some(THREAD) {
        let remedy = "call the venue from your own thread, not in a callback of a future";
        return Err(error(py, ErrorType::VenueBusy, "the thread of the connection would wait for itself", remedy));
    }
    let (sender, mut receiver) = std::sync::mpsc::channel();
    handle.spawn(async move {
        // The receiver is gone if the caller was interrupted.
        let _ = sender.send(future.await);
    });
    let mut left = timeout + GRACE;
    loop {
        let received;
        (receiver, received) = py.detach(move || {
            let received = receiver.recv_timeout(SIGNAL_CHECK_INTERVAL);
            (receiver, received)
        });
        match received {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) if left > SIGNAL_CHECK_INTERVAL => left -= SIGNAL_CHECK_INTERVAL,
            Err(_) => {
                let remedy = "look whether the call took effect, and connect again";
                return Err(error(py, ErrorType::CallUnanswered, "the connection gave no answer", remedy));
            }
        }
        check_signals(py, || "a call was interrupted before its answer, and may take effect".into())?;
    }
}

fn raise(py: Python<'_>, failed: &Error) -> PyErr {
    let class = match failed {
        Error::Venue(_) => ErrorType::CallRefused,
        Error::Url { .. } => ErrorType::InvalidValue,
        Error::Unanswered { .. } | Error::Garbled { .. } => ErrorType::CallUnanswered,
        _ => ErrorType::ConnectionFailed,
    };
    let remedy = match failed {
        Error::Unreachable { .. } => "start the venue (pitwire up), or check the URL".into(),
        Error::Url { .. } => "write ws://HOST:PORT/ws/api/v2, or wss:// for TLS".into(),
        Error::Tls { .. } => "give the certificate of the venue's authority as authority=FILE".into(),
        Error::Handshake { .. } => "check the path of the URL; the dialect's is /ws/api/v2".into(),
        Error::Unanswered { .. } => "look at Venue.orders() before you send the order again".into(),
        other => other.remedy(),
    };
    let remedy = if remedy.is_empty() { "look up the code in docs/dialect.md".into() } else { remedy };
    let raised = error(py, class, failed.to_string(), &remedy);
    if let Error::Venue(refusal) = failed {
        let reason = refusal.data.reason.as_ref().unwrap_or(&refusal.message);
        let value = raised.value(py);
        let set = value.setattr("code", refusal.code).and_then(|()| value.setattr("reason", reason));
        if let Err(error) = set {
            return error;
        }
    }
    raised
}

/// Converts an answer to its text, or to the exception that it means.
fn object(py: Python<'_>, answer: Answer) -> PyResult<Py<PyAny>> {
    match answer {
        Ok(result) => Ok(result.get().into_pyobject(py)?.into_any().unbind()),
        Err(failed) => Ok(raise(py, &failed).into_value(py).into_any()),
    }
}

fn parameters(py: Python<'_>, text: String) -> PyResult<Box<RawValue>> {
    RawValue::from_string(text)
        .map_err(|wrong| invalid(py, format!("the parameters are not JSON: {wrong}"), "pass the text of an object"))
}

#[pymethods]
impl Connection {
    #[new]
    #[pyo3(signature = (url, key, secret, authority, timeout_s, agents))]
    fn new(
        py: Python<'_>,
        url: String,
        key: Option<String>,
        secret: Option<String>,
        authority: Option<PathBuf>,
        timeout_s: f64,
        agents: Vec<(String, String)>,
    ) -> PyResult<Self> {
        let credentials = match (key, secret) {
            (Some(key), Some(secret)) => Some(Credentials::new(key, secret)),
            (None, None) => None,
            _ => return Err(invalid(py, "only one of key and secret is given", "give both, or none of them")),
        };
        let timeout = Duration::try_from_secs_f64(timeout_s)
            .ok()
            .filter(|timeout| (0.001..=86_400.0).contains(&timeout.as_secs_f64()))
            .ok_or_else(|| invalid(py, format!("timeout_s is {timeout_s}"), "use seconds from 0.001 to 86400"))?;
        let has_login = credentials.is_some();
        let agents: Vec<_> = agents.into_iter().map(|(key, secret)| Credentials::new(key, secret)).collect();
        let settings = Settings { credentials, agents, authority, timeout, ..Settings::new(url) };
        // One call for each login.
        let patience = timeout * u32::try_from(1 + settings.agents.len()).unwrap_or(u32::MAX);
        let failed = |cause: std::io::Error| {
            let what = format!("cannot start the thread of the connection: {cause}");
            error(py, ErrorType::ConnectionFailed, what, "close other connections or processes")
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(THREAD.into());
        thread.spawn(move || drop(runtime.block_on(ended))).map_err(failed)?;
        let open = async move {
            if !settings.agents.is_empty() {
                let (connection, notices) = VenueConnection::open_for_agents(settings).await?;
                return Ok((connection, Some(notices)));
            }
            let connection = VenueConnection::open(settings).await?;
            let notices = match has_login {
                true => Some(connection.subscribe("user.changes.any.any.raw").await?),
                false => None,
            };
            Ok::<_, Error>((connection, notices))
        };
        let opened = wait(py, &handle, patience, open)?;
        let (connection, notices) = opened.map_err(|failed| raise(py, &failed))?;
        let notices = notices.map(|notices| Arc::new(Mutex::new(notices)));
        let remote = Remote { connection, handle, notices, timeout, _end: end };
        Ok(Connection { remote: Exclusive::new(remote) })
    }

    /// Sends one call and returns the text of its result.
    fn call(&self, py: Python<'_>, agent: Option<usize>, method: String, params: String) -> PyResult<String> {
        let params = parameters(py, params)?;
        self.remote.with(py, |remote| {
            let connection = remote.connection.clone();
            let call = async move { connection.call_as(agent, &method, &params).await };
            let answer: Answer = wait(py, &remote.handle, remote.timeout, call)?;
            answer.map(|result| result.get().into()).map_err(|failed| raise(py, &failed))
        })
    }

    /// Sends one call and returns at once. The thread of the connection calls `done` with the text
    /// of the result, or with its exception.
    fn start(
        &self,
        py: Python<'_>,
        agent: Option<usize>,
        method: String,
        params: String,
        done: Py<PyAny>,
    ) -> PyResult<()> {
        let params = parameters(py, params)?;
        self.remote.with(py, |remote| {
            let connection = remote.connection.clone();
            remote.handle.spawn(async move {
                let answer = connection.call_as(agent, &method, &params).await;
                // Without an interpreter, nothing waits for the answer.
                Python::try_attach(|py| {
                    if let Err(raised) = object(py, answer).and_then(|answer| done.call1(py, (answer,))) {
                        raised.write_unraisable(py, None);
                    }
                });
            });
            Ok(())
        })
    }

    /// Sends calls without waiting in between. Returns the text of each result, or its exception.
    fn call_many(&self, py: Python<'_>, calls: Vec<(Option<usize>, String, String)>) -> PyResult<Vec<Py<PyAny>>> {
        let calls = calls.into_iter().map(|(agent, method, params)| Ok((agent, method, parameters(py, params)?)));
        let calls = calls.collect::<PyResult<Vec<_>>>()?;
        self.remote.with(py, |remote| {
            let connection = remote.connection.clone();
            let work = async move {
                let mut tasks = Vec::with_capacity(calls.len());
                for (agent, method, params) in calls {
                    let connection = connection.clone();
                    tasks.push(tokio::spawn(async move { connection.call_as(agent, &method, &params).await }));
                }
                let mut answers: Vec<Answer> = Vec::with_capacity(tasks.len());
                for task in tasks {
                    let cause = || Error::Lost { cause: "the connection has ended".into() };
                    answers.push(task.await.unwrap_or_else(|_| Err(cause())));
                }
                answers
            };
            let answers = wait(py, &remote.handle, remote.timeout, work)?;
            answers.into_iter().map(|answer| object(py, answer)).collect()
        })
    }

    /// Returns the notices of the account that have arrived, and how many were lost before them.
    /// A `None` marks a new start of the subscription, before which notices may be missing.
    fn notices(&self, py: Python<'_>) -> PyResult<(Vec<Option<String>>, u64)> {
        self.remote.with(py, |remote| {
            let Some(notices) = remote.notices.clone() else {
                return Err(invalid(py, "a connection without a login has no events", "connect with key and secret"));
            };
            let take = async move {
                let mut notices = notices.lock().await;
                let (mut taken, mut lost) = (Vec::new(), 0);
                while taken.len() < MAX_NOTICES {
                    match tokio::time::timeout(Duration::ZERO, notices.next()).await {
                        Ok(SubscriptionEvent::Notice(notice)) => taken.push(Some(notice.data.get().to_owned())),
                        Ok(SubscriptionEvent::Lost { messages }) => lost += messages,
                        Ok(SubscriptionEvent::Restarted) => taken.push(None),
                        Ok(SubscriptionEvent::Ended { .. }) | Err(_) => break,
                    }
                }
                (taken, lost)
            };
            wait(py, &remote.handle, remote.timeout, take)
        })
    }

    #[getter]
    fn is_open(&self) -> bool {
        self.remote.is_open()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.remote.take(py).map(drop)
    }
}
