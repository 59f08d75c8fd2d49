//! The messages: requests, and their answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::unique_keys::UniqueKeys;

/// A request: one line of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlRequest {
    /// A value that the client chooses. The answer repeats it.
    pub id: Value,
    /// The name of the request, which is the value of the key `do`.
    pub what: String,
    /// All other keys of the request.
    pub args: Map<String, Value>,
}

/// A successful answer.
#[derive(Debug, Clone)]
pub enum ControlReply {
    /// One value: the answer is complete.
    Once(Value),
    /// A value, and a function that runs after the value was sent. For example, it may end the
    /// program.
    Then(Value, fn()),
    /// The answer to the request with this name, which is sent immediately and again after each
    /// period. The updates end when the client sends another request or closes the connection.
    Every(&'static str, Duration),
    /// A value. After it, the connection belongs to [`ControlService::serve_stream`].
    ///
    /// [`ControlService::serve_stream`]: crate::ControlService::serve_stream
    Upgrade(Value),
}

/// Why a request is refused: the code and the texts of an error message of slipring, except its
/// note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRefusal {
    /// The stable error code.
    pub code: String,
    /// What failed, in one line.
    pub summary: String,
    /// The cause, if it is not obvious from the summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What the user can try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl ControlRefusal {
    /// The error code of malformed requests.
    pub const MALFORMED: &str = "SR0014";
    /// Describes the syntax of requests. It is the help text of the refusal of a malformed request.
    pub const REQUEST_FORM: &str = "write one object per line: {\"id\":1,\"do\":\"hello\"}";

    /// Creates the refusal of a malformed request, with its cause.
    #[must_use]
    pub fn malformed(cause: impl Into<String>) -> Self {
        Self {
            code: Self::MALFORMED.to_owned(),
            summary: "the control request cannot be obeyed".to_owned(),
            cause: Some(cause.into()),
            help: Some(Self::REQUEST_FORM.to_owned()),
        }
    }
}

impl ControlRequest {
    /// Parses a line. An error contains the request's id, or null if the id could not be parsed.
    pub(crate) fn read(line: &[u8]) -> Result<Self, Box<(Value, ControlRefusal)>> {
        let malformed = |id: Value, cause: String| Box::new((id, ControlRefusal::malformed(cause)));
        let UniqueKeys(value) = serde_json::from_slice(line).map_err(|error| {
            let kind = if error.is_data() { "" } else { "it is not JSON: " };
            malformed(Value::Null, format!("{kind}{error}"))
        })?;
        let Value::Object(mut args) = value else {
            return Err(malformed(Value::Null, "it is no object".to_owned()));
        };
        let id = args.remove("id").unwrap_or_default();
        match args.remove("do") {
            Some(Value::String(what)) => Ok(Self { id, what, args }),
            Some(_) => Err(malformed(id, "`do` is no text".to_owned())),
            None => Err(malformed(id, "`do` is missing".to_owned())),
        }
    }
}

/// Returns the line that answers a request, with its newline.
pub(crate) fn answer_line(id: &Value, answer: &Result<Value, ControlRefusal>) -> Vec<u8> {
    let line = match answer {
        Ok(value) => json!({ "id": id, "ok": value }),
        Err(refusal) => json!({ "id": id, "error": refusal }),
    };
    format!("{line}\n").into_bytes()
}
