//! One HTTP request and its answer.

use super::{CONTENT_TYPE, Metrics};

/// Maximum number of bytes of a request.
pub(super) const MAX_REQUEST_BYTES: usize = 8192;

/// Returns whether the request's head is complete, or the request is already too long.
pub(super) fn is_complete(request: &[u8]) -> bool {
    request.len() >= MAX_REQUEST_BYTES || request.windows(4).any(|end| end == b"\r\n\r\n")
}

/// Returns the complete HTTP answer to a request.
pub(super) fn answer(request: &[u8], metrics: &Metrics) -> Vec<u8> {
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match target(request) {
        Some(("GET", "/metrics")) => match metrics() {
            Ok(text) => ("200 OK", CONTENT_TYPE, text),
            Err(why) => ("503 Service Unavailable", plain, format!("{why}\n")),
        },
        Some(("GET", "/")) => ("200 OK", plain, "see /metrics\n".to_owned()),
        Some(("GET", _)) => ("404 Not Found", plain, "only /metrics is here\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", plain, "only GET is answered\n".to_owned()),
        None => ("400 Bad Request", plain, "this is no HTTP request\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// Returns the method and the path of a request, without its query.
fn target(request: &[u8]) -> Option<(&str, &str)> {
    let line = request.split(|&byte| byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let path = path.split('?').next()?;
    version.starts_with("HTTP/1.").then_some((method, path))
}
