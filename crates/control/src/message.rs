//! What is said: a request, and the answer to it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::unique_keys::UniqueKeys;

/// One line of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct ControlRequest {
    /// Chosen by the client, and repeated in the answer.
    pub id: Value,
    /// The word under `do`.
    pub what: String,
    /// Everything else.
    pub args: Map<String, Value>,
}

/// What a request is answered by.
#[derive(Debug, Clone)]
pub enum ControlReply {
    /// One value.
    Once(Value),
    /// One value, and what is to happen once it is on its way, such as the end of the program.
    Then(Value, fn()),
    /// The answer to the request of this name now, and again after each period, until the client
    /// asks for something else or leaves.
    Every(&'static str, Duration),
}

/// Why a request is not obeyed, in the four parts of every error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRefusal {
    /// The stable code.
    pub code: String,
    /// What failed.
    pub summary: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl ControlRefusal {
    /// The code of requests that cannot be read.
    pub const MALFORMED: &str = "SR0014";
    /// How requests are written on the socket: the help of such a refusal.
    pub const REQUEST_FORM: &str = "write one object per line: {\"id\":1,\"do\":\"hello\"}";

    /// A request that cannot be read, and why.
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
    /// Reads a line; what is wrong comes with the id, where that could be read.
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

/// The line that answers a request, with its end.
pub(crate) fn answer_line(id: &Value, answer: &Result<Value, ControlRefusal>) -> Vec<u8> {
    let line = match answer {
        Ok(value) => json!({ "id": id, "ok": value }),
        Err(refusal) => json!({ "id": id, "error": refusal }),
    };
    format!("{line}\n").into_bytes()
}
