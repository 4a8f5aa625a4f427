//! The limits of a configuration, converted for the components that enforce them.

use pitwire_configuration::LimitsDef;
use pitwire_deribit::{Allowance, DialectLimits};
use pitwire_net::Limits as ListenerLimits;

/// Returns the limits of the event loop, per address.
pub fn connection_limits(def: Option<&LimitsDef>) -> ListenerLimits {
    let mut limits = ListenerLimits::default();
    if let Some(def) = def {
        limits.connections_per_address =
            Some(def.connections_per_address.unwrap_or(ListenerLimits::CONNECTIONS_PER_ADDRESS));
        limits.hosts.extend(def.hosts.iter().cloned());
    }
    limits
}

/// Returns the limits of the dispatcher, per account.
pub fn request_limits(def: &LimitsDef) -> DialectLimits {
    let mut limits = DialectLimits::default();
    limits.orders = changed(limits.orders, def.orders_per_second, def.orders_burst);
    limits.cancels = changed(limits.cancels, def.orders_per_second, def.orders_burst);
    limits.requests = changed(limits.requests, def.requests_per_second, def.requests_burst);
    limits
}

/// Returns an allowance with changed rates. Rates count requests; an allowance counts credits.
fn changed(allowance: Allowance, per_second: Option<u32>, burst: Option<u32>) -> Allowance {
    let credits = |requests: u32| u64::from(requests).saturating_mul(allowance.cost);
    Allowance {
        cost: allowance.cost,
        pool: burst.map_or(allowance.pool, credits),
        refill_per_s: per_second.map_or(allowance.refill_per_s, credits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_limits_keep_the_dialects_defaults() {
        let def = LimitsDef { requests_per_second: Some(7), orders_burst: Some(50), ..LimitsDef::default() };
        let (requests, listener) = (request_limits(&def), connection_limits(Some(&def)));
        let dialect = DialectLimits::default();
        assert_eq!(requests.requests.refill_per_s, 7 * dialect.requests.cost);
        assert_eq!((requests.orders.pool, requests.orders.refill_per_s), (50, dialect.orders.refill_per_s));
        assert_eq!(listener.connections_per_address, Some(32));
        assert_eq!(connection_limits(None).connections_per_address, None, "off where there is no table");
    }
}
