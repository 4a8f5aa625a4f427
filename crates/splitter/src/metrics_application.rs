//! Answers requests for the statistics of the splitter.
//!
//! Start at    [`MetricsApplication`].

use std::sync::Arc;

use pitwire_net::{Application, HttpRequest, HttpResponse, Notices, Refusal};

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
        let response = match request.path() {
            "/metrics" => {
                let text = metrics::text(&self.stats.read());
                HttpResponse::new(200, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes())
            }
            "/healthz" => return http_responses::health(),
            _ => HttpResponse::text(404, "not found: this listener serves /metrics and /healthz"),
        };
        response.with_header("Cache-Control", "no-store")
    }

    fn accepts_websocket(&self, _: &str) -> bool {
        false
    }

    fn refusal(&mut self, refusal: Refusal) -> HttpResponse {
        http_responses::refusal(refusal)
    }

    fn stopping(&mut self, _: &mut Notices) {}
}
