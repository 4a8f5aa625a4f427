//! Answers requests for the statistics of the splitter.
//!
//! Start at    [`MetricsApplication`].

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use pitwire_net::{Application, Closing, ConnectionId, HttpRequest, HttpResponse, Notices, Refusal};

use crate::http_responses;
use crate::metrics;
use crate::shared_stats::SharedStats;

/// Serves `/metrics` and `/healthz`.
pub(crate) struct MetricsApplication {
    stats: Arc<SharedStats>,
}

impl MetricsApplication {
    pub fn new(stats: Arc<SharedStats>) -> Self {
        MetricsApplication { stats }
    }
}

impl Application for MetricsApplication {
    const STOPPING: &'static str = "the splitter ends";

    fn request(&mut self, request: &HttpRequest<'_>, _: &mut Notices) -> HttpResponse {
        if let Some(refused) = http_responses::refuse(request) {
            return refused;
        }
        let mut response = match request.path() {
            "/metrics" => {
                let text = metrics::text(&self.stats.read());
                HttpResponse::new(200, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes())
            }
            "/healthz" => return http_responses::health(),
            _ => HttpResponse::text(404, "not found: this listener serves /metrics and /healthz"),
        };
        response.headers.push(("Cache-Control", "no-store".into()));
        response
    }

    fn accepts_websocket(&self, _: &str) -> bool {
        false
    }

    fn refusal(&mut self, refusal: Refusal) -> HttpResponse {
        http_responses::refusal(refusal)
    }

    fn connected(&mut self, _: ConnectionId, _: Option<IpAddr>) {}

    fn text(&mut self, _: ConnectionId, _: &str, _: &mut Notices) {}

    fn disconnected(&mut self, _: ConnectionId, _: &mut Notices) {}

    fn next_due_ns(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, _: u64, _: &mut Notices) {}

    fn commit(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    fn for_each_subscriber(&self, _: impl FnMut(ConnectionId)) {}

    fn pump(&mut self, _: ConnectionId, _: &mut Vec<u8>, _: usize) -> Result<(), Closing> {
        Ok(())
    }

    fn stopping(&mut self, _: &mut Notices) {}
}
