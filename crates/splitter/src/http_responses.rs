//! Responses that both listeners of the splitter give.
//!
//! Holds       a web page must not reach a splitter on loopback through its visitor's browser, so
//!             an unknown `Host` and a foreign `Origin` are refused, as by the venue.
//! Start at    [`refuse`].

use pitwire_net::{HttpRequest, HttpResponse, Refusal};

/// Returns the response to a request that no page and no resource can change: it is not a GET, or
/// a page of another origin has sent it.
pub(crate) fn refuse(request: &HttpRequest<'_>) -> Option<HttpResponse> {
    if request.is_foreign {
        return Some(refusal(Refusal::ForeignOrigin));
    }
    (request.method != "GET").then(|| HttpResponse::text(405, "send GET: these listeners only answer questions"))
}

/// Returns the response that says that the listener serves.
pub(crate) fn health() -> HttpResponse {
    HttpResponse::json(200, b"{\"status\":\"ok\"}\n".to_vec())
}

/// Returns the response to a refused request.
pub(crate) fn refusal(refusal: Refusal) -> HttpResponse {
    let reason = match refusal {
        Refusal::UnknownHost => "this is not that host; use the address that it listens on",
        Refusal::ForeignOrigin => "pages of other origins are not served",
        Refusal::TooManyConnections => "too many connections; close some, or connect again later",
    };
    HttpResponse::text(refusal.status(), reason)
}
