//! The dialect's door, of a venue and of a gateway: what a request at `/api/v2` calls, and what is said to those who may not
//! come in, and to pages from elsewhere that may: public methods only.
//!
//! Start at    [`at`], then [`call`].

use pitwire_deribit::codec::{Request, RequestId, RpcError, write_error};
use pitwire_net::{HttpRequest, HttpResponse, Refusal, SystemClock};

const API: &str = "/api/v2";
const PUBLIC: &str = "/api/v2/public/";
/// To whoever has too many connections.
const RETRY_MS: u64 = 1_000;

/// Where a request has come to.
pub enum Door {
    /// Nowhere near.
    None,
    /// Answered at the door.
    Answered(HttpResponse),
    /// It makes a [`call`].
    Open,
}

pub fn at(request: &HttpRequest<'_>) -> Door {
    match request.path().strip_prefix(API) {
        Some("") => {}
        Some(rest) if rest.starts_with('/') => {}
        _ => return Door::None,
    }
    match request.method {
        "GET" | "POST" if request.is_foreign && !is_public(request) => Door::Answered(refused(Refusal::ForeignOrigin)),
        "GET" | "POST" => Door::Open,
        "OPTIONS" => Door::Answered(preflight(request)),
        _ => Door::Answered(HttpResponse::text(405, "use GET or POST")),
    }
}

/// What a request at the door calls: the body says, or the path and the query.
pub fn call<'a>(request: &HttpRequest<'a>) -> Result<Request<'a>, (RequestId, RpcError)> {
    let nameless = |error| (RequestId::default(), error);
    let named = request.path().strip_prefix(API).unwrap_or_default().trim_matches('/');
    let body = std::str::from_utf8(request.body)
        .map_err(|_| nameless(RpcError::new("parse_error", "the body is not UTF-8")))?;
    if request.method != "POST" || (body.trim().is_empty() && !named.is_empty()) {
        return Request::from_query(named, request.query()).map_err(nameless);
    }
    let call = Request::parse(body, (!named.is_empty()).then_some(named))?;
    // The method that counts is the body's, whatever the path says.
    if request.is_foreign && !call.method.starts_with("public/") {
        return Err((call.id, error(Refusal::ForeignOrigin)));
    }
    Ok(call)
}

pub fn is_public(request: &HttpRequest<'_>) -> bool {
    request.path().starts_with(PUBLIC)
}

pub fn error(why: Refusal) -> RpcError {
    let name = match why {
        Refusal::UnknownHost => "unknown_host",
        Refusal::ForeignOrigin => "foreign_origin",
        // Nobody knows when one of them goes.
        Refusal::TooManyConnections => return RpcError::new("too_many_requests", why.reason()).with_retry(RETRY_MS),
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
fn preflight(request: &HttpRequest<'_>) -> HttpResponse {
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
