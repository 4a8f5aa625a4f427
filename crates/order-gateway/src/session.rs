//! The session of one client at the edge.
//!
//! Does        logs the client in, refuses malformed and excessive requests, and routes the rest.
//! Start at    [`Session::take`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::edge::{Edge, Uplinks};
use crate::feed::Feed;
use crate::login::Login;
use crate::outbox::Outbox;
use crate::request::{Refusal, Request, Route, with_id};

pub(crate) struct Session {
    edge: Arc<Edge>,
    uplinks: Uplinks,
    outbox: Outbox,
    login: Option<Login>,
    feed: Option<Feed>,
    /// IP address of the client. The throttle counts requests before a login by it.
    address: String,
}

fn not_logged_in() -> Refusal {
    Refusal {
        code: 13009,
        message: "unauthorized",
        reason: "this connection is not logged in".into(),
        remedy: "Call public/auth first.",
        retry_after_ms: None,
    }
}

fn no_cancel_on_disconnect() -> Refusal {
    Refusal {
        code: -32601,
        message: "Method not found",
        reason:
            "an order gateway does not cancel on disconnect: the orders of all its clients enter over one connection"
                .into(),
        remedy: "Connect to the venue itself, or give the orders a valid_until or a time in force that ends.",
        retry_after_ms: None,
    }
}

impl Session {
    pub fn new(edge: Arc<Edge>, uplinks: Uplinks, outbox: Outbox, address: String) -> Self {
        Session { edge, uplinks, outbox, login: None, feed: None, address }
    }

    /// Handles one message of the client. A message that is refused counts against the rate, too.
    pub async fn take(&mut self, text: &str) {
        let parsed = Request::parse(text);
        let payer = self.login.as_ref().map_or(self.address.as_str(), |login| login.client_id.as_str());
        if let Err(wait) = self.edge.throttle.take(payer, Instant::now()) {
            let retry_after_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
            let refusal = Refusal {
                code: 10028,
                message: "too_many_requests",
                reason: format!("{payer} sends faster than this gateway allows"),
                remedy: "Slow down; data.retry_after_ms says for how long.",
                retry_after_ms: Some(retry_after_ms),
            };
            return self.refuse(parsed.as_ref().ok(), &refusal);
        }
        let request = match parsed {
            Ok(request) => request,
            Err(refusal) => return self.refuse(None, &refusal),
        };
        if request.is_private() && self.login.is_none() {
            return self.refuse(Some(&request), &not_logged_in());
        }
        match request.route() {
            Route::Refused => self.refuse(Some(&request), &no_cancel_on_disconnect()),
            Route::Login => self.log_in(&request).await,
            Route::Logout => {
                // As at the venue, a logout ends the connection. The gateway forgets its tokens.
                self.login = None;
                self.outbox.end("logged out");
            }
            Route::Feed => self.pass_to_feed(&request).await,
            Route::Shared => {
                let token = self.login.as_ref().map(Login::token);
                self.edge.forwarded.fetch_add(1, Ordering::Relaxed);
                if !self.uplinks.requests.forward(&request, token.as_deref(), &self.outbox).await {
                    self.outbox.end("the venue is away");
                }
            }
        }
    }

    fn refuse(&self, request: Option<&Request<'_>>, refusal: &Refusal) {
        self.edge.refused.fetch_add(1, Ordering::Relaxed);
        self.outbox.push(refusal.answer(request.and_then(|request| request.id)));
    }

    async fn log_in(&mut self, request: &Request<'_>) {
        let known = self.login.as_ref().map(|login| login.client_id.clone());
        // As at the venue, a refresh needs no client id, and a wrong one has no effect. It
        // continues the login, so the channels stay.
        let refreshes = request.text("grant_type").as_deref() == Some("refresh_token");
        let named = request.text("client_id").filter(|_| !refreshes);
        let client_id = named.or(known).unwrap_or_else(|| self.address.clone());
        let opened = Login::open(request, &self.uplinks.logins, &self.outbox, client_id).await;
        let Some((answer, login)) = opened else { return self.outbox.end("the venue is away") };
        if login.is_some() {
            self.login = login;
            if !refreshes {
                // A new login starts without channels.
                self.feed = None;
            }
        }
        match with_id(&answer, request.id) {
            Some(answer) => self.outbox.push(answer),
            None => self.outbox.end("the gateway cannot read the venue's answer"),
        }
    }

    async fn pass_to_feed(&mut self, request: &Request<'_>) {
        if self.feed.is_none() {
            match Feed::open(&self.edge.venue, &self.edge.url, self.outbox.clone()).await {
                Ok(feed) => self.feed = Some(feed),
                Err(error) => {
                    tracing::warn!(error, "cannot open the feed connection of a client");
                    return self.outbox.end("the venue is away");
                }
            }
        }
        let Some(feed) = &self.feed else { return };
        // A test needs no login, and raw public channels need one.
        let token = self.login.as_ref().filter(|_| request.method.contains("subscribe")).map(Login::token);
        let id = request.id.map_or("null", serde_json::value::RawValue::get);
        feed.send(request.forwarded(id, token.as_deref())).await;
    }
}
