//! What is said to those who may not come in, and to pages from elsewhere that may: public methods only.

use pitwire_host::{HttpRequest, HttpResponse, Refusal, SystemClock};
use pitwire_jsonrpc::{RequestId, RpcError, write_error};

const PUBLIC: &str = "/api/v2/public/";

pub fn is_public(request: &HttpRequest<'_>) -> bool {
    request.path().starts_with(PUBLIC)
}

pub fn error(why: Refusal) -> RpcError {
    let name = match why {
        Refusal::UnknownHost => "unknown_host",
        Refusal::ForeignOrigin => "foreign_origin",
        Refusal::TooManyConnections => "too_many_requests",
    };
    RpcError::new(name, why.reason())
}

/// A refusal in the dialect's own form, so that a client's library can show it.
pub fn refused(why: Refusal) -> HttpResponse {
    let (now_us, mut body) = (SystemClock::wall_us(), Vec::new());
    write_error(&mut body, &RequestId::default(), &error(why), now_us, now_us);
    HttpResponse::json(why.status(), body)
}

/// Lets any page read the answer: there is nothing in it that is not everybody's.
pub fn share(response: &mut HttpResponse) {
    response.headers.push(("Access-Control-Allow-Origin", "*".into()));
}

/// The answer to a browser that asks before it sends a page's request.
pub fn preflight(request: &HttpRequest<'_>) -> HttpResponse {
    let mut response = HttpResponse::new(204, "text/plain", Vec::new());
    if is_public(request) {
        share(&mut response);
        response.headers.push(("Access-Control-Allow-Methods", "GET, POST, OPTIONS".into()));
        response.headers.push(("Access-Control-Allow-Headers", "content-type".into()));
        response.headers.push(("Access-Control-Max-Age", "600".into()));
    } else if request.is_foreign {
        return refused(Refusal::ForeignOrigin);
    }
    response
}
