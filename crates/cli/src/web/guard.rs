//! The door: which requests are answered at all, and what every answer says about itself.
//!
//! Invariant: a request whose host is not exactly this server on loopback, or that comes from another origin, gets
//! nothing but a refusal, whatever secrets it carries. Every answer, refusals included, has all of [`HEADERS`].

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::pass::KEY_HEADER;
use super::server::Shared;

/// Nothing from elsewhere, nothing inline, no markup out of strings, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types 'none'";

/// What every answer says.
const HEADERS: [(&str, &str); 9] = [
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-embedder-policy", "require-corp"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("cache-control", "no-store"),
];

/// Checks a request by its outside, and dresses the answer.
pub(super) async fn door(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let refused = refusal(request.method(), request.headers(), &shared.hosts);
    let mut response = match refused {
        Some(why) => (StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}

/// Lets only a page through that was let in.
pub(super) async fn admitted(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if shared.pass.admits(word(headers, &COOKIE), word(headers, &HeaderName::from_static(KEY_HEADER))) {
        return next.run(request).await;
    }
    (StatusCode::UNAUTHORIZED, "this needs the address that `lane web` printed\n").into_response()
}

/// The hosts by which this server is asked for.
pub(super) fn hosts(port: u16) -> Vec<String> {
    let mut hosts = vec![format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if port == 80 {
        hosts.extend(["127.0.0.1".to_owned(), "localhost".to_owned()]);
    }
    hosts
}

/// The one value of a header; none where it is there twice.
fn word<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Why a request is not answered.
fn refusal(method: &Method, headers: &HeaderMap, hosts: &[String]) -> Option<&'static str> {
    // A name that was made to point to loopback is refused here.
    let Some(host) = word(headers, &HOST).filter(|host| hosts.iter().any(|ours| ours == host)) else {
        return Some("this server does not go by that name\n");
    };
    let site = word(headers, &HeaderName::from_static("sec-fetch-site"));
    match *method {
        Method::GET | Method::HEAD => {
            // The page's own files hold no secret. Another origin has no business with them all the same.
            let is_foreign = site.is_some_and(|site| !matches!(site, "same-origin" | "none"))
                && word(headers, &HeaderName::from_static("sec-fetch-mode")) != Some("navigate");
            is_foreign.then_some("only this server's own page may ask for that\n")
        }
        Method::POST => {
            let is_ours =
                word(headers, &ORIGIN).is_some_and(|from| from.strip_prefix("http://") == Some(host));
            if !is_ours || site.is_some_and(|site| site != "same-origin") {
                return Some("only this server's own page may ask for that\n");
            }
            // No form of another page can send this.
            let is_json = word(headers, &CONTENT_TYPE) == Some("application/json");
            (!is_json).then_some("a request is application/json\n")
        }
        _ => Some("only GET and POST are answered\n"),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Method;
    use axum::http::header::{HeaderMap, HeaderName, HeaderValue};

    use super::{hosts, refusal};

    fn is_refused(method: Method, headers: &[(&'static str, &'static str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        refusal(&method, &map, &hosts(9)).is_some()
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:9");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:9");
    const JSON: (&str, &str) = ("content-type", "application/json");

    #[test]
    fn only_the_exact_host_is_answered() {
        assert!(!is_refused(Method::GET, &[HOST]));
        assert!(!is_refused(Method::GET, &[("host", "localhost:9")]));
        for host in ["127.0.0.1", "127.0.0.1:10", "evil.example:9", "127.0.0.1:9.evil.example", "[::1]:9", ""]
        {
            assert!(is_refused(Method::GET, &[("host", host)]), "{host}");
        }
        assert!(is_refused(Method::GET, &[]));
        assert!(is_refused(Method::GET, &[HOST, ("host", "evil.example")]));
    }

    #[test]
    fn a_request_that_does_something_comes_from_our_own_origin_as_json() {
        assert!(!is_refused(Method::POST, &[HOST, ORIGIN, JSON]));
        assert!(!is_refused(Method::POST, &[HOST, ORIGIN, JSON, ("sec-fetch-site", "same-origin")]));
        assert!(is_refused(Method::POST, &[HOST, JSON]));
        assert!(is_refused(Method::POST, &[HOST, ORIGIN]));
        assert!(is_refused(Method::POST, &[HOST, ORIGIN, ("content-type", "text/plain")]));
        assert!(is_refused(Method::POST, &[HOST, ORIGIN, JSON, ("sec-fetch-site", "same-site")]));
        for origin in [
            "null",
            "http://localhost:9",
            "http://127.0.0.1:10",
            "https://127.0.0.1:9",
            "http://evil.example",
        ] {
            assert!(is_refused(Method::POST, &[HOST, ("origin", origin), JSON]), "{origin}");
        }
    }

    #[test]
    fn another_page_cannot_load_our_files_and_a_link_to_us_works() {
        let from = ("sec-fetch-site", "cross-site");
        assert!(is_refused(Method::GET, &[HOST, from, ("sec-fetch-mode", "no-cors")]));
        assert!(!is_refused(Method::GET, &[HOST, from, ("sec-fetch-mode", "navigate")]));
        assert!(is_refused(Method::OPTIONS, &[HOST, ORIGIN]));
    }
}
