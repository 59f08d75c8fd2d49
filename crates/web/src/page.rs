//! The web page: the bundle that the build has made, or, if there is none, a page with an error.

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::response::HttpRefusal;

/// A file of the page.
struct File {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

// The build script writes `Ok` with the files, or `Err` with the reason why there are none.
include!(concat!(env!("OUT_DIR"), "/page.rs"));

/// Returns why this build has no page; `None` if it has one.
#[must_use]
pub fn page_missing() -> Option<&'static str> {
    PAGE.err()
}

/// Answers every request that is not for the API.
pub(crate) async fn answer(method: Method, uri: Uri) -> Response {
    if method != Method::GET && method != Method::HEAD {
        let help = "GET the page, or POST to /api/v1/TARGET/WHAT";
        return HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "there is nothing to send", help)
            .into_response();
    }
    let files = match PAGE {
        Ok(files) => files,
        Err(why) if uri.path() == "/" => return missing(why),
        Err(_) => &[],
    };
    match files.iter().find(|file| file.path == uri.path()) {
        Some(file) => {
            let kind = HeaderValue::from_static(file.kind);
            ([(header::CONTENT_TYPE, kind)], file.bytes).into_response()
        }
        None => {
            let help = "GET /, or see /api/v1/running";
            HttpRefusal::new(StatusCode::NOT_FOUND, "nothing is there", help).into_response()
        }
    }
}

fn missing(why: &str) -> Response {
    let text = format!(
        "This build of slipring has no page: {why}.\n\n\
         To have it, install Node.js 18 or later with npm, and build again:\n\n\
         \x20   apt-get install nodejs npm\n\
         \x20   touch web/package.json && make release\n\n\
         The JSON API works without it:\n\n\
         \x20   curl http://127.0.0.1:8086/api/v1/running\n\
         \x20   curl -X POST http://127.0.0.1:8086/api/v1/-/stats\n"
    );
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}
