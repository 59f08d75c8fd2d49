//! The checks that are made before a request is handled, and the headers that every answer has.
//!
//! | attack | defence |
//! |---|---|
//! | another user of this machine | the owner of the client's socket, or the token |
//! | another machine | the token |
//! | a page of another origin sends requests | `Origin` and `Sec-Fetch-Site`; `SameSite=Strict` |
//! | a page whose name is made to point to the gateway (DNS rebinding) | `Host`, or the token |
//! | a script in a name or a value | the content security policy; values are shown as text only |
//! | framing | `frame-ancestors 'none'` |

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};

use crate::AccessToken;
use crate::access::WebAccess;
use crate::api::WebState;
use crate::connections::{ActiveRequest, ConnectionSlot};
use crate::response::HttpRefusal;

/// A client, and whether the control socket would answer it.
#[derive(Debug, Clone)]
pub(crate) struct WebClient {
    pub(crate) may_ask: bool,
    /// The place of the client's connection in the table.
    pub(crate) slot: Arc<ConnectionSlot>,
}

const API_PREFIX: &str = "/api/";
/// The page loads scripts, styles and images only from this gateway, images also from `data:` URLs,
/// and connects only to it.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const SECURITY_HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Passes a request on to its handler, or refuses it.
pub(crate) async fn guard(
    State(gate): State<Arc<WebState>>,
    request: Request,
    next: Next,
) -> Response {
    let checked = check(&gate, &request);
    let mut response = match &checked {
        Ok(_) => track_request(request, next).await,
        Err(_) => StatusCode::OK.into_response(),
    };
    match checked {
        Ok(Some(cookie)) => {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        Ok(None) => {}
        Err(refused) => response = refused.into_response(),
    }
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Answers a request. Its connection counts as busy until the whole answer was sent.
async fn track_request(request: Request, next: Next) -> Response {
    let client = request.extensions().get::<WebClient>();
    let held = client.map(|client| ConnectionSlot::admit(&client.slot));
    let response = next.run(request).await;
    response.map(|body| Body::new(TrackedBody { body, _held: held }))
}

/// The body of an answer. Its request is active until the body is dropped.
struct TrackedBody {
    body: Body,
    _held: Option<ActiveRequest>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Headers that identify the client and its request. If one of them was repeated, two programs on
/// the way could use different values.
static UNIQUE_HEADERS: [HeaderName; 5] = [
    header::HOST,
    header::ORIGIN,
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    HeaderName::from_static("sec-fetch-site"),
];

/// Refuses a request that repeats a header of [`UNIQUE_HEADERS`], the cookie, or a parameter of its
/// query.
fn refuse_repeated(request: &Request, port: u16) -> Result<(), HttpRefusal> {
    let headers = request.headers();
    let header = UNIQUE_HEADERS.iter().find(|name| headers.get_all(*name).iter().count() > 1);
    let header = header.map(|name| format!("header {name}"));
    let cookie = cookie_name(port);
    let repeated = header
        .or_else(|| repeated_name(request.uri()).map(|name| format!("parameter {name}")))
        .or_else(|| (cookies(headers, &cookie).count() > 1).then(|| format!("cookie {cookie}")));
    match repeated {
        None => Ok(()),
        Some(what) => Err(HttpRefusal::new(
            StatusCode::BAD_REQUEST,
            &format!("its {what} is given twice"),
            "give each name once",
        )),
    }
}

/// Returns a parameter that occurs more than once in the query of an address; `None` if there is
/// none.
fn repeated_name(uri: &Uri) -> Option<&str> {
    let pairs = uri.query()?.split('&').filter(|pair| !pair.is_empty());
    let names: Vec<_> = pairs.map(|pair| pair.split('=').next().unwrap_or_default()).collect();
    let at = (1..names.len()).find(|at| names[..*at].contains(&names[*at]))?;
    Some(names[at])
}

/// Checks a request. If the client has sent the token in the URL and not otherwise, returns the
/// cookie that must be set.
fn check(gate: &WebState, request: &Request) -> Result<Option<HeaderValue>, HttpRefusal> {
    let headers = request.headers();
    refuse_repeated(request, gate.port)?;
    let host = host(headers).filter(|host| gate.access.is_named(without_port(host)));
    let host = host.ok_or_else(|| {
        forbidden(
            "its Host is none of this machine's loopback",
            "open it as http://127.0.0.1, or start slipring serve with --token-file FILE",
        )
    })?;
    if is_foreign(headers, host, request.uri().path().starts_with(API_PREFIX)) {
        return Err(forbidden(
            "a page of another origin sent it",
            "open the page of slipring serve itself, or leave the Origin header out",
        ));
    }
    match (&gate.access, request.extensions().get::<WebClient>()) {
        (WebAccess::Token(token), _) => authenticate(token, gate.port, request),
        (WebAccess::Own(_), Some(WebClient { may_ask: true, .. })) => Ok(None),
        (WebAccess::Own(_), _) => Err(forbidden(
            "it comes from another user of this machine",
            "run slipring serve as that user, or with --token-file FILE",
        )),
    }
}

fn forbidden(cause: &str, help: &str) -> HttpRefusal {
    HttpRefusal::new(StatusCode::FORBIDDEN, cause, help)
}

/// Looks for the token in the header, the cookie and the URL. If it is only in the URL, returns the
/// cookie that must be set. If it is nowhere, returns an error.
fn authenticate(
    token: &AccessToken,
    port: u16,
    request: &Request,
) -> Result<Option<HeaderValue>, HttpRefusal> {
    let (headers, name) = (request.headers(), cookie_name(port));
    let kept = [bearer(headers), cookie(headers, &name)];
    if kept.into_iter().flatten().any(|given| token.matches(given)) {
        return Ok(None);
    }
    if query_token(request.uri()).is_some_and(|given| token.matches(given)) {
        let cookie = format!("{name}={}; Path=/; HttpOnly; SameSite=Strict", token.text());
        return Ok(HeaderValue::from_str(&cookie).ok());
    }
    Err(HttpRefusal::new(
        StatusCode::UNAUTHORIZED,
        "it has not the token",
        "open the page once as /?token=TOKEN, or send `Authorization: Bearer TOKEN`",
    ))
}

/// Returns the header `Host`; `None` if there is not exactly one, or if it is not printable ASCII.
fn host(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::HOST).iter();
    let only = all.next().filter(|_| all.next().is_none())?;
    only.to_str().ok()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Returns whether a browser says that a page from another origin has made the request. A link to
/// the page may be followed from any origin, but the API must not be called from another origin.
fn is_foreign(headers: &HeaderMap, host: &str, to_api: bool) -> bool {
    let origin = headers.get(header::ORIGIN).map(|origin| {
        let origin = origin.to_str().unwrap_or_default();
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_none_or(|authority| !authority.eq_ignore_ascii_case(host))
    });
    let site =
        headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none");
    origin.unwrap_or(false) || (site && to_api)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn query_token(uri: &Uri) -> Option<&str> {
    uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

/// Returns the name of the cookie. It contains the port, because all ports of a host share their
/// cookies.
fn cookie_name(port: u16) -> String {
    format!("slipring-{port}")
}

fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    cookies(headers, name).next()
}

fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let cookies = lines.flat_map(|line| line.split(';')).map(str::trim);
    cookies.filter_map(move |cookie| cookie.strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        list.iter().map(pair).collect()
    }

    #[test]
    fn a_host_is_one_and_its_port_is_cut_off() {
        for (given, name) in [
            ("localhost:8086", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("a:b", "a:b"),
        ] {
            assert_eq!(without_port(given), name);
        }
        let mut two = headers(&[("host", "localhost")]);
        assert_eq!(host(&two), Some("localhost"));
        two.append("host", HeaderValue::from_static("evil.example"));
        assert_eq!((host(&two), host(&headers(&[]))), (None, None));
    }

    #[test]
    fn a_parameter_that_stands_twice_is_found() {
        for (uri, name) in [
            ("/?token=a&token=b", Some("token")),
            ("/?period=1s&token=a&period=2s", Some("period")),
            ("/?a&a", Some("a")),
            ("/?token=a&tokens=a", None),
            ("/", None),
        ] {
            assert_eq!(repeated_name(&Uri::from_static(uri)), name, "{uri}");
        }
    }

    #[test]
    fn what_a_page_of_another_origin_sends_is_foreign() {
        let foreign = |list: &[_], to_api| is_foreign(&headers(list), "127.0.0.1:8086", to_api);
        for (list, to_api, expected) in [
            (&[][..], true, false),
            (&[("origin", "http://127.0.0.1:8086")], true, false),
            (&[("origin", "http://127.0.0.1:8087")], true, true),
            (&[("origin", "http://evil.example")], false, true),
            (&[("origin", "null")], true, true),
            (&[("sec-fetch-site", "same-origin")], true, false),
            (&[("sec-fetch-site", "none")], true, false),
            (&[("sec-fetch-site", "same-site")], true, true),
            (&[("sec-fetch-site", "cross-site")], true, true),
            (&[("sec-fetch-site", "cross-site")], false, false),
        ] {
            assert_eq!(foreign(list, to_api), expected, "{list:?}");
        }
    }

    #[test]
    fn a_token_is_found_in_header_address_and_cookie() {
        assert_eq!(bearer(&headers(&[("authorization", "Bearer abc")])), Some("abc"));
        assert_eq!(bearer(&headers(&[("authorization", "bearer abc")])), Some("abc"));
        assert_eq!(bearer(&headers(&[("authorization", "Basic abc")])), None);
        assert_eq!(query_token(&Uri::from_static("/?a=1&token=abc")), Some("abc"));
        assert_eq!(query_token(&Uri::from_static("/?tokens=abc")), None);
        let jar = headers(&[("cookie", "a=b; slipring-80=abc; slipring-8086=def")]);
        assert_eq!(cookie(&jar, "slipring-8086"), Some("def"));
        assert_eq!(cookie(&jar, "slipring-8"), None);
    }
}
