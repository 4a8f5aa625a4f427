//! `/healthz`: whether the venue serves, and how durable its answers are.

use pitwire_journal::JournalSpace;
use pitwire_net::HttpResponse;
use pitwire_venue::DiskUsage;

use crate::service::VenueService;

/// Returns the health page. The status code is 503 while the venue stops, otherwise 200.
///
/// `usage` is the disk use of the data directory, if it was measured. `bus_is_connected` is `None`
/// if nothing is published for gateways.
pub fn health(
    service: &VenueService,
    is_early: bool,
    usage: Option<DiskUsage>,
    bus_is_connected: Option<bool>,
) -> HttpResponse {
    let venue = &service.venue;
    let durability = if venue.journal().is_some() { "disk" } else { "memory" };
    let status = match venue.disk_space() {
        _ if service.is_stopping => "stopping",
        JournalSpace::Orders => "ok",
        JournalSpace::CancelsOnly => "cancels_only",
        JournalSpace::Nothing => "no_space",
    };
    let market_data = if is_early { "early" } else { "durable" };
    let bus = bus_is_connected.map_or(String::new(), |is_connected| {
        let state = if is_connected { "connected" } else { "away" };
        format!(",\"bus\":\"{state}\"")
    });
    let disk = usage.map_or(String::new(), |DiskUsage { bytes, free_bytes, lasts_s }| {
        let lasts_s = lasts_s.map_or("null".into(), |seconds| seconds.to_string());
        format!(",\"disk\":{{\"bytes\":{bytes},\"free_bytes\":{free_bytes},\"lasts_s\":{lasts_s}}}")
    });
    let body = format!(
        "{{\"status\":\"{status}\",\"durability\":\"{durability}\",\"market_data\":\"{market_data}\",\"epoch\":{},\"command\":{}{disk}{bus}}}\n",
        venue.engine().epoch(),
        venue.durable()
    );
    HttpResponse::json(if service.is_stopping { 503 } else { 200 }, body.into_bytes())
}
