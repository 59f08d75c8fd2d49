//! The gateway's answers: values, or errors with four parts and a suitable status.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use slipring_cli::codes::{SR0014, SR0015, SR0016};
use slipring_cli::{Diagnose, Diagnostic, Exit};
use slipring_control::{ControlError, ControlRefusal};

/// The syntax of requests, as a help text.
const REQUEST_SYNTAX: &str = "POST /api/v1/TARGET/WHAT with an object of arguments, or nothing: \
    {\"changes\":{\"link.up.delay\":\"40ms\"}}";

/// A JSON value as the body of an answer.
pub(crate) struct JsonBody(pub(crate) Value);

impl IntoResponse for JsonBody {
    fn into_response(self) -> Response {
        let kind = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, kind)], self.0.to_string()).into_response()
    }
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct HttpRefusal {
    status: StatusCode,
    /// The error is boxed, so that a result is small: results are passed by value, and errors are
    /// rare.
    error: Box<Diagnostic>,
}

impl HttpRefusal {
    /// Creates a refusal that comes from the gateway itself.
    pub(crate) fn new(status: StatusCode, cause: &str, help: &str) -> Self {
        let error = Diagnostic::new(SR0016, "the request is refused");
        Self { status, error: Box::new(error.with_cause(cause).with_help(help)) }
    }

    /// Returns the refusal as a JSON object.
    pub(crate) fn json(&self) -> Value {
        self.error.to_json()
    }
}

impl From<ControlError> for HttpRefusal {
    fn from(error: ControlError) -> Self {
        use ControlError as E;
        let mut diagnostic = Diagnostic::of(&error);
        if diagnostic.help().as_deref() == Some(ControlRefusal::REQUEST_FORM) {
            diagnostic = diagnostic.with_help(REQUEST_SYNTAX);
        }
        let status = match &error {
            E::NothingRuns { .. } | E::Unknown { .. } | E::BadName { .. } => StatusCode::NOT_FOUND,
            E::Several { .. } | E::NameTaken { .. } => StatusCode::CONFLICT,
            E::Untrusted(_) | E::System { .. } => StatusCode::INTERNAL_SERVER_ERROR,
            E::NoAnswer(_) | E::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
            E::Refused(_) => match (diagnostic.code(), diagnostic.exit()) {
                (SR0014, _) => StatusCode::BAD_REQUEST,
                (SR0015, _) => StatusCode::CONFLICT,
                (_, Exit::PeerLost) => StatusCode::BAD_GATEWAY,
                (_, Exit::Machine) => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            },
        };
        Self { status, error: Box::new(diagnostic) }
    }
}

impl IntoResponse for HttpRefusal {
    fn into_response(self) -> Response {
        (self.status, JsonBody(self.json())).into_response()
    }
}
