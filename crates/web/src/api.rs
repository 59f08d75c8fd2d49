//! The JSON API. It passes requests on to the control socket, and returns the answers unchanged.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Map, Value, json};
use slipring_cli::units::TimeSpan;
use slipring_control::{ControlClient, ControlError, ControlRefusal, UniqueKeys, running};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::access::WebAccess;
use crate::counters::HttpCounters;
use crate::events::{EventStream, watch_run};
use crate::response::{HttpRefusal, JsonBody};
use crate::{guard, page};

/// Maximum length of a request's body in bytes. It is the same as that of a line on the control
/// socket.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Maximum time to receive the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The update periods that a watching client may request.
const WATCH_PERIODS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(20)..=Duration::from_secs(10);
/// The TARGET that stands for the only run. It is valid if exactly one is running, or if the
/// gateway shows only one.
const ONLY_TARGET: &str = "-";

/// The state that all requests share.
pub(crate) struct WebState {
    pub(crate) access: WebAccess,
    /// The TCP port on which the gateway listens.
    pub(crate) port: u16,
    pub(crate) run_dir: PathBuf,
    /// The only run that is shown; `None` if all are.
    pub(crate) target: Option<String>,
    pub(crate) presets: Value,
    /// Permits to watch. The number of free permits is how many more clients may watch at the same
    /// time.
    pub(crate) watcher_permits: Arc<Semaphore>,
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) counters: Arc<HttpCounters>,
}

/// Returns the router of all requests.
pub(crate) fn router(gate: Arc<WebState>) -> Router {
    Router::new()
        .route("/api/v1/running", get(list))
        .route("/api/v1/presets", get(presets))
        .route("/api/v1/{target}/watch", get(watch_target).post(watch_target))
        .route("/api/v1/{target}/{what}", post(call_target))
        .fallback(page::answer)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(gate.clone(), guard::guard))
        .with_state(gate)
}

async fn wrong_method() -> HttpRefusal {
    let help = "POST what is asked; GET is for running, presets and watch";
    HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "it cannot be asked by this method", help)
}

async fn presets(State(gate): State<Arc<WebState>>) -> JsonBody {
    JsonBody(gate.presets.clone())
}

async fn list(State(gate): State<Arc<WebState>>) -> Result<JsonBody, HttpRefusal> {
    let dir = gate.run_dir.clone();
    let runs = join_result(spawn_blocking(move || running(&dir)).await)?;
    let shown = runs.iter().filter(|run| match &gate.target {
        Some(target) => run.pid.to_string() == *target || run.names.contains(target),
        None => true,
    });
    let shown = shown.map(|run| json!({ "pid": run.pid, "names": run.names }));
    Ok(JsonBody(shown.collect()))
}

async fn call_target(
    State(gate): State<Arc<WebState>>,
    Path((target, what)): Path<(String, String)>,
    request: Request,
) -> Result<JsonBody, HttpRefusal> {
    let target = resolve_target(&gate, target)?;
    let (head, body) = request.into_parts();
    let args = arguments(&head.headers, body).await?;
    let dir = gate.run_dir.clone();
    let answer = spawn_blocking(move || {
        ControlClient::find(&dir, target.as_deref())?.request(&what, Value::Object(args))
    });
    Ok(JsonBody(join_result(answer.await)??))
}

async fn watch_target(
    State(gate): State<Arc<WebState>>,
    Path(target): Path<String>,
    uri: Uri,
    request: Request,
) -> Result<Response, HttpRefusal> {
    let target = resolve_target(&gate, target)?;
    let (head, body) = request.into_parts();
    let args = arguments(&head.headers, body).await?;
    let period = period(&uri, &args)?;
    let Ok(permit) = gate.watcher_permits.clone().try_acquire_owned() else {
        let help = "close a page that watches, then try again";
        return Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many watch", help));
    };
    let mut updates = watch_run(gate.run_dir.clone(), target, period);
    let ended = || ControlError::NoAnswer("the program has ended".to_owned());
    let first = updates.recv().await.ok_or_else(ended)??;
    let events = EventStream::new(first, updates, gate.stop.clone(), permit);
    Ok(([(header::CONTENT_TYPE, "text/event-stream")], Body::new(events)).into_response())
}

