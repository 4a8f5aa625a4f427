//! Request rates of clients.
//!
//! Start at    [`Throttle::take`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Client ids that are remembered. Above it, those with a full allowance are forgotten.
const CLIENTS_MAX: usize = 10_000;

/// A sustained rate, and how many requests may come at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_second: f64,
    pub burst: f64,
}

#[derive(Debug)]
struct Allowance {
    requests: f64,
    since: Instant,
}

/// The allowances of all clients, by client id, so that more connections give no more requests.
#[derive(Debug)]
pub(crate) struct Throttle {
    rate: Option<Rate>,
    clients: HashMap<String, Allowance>,
}

impl Throttle {
    /// Makes a throttle. Without a rate it admits everything.
    pub fn new(rate: Option<Rate>) -> Self {
        Throttle { rate, clients: HashMap::new() }
    }

    /// Takes one request of a client. If the allowance is used up, returns how long the client has
    /// to wait.
    ///
    /// # Errors
    /// How long to wait until the next request is allowed.
    pub fn take(&mut self, client_id: &str, now: Instant) -> Result<(), Duration> {
        let Some(rate) = self.rate else { return Ok(()) };
        let clients = &mut self.clients;
        let refilled = |allowance: &Allowance| {
            let elapsed = now.saturating_duration_since(allowance.since).as_secs_f64();
            (allowance.requests + elapsed * rate.per_second).min(rate.burst)
        };
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(client_id) {
            clients.retain(|_, allowance| refilled(allowance) < rate.burst);
        }
        let fresh = || Allowance { requests: rate.burst, since: now };
        let allowance = clients.entry(client_id.to_owned()).or_insert_with(fresh);
        let requests = refilled(allowance);
        (allowance.requests, allowance.since) = (requests, now);
        if requests < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - requests) / rate.per_second));
        }
        allowance.requests -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_may_send_a_burst_and_then_its_rate() {
        let mut throttle = Throttle::new(Some(Rate { per_second: 10.0, burst: 3.0 }));
        let start = Instant::now();
        for _ in 0..3 {
            assert_eq!(throttle.take("a", start), Ok(()));
        }
        assert_eq!(throttle.take("a", start), Err(Duration::from_millis(100)));
        assert_eq!(throttle.take("b", start), Ok(()), "each client has its own");
        let later = start + Duration::from_millis(150);
        assert_eq!(throttle.take("a", later), Ok(()));
        assert_eq!(throttle.take("a", later), Err(Duration::from_millis(50)));
        let much_later = start + Duration::from_secs(60);
        assert_eq!((0..9).filter(|_| throttle.take("a", much_later).is_ok()).count(), 3);
    }
}
