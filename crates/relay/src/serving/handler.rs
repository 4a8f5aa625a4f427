//! Requests of local clients: which channels they read, and from where.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use percent_encoding::percent_decode_str;
use pitwire_net::HttpResponse;
use pitwire_publisher::{DeliveryHandler, Request, SharedStatistics, StreamId, SubscriberId, SubscriberSetup, metrics};
use tokio::sync::mpsc::UnboundedSender;

/// Accepted query parameters.
const PARAMETERS: [&str; 2] = ["channels", "from"];

/// A request for the thread that numbers the messages.
#[derive(Debug)]
pub(crate) enum Job {
    /// A client begins. `from` is the epoch and number of the last message that it has of its only
    /// channel.
    Join { client: SubscriberId, channels: Vec<usize>, from: Option<(u64, u64)> },
    /// A client has lost the messages after number `read`, because it was slow.
    Behind { client: SubscriberId, stream: StreamId, read: u64 },
}

/// The channels and the position that a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct ChannelQuery {
    channels: Vec<usize>,
    from: Option<(u64, u64)>,
}

pub(crate) struct RelayHandler {
    names: BTreeMap<String, usize>,
    jobs: UnboundedSender<Job>,
    is_connected: Arc<AtomicBool>,
    statistics: OnceLock<Arc<SharedStatistics>>,
}

impl RelayHandler {
    pub fn new(names: &[String], jobs: UnboundedSender<Job>, is_connected: Arc<AtomicBool>) -> Self {
        let names = names.iter().enumerate().map(|(number, name)| (name.clone(), number)).collect();
        RelayHandler { names, jobs, is_connected, statistics: OnceLock::new() }
    }

    pub fn set_statistics(&self, statistics: Arc<SharedStatistics>) {
        // The publisher starts once.
        let _ = self.statistics.set(statistics);
    }

    fn channel_query(&self, request: &Request<'_>) -> Result<ChannelQuery, HttpResponse> {
        for pair in request.query().split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split_once('=').map_or(pair, |(name, _)| name);
            if !PARAMETERS.contains(&name) {
                let shown: String = name.chars().take(32).collect();
                return Err(HttpResponse::text(
                    400,
                    &format!("there is no {shown:?} here; there is {}", PARAMETERS.join(", ")),
                ));
            }
        }
        let path = decoded(request.path().trim_start_matches('/'));
        let names: Vec<String> = match request.parameter("channels") {
            Some(_) if !path.is_empty() => {
                return Err(HttpResponse::text(400, "name the channels by the path or by channels=, not both"));
            }
            Some(list) => list.split(',').map(decoded).collect(),
            None if path.is_empty() => self.names.keys().cloned().collect(),
            None => vec![path],
        };
        let mut channels = Vec::new();
        for name in names {
            let Some(number) = self.names.get(&name) else {
                let all: Vec<&str> = self.names.keys().map(String::as_str).collect();
                return Err(HttpResponse::text(404, &format!("no such channel; there is {}", all.join(", "))));
            };
            if !channels.contains(number) {
                channels.push(*number);
            }
        }
        let from = match request.parameter("from") {
            None => None,
            Some(_) if channels.len() > 1 => return Err(HttpResponse::text(400, "from needs exactly one channel")),
            Some(text) => match position(&decoded(text)) {
                Some(from) => Some(from),
                None => return Err(HttpResponse::text(400, "from is EPOCH:SEQ, two whole numbers")),
            },
        };
        Ok(ChannelQuery { channels, from })
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn position(text: &str) -> Option<(u64, u64)> {
    let (epoch, seq) = text.split_once(':')?;
    Some((epoch.parse().ok()?, seq.parse().ok()?))
}

impl DeliveryHandler for RelayHandler {
    fn open(&self, request: &Request<'_>) -> Result<SubscriberSetup, HttpResponse> {
        self.channel_query(request).map(|_| SubscriberSetup::default())
    }

    fn opened(&self, client: SubscriberId, request: &Request<'_>) {
        if let Ok(ChannelQuery { channels, from }) = self.channel_query(request) {
            // A closed queue is the end of the relay.
            drop(self.jobs.send(Job::Join { client, channels, from }));
        }
    }

    fn behind(&self, client: SubscriberId, stream: StreamId, read: u64) {
        drop(self.jobs.send(Job::Behind { client, stream, read }));
    }

    fn http(&self, request: &Request<'_>) -> HttpResponse {
        match request.path() {
            "/healthz" => {
                let is_connected = self.is_connected.load(Ordering::Relaxed);
                let (status, word) = if is_connected { (200, "ok") } else { (503, "upstream is away") };
                HttpResponse::new(status, "application/json", format!("{{\"status\":\"{word}\"}}\n").into_bytes())
            }
            "/metrics" => {
                let threads = self.statistics.get().map(|statistics| statistics.all()).unwrap_or_default();
                HttpResponse::new(
                    200,
                    "text/plain; version=0.0.4; charset=utf-8",
                    metrics("pitwire_relay", threads.iter()).into_bytes(),
                )
            }
            _ => HttpResponse::text(426, "a WebSocket is served here; /metrics and /healthz are plain"),
        }
    }
}
