//! The HTTP entry of the JSON-RPC dialect at `/api/v2`, for venues and gateways.
//!
//! Does        find the called method, refuse hosts and origins that are not allowed, and answer
//!             preflight requests.
//! Holds       a page of a foreign origin may call public methods only, and not `public/auth`: it
//!             must not get hold of a token.
//! Start at    [`at`], then [`call`].

use pitwire_deribit::codec::{Request, RequestId, RpcError, write_error};
use pitwire_net::{HttpRequest, HttpResponse, Refusal, SystemClock};

const API: &str = "/api/v2";
/// Retry hint in milliseconds for a client with too many connections.
const RETRY_MS: u64 = 1_000;

/// Where a request leads.
pub enum ApiRoute {
    /// The path is not below `/api/v2`.
    None,
    /// The request is answered without a call.
    Answered(HttpResponse),
    /// The request makes a [`call`].
    Open,
}

pub fn at(request: &HttpRequest<'_>) -> ApiRoute {
    match request.path().strip_prefix(API) {
        Some("") => {}
        Some(rest) if rest.starts_with('/') => {}
        _ => return ApiRoute::None,
    }
    match request.method {
        "GET" | "POST" if request.is_foreign && !names_shared_method(request) => {
            ApiRoute::Answered(refused(Refusal::ForeignOrigin))
        }
        "GET" | "POST" => ApiRoute::Open,
        "OPTIONS" => ApiRoute::Answered(preflight(request)),
        _ => ApiRoute::Answered(HttpResponse::text(405, "use GET or POST")),
    }
}

/// Returns the call that a request makes, from its body or from its path and query.
///
/// # Errors
///
/// Returns the request's id and the error to answer if the call is malformed or not allowed.
pub fn call<'a>(request: &HttpRequest<'a>) -> Result<Request<'a>, (RequestId, RpcError)> {
    let nameless = |error| (RequestId::default(), error);
    let named = named_method(request);
    let body = std::str::from_utf8(request.body)
        .map_err(|_| nameless(RpcError::new("parse_error", "the body is not UTF-8")))?;
    if request.method != "POST" || (body.trim().is_empty() && !named.is_empty()) {
        return Request::from_query(named, request.query()).map_err(nameless);
    }
    let call = Request::parse(body, (!named.is_empty()).then_some(named))?;
    // The method in the body counts, whatever the path says.
    if request.is_foreign && !is_shared(&call.method) {
        return Err((call.id, error(Refusal::ForeignOrigin)));
    }
    Ok(call)
}

/// Returns the method that the path names, empty if it names none.
fn named_method<'a>(request: &HttpRequest<'a>) -> &'a str {
    request.path().strip_prefix(API).unwrap_or_default().trim_matches('/')
}

/// Whether pages of foreign origins may call a method and read its answer.
pub fn is_shared(method: &str) -> bool {
    method.starts_with("public/") && method != "public/auth"
}

/// Whether the path names a [shared](is_shared) method. The body may name another one.
pub fn names_shared_method(request: &HttpRequest<'_>) -> bool {
    is_shared(named_method(request))
}

pub fn error(why: Refusal) -> RpcError {
    let name = match why {
        Refusal::UnknownHost => "unknown_host",
        Refusal::ForeignOrigin => "foreign_origin",
        // The venue cannot know when a connection will close, so the hint is a constant.
        Refusal::TooManyConnections => return RpcError::new("too_many_requests", why.reason()).with_retry(RETRY_MS),
    };
    RpcError::new(name, why.reason())
}

/// Returns a refusal as a JSON-RPC error, so that client libraries can show it.
pub fn refused(why: Refusal) -> HttpResponse {
    let (now_us, mut body) = (SystemClock::wall_us(), Vec::new());
    write_error(&mut body, &RequestId::default(), &error(why), now_us, now_us);
    HttpResponse::json(why.status(), body)
}

/// Allows every web page to read the response. Call it for public data only.
pub fn share(response: &mut HttpResponse) {
    response.headers.push(("Access-Control-Allow-Origin", "*".into()));
}

/// Answers a browser's preflight request.
fn preflight(request: &HttpRequest<'_>) -> HttpResponse {
    let mut response = HttpResponse::new(204, "text/plain", Vec::new());
    if names_shared_method(request) {
        share(&mut response);
        response.headers.push(("Access-Control-Allow-Methods", "GET, POST, OPTIONS".into()));
        response.headers.push(("Access-Control-Allow-Headers", "content-type".into()));
        response.headers.push(("Access-Control-Max-Age", "600".into()));
    } else if request.is_foreign {
        return refused(Refusal::ForeignOrigin);
    }
    response
}
