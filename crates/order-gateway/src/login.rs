//! The login of a client, and its tokens at the venue.
//!
//! Does        passes `public/auth` to the venue, keeps the token, and renews it before it expires.
//! Holds       a token is never shown in a log, and is used for the requests of its client only.
//! Start at    [`Login::open`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::outbox::Outbox;
use crate::request::Request;
use crate::uplink::Uplink;

/// Part of a token's life after which it is renewed.
const RENEWED_AFTER: f64 = 0.7;

#[derive(Deserialize)]
struct AuthAnswer {
    result: Option<Grant>,
}

#[derive(Deserialize)]
struct Grant {
    access_token: String,
    refresh_token: String,
    /// Seconds.
    expires_in: u64,
}

/// A client that has logged in at the venue.
pub(crate) struct Login {
    /// Name under which its requests are counted.
    pub client_id: String,
    token: Arc<Mutex<String>>,
    renewal: JoinHandle<()>,
}

impl Login {
    /// Asks the venue. Returns the answer for the client, and the login if the venue granted it.
    /// Returns `None` if the venue does not answer.
    pub async fn open(
        request: &Request<'_>,
        logins: &Uplink,
        outbox: &Outbox,
        client_id: String,
    ) -> Option<(String, Option<Login>)> {
        let answer = logins.ask(request).await?;
        let grant = serde_json::from_str(&answer).ok().and_then(|AuthAnswer { result }| result);
        let login = grant.map(|grant| {
            let token = Arc::new(Mutex::new(grant.access_token.clone()));
            let renewal = tokio::spawn(renew(grant, logins.clone(), Arc::clone(&token), outbox.clone()));
            Login { client_id, token, renewal }
        });
        Some((answer, login))
    }

    pub fn token(&self) -> String {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Login {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

/// Renews a token for as long as the login lasts.
async fn renew(mut grant: Grant, logins: Uplink, token: Arc<Mutex<String>>, outbox: Outbox) {
    loop {
        sleep(Duration::from_secs(grant.expires_in).mul_f64(RENEWED_AFTER)).await;
        let params = json!({"grant_type": "refresh_token", "refresh_token": grant.refresh_token});
        let Ok(params) = RawValue::from_string(params.to_string()) else { return };
        let request = Request { id: None, method: "public/auth".into(), params: Some(&params) };
        let answer = logins.ask(&request).await;
        let answer = answer.and_then(|answer| serde_json::from_str::<AuthAnswer>(&answer).ok());
        let renewed = answer.and_then(|AuthAnswer { result }| result);
        let Some(renewed) = renewed else {
            // An operator has revoked the credential, or the venue is away.
            return outbox.end("the venue has ended the login");
        };
        token.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&renewed.access_token);
        grant = renewed;
    }
}