/// Returns the run that a request means, or `None` for the only one that runs; an error if the
/// gateway must not access it.
fn resolve_target(gate: &WebState, target: String) -> Result<Option<String>, HttpRefusal> {
    match (&gate.target, target.as_str()) {
        (Some(only), ONLY_TARGET) => Ok(Some(only.clone())),
        (Some(only), target) if target != only => Err(HttpRefusal::new(
            StatusCode::NOT_FOUND,
            &format!("this gateway leads to {only} only"),
            "start slipring serve without --target",
        )),
        (None, ONLY_TARGET) => Ok(None),
        _ => Ok(Some(target)),
    }
}

/// Parses the body. It is a JSON object with arguments, or is empty.
async fn arguments(headers: &HeaderMap, body: Body) -> Result<Map<String, Value>, HttpRefusal> {
    let body = read_body(body).await?;
    if body.is_empty() {
        return Ok(Map::new());
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if kind.is_none_or(|kind| !kind.eq_ignore_ascii_case("application/json")) {
        let (cause, help) =
            ("it says not that its body is JSON", "send `Content-Type: application/json`");
        return Err(HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, cause, help));
    }
    let unfit = |why: &str| malformed(format!("the body is no JSON object: {why}"));
    let value = serde_json::from_slice(&body).map_err(|error| unfit(&error.to_string()))?;
    let UniqueKeys(Value::Object(args)) = value else { return Err(unfit("it is another value")) };
    // The gateway itself sets these keys, so the body must not contain them.
    match ["id", "do"].iter().find(|key| args.contains_key(**key)) {
        Some(key) => Err(malformed(format!("`{key}` is said by the path"))),
        None => Ok(args),
    }
}

async fn read_body(body: Body) -> Result<Bytes, HttpRefusal> {
    let refused = |status, cause, help| Err(HttpRefusal::new(status, cause, help));
    match timeout(BODY_TIMEOUT, axum::body::to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => refused(
            StatusCode::PAYLOAD_TOO_LARGE,
            "its body is too long, or was cut off",
            "send 1 MiB at most",
        ),
        Err(_) => {
            refused(StatusCode::REQUEST_TIMEOUT, "its body does not come", "send the body at once")
        }
    }
}

fn malformed(cause: String) -> HttpRefusal {
    let mut refusal = ControlRefusal::malformed(cause);
    refusal.help = Some("send an object of arguments: {\"changes\":{…}}".to_owned());
    HttpRefusal::from(ControlError::Refused(refusal))
}

fn period(uri: &Uri, args: &Map<String, Value>) -> Result<Duration, HttpRefusal> {
    let mut pairs = uri.query().unwrap_or_default().split('&');
    let asked = pairs.find_map(|pair| pair.strip_prefix("period="));
    let Some(text) = asked.or_else(|| args.get("period").and_then(Value::as_str)) else {
        return Ok(Duration::from_secs(1));
    };
    let period = TimeSpan::parse(text, Duration::from_secs(1)).map(|span| span.duration());
    period.ok().filter(|period| WATCH_PERIODS.contains(period)).ok_or_else(|| {
        let cause = format!("`{text}` is no period");
        HttpRefusal::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            &cause,
            "write 20ms to 10s: period=250ms",
        )
    })
}

/// Returns the result of a blocking task, or an error if the task panicked.
fn join_result<T>(joined: Result<T, tokio::task::JoinError>) -> Result<T, HttpRefusal> {
    joined.map_err(|_| {
        let help = "see what slipring serve wrote, and report it";
        HttpRefusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the gateway failed", help)
    })
}
