//! The web page that is embedded in this binary.

use pitwire_net::HttpResponse;

include!(concat!(env!("OUT_DIR"), "/page.rs"));

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                   base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub fn serve(path: &str) -> Option<HttpResponse> {
    let wanted = if path == "/" { "/index.html" } else { path };
    let (name, bytes) = PAGE.iter().find(|(name, _)| *name == wanted)?;
    let content_type = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    // Names under /assets contain a hash of their content.
    let cache = if name.starts_with("/assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let response = HttpResponse::new(200, content_type, bytes.to_vec());
    Some(response.with_header("Cache-Control", cache).with_header("Content-Security-Policy", CSP))
}

/// Returns the response at `/` in a development build without the page.
pub fn missing() -> HttpResponse {
    HttpResponse::text(404, "this build has no page; run `make web` and build again")
}
