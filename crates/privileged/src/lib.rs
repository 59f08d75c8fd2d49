//! A process that keeps a program's capabilities and answers a short list of requests.
//!
//! ```text
//!   program, no capability              helper, CAP_NET_ADMIN
//!   request: 32 bytes  --socket pair--> parse --> allowed? --> do it
//!   result, descriptor <--------------- error number
//!        '--- the socket ends with either process, and then the other one ends too ---'
//! ```
//!
//! The helper is the same executable, started again with its role in `argv[0]`, so that it shares no
//! memory, mapping or descriptor with the program. The operations and interfaces that it allows are
//! its arguments: a program fixes them before it reads its first frame.
//!
//! A program that breaks the protocol is taken for compromised: the helper ends at once, on a message
//! of another size or version, an unknown operation, a descriptor that none asked for, and after
//! [`MAX_REQUESTS`]. What is well-formed but not allowed is answered with EPERM.
//!
//! # Not for
//! Requests with paths or commands. What a user may allow to others: it is bound to one program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod message;
mod policy;
mod serve;
mod transfer;

pub use client::PrivilegedHelper;
pub use message::{HelperRequest, MAX_REQUESTS, REQUEST_LEN, RequestFault};
pub use policy::{HelperOperation, HelperPolicy};
pub use serve::serve_if_started_as_helper;
