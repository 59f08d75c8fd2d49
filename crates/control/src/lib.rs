//! The control socket of a running program: JSON lines over a unix stream socket.
//!
//! ```text
//!   RUN/PID.sock    mode 0600; only the same user and root get an answer, and are trusted
//!   RUN/NAME.sock   a link to it, if the run has a name
//!
//!   {"id":1,"do":"stats"}  ->  {"id":1,"ok":{…}}
//!                          or  {"id":1,"error":{"code":…,"summary":…,"cause":…,"help":…}}
//! ```
//!
//! ```
//! use slipring_control::{
//!     ControlClient, ControlRefusal, ControlReply, ControlRequest, ControlServer, ControlService, running,
//! };
//!
//! struct Counter;
//!
//! impl ControlService for Counter {
//!     fn answer(&self, request: &ControlRequest) -> Result<ControlReply, ControlRefusal> {
//!         match request.what.as_str() {
//!             "count" => Ok(ControlReply::Once(serde_json::json!({ "count": 7 }))),
//!             other => Err(ControlRefusal::malformed(format!("nobody knows `{other}`"))),
//!         }
//!     }
//! }
//!
//! let dir = std::env::temp_dir().join(format!("slipring-doc-{}", std::process::id()));
//! let server = ControlServer::open(&dir, Some("counter"), Box::new(Counter))?;
//! let mut client = ControlClient::find(&dir, Some("counter"))?;
//! assert_eq!(client.request("count", serde_json::json!({}))?["count"], 7);
//! drop(server);
//! assert!(running(&dir).is_empty());
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok::<(), slipring_control::ControlError>(())
//! ```
//!
//! # Invariants
//! 1. A client that is slow, stops or sends invalid data delays no other client, because each
//!    client has a separate thread.
//! 2. After a request that cannot be handled, the client gets an error and can use the connection
//!    as before.
//! 3. Sockets on which no process listens are removed from the run directory when the next program
//!    starts.
//!
//! [`metrics`] is another socket of a long-running program. It serves the program's counters to
//! Prometheus.
//!
//! # Not for
//! The meaning of requests, which the [`ControlService`] decides. Peers on other machines.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod connection;
mod directory;
mod error;
mod line_buffer;
mod message;
pub mod metrics;
pub mod peer_table;
mod server;
pub mod socket_owner;
mod unique_keys;

pub use client::{ControlClient, REPLY_TIMEOUT};
pub use directory::{RunningProgram, check_name, check_trust, running, take_name};
pub use error::ControlError;
pub use message::{ControlRefusal, ControlReply, ControlRequest};
pub use server::{ControlServer, ControlService, Reservation};
pub use unique_keys::UniqueKeys;
