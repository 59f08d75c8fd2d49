//! A helper process that keeps a program's capabilities and answers a short list of requests.
//!
//! ```text
//!   program, no capability              helper, CAP_NET_ADMIN
//!   request: 32 bytes  --socket pair--> parse --> allowed? --> do it
//!   result, descriptor <--------------- error number
//!        '--- the helper ends with the program; the program with the helper, if `end_with_it` ---'
//! ```
//!
//! The helper runs the same executable with its role in `argv[0]`, so it shares no memory or
//! mapping with the program. It closes all descriptors that it inherited, except for its end of the
//! socket pair. The allowed operations and interfaces are its arguments: the program fixes them
//! before it reads its first frame.
//!
//! For a program that becomes another user, the helper also removes the files of this run of the
//! program, such as its socket ([`RunFiles`]). It does so when the program asks for it or has
//! ended.
//!
//! A program that violates the protocol is assumed to be compromised. The helper ends immediately
//! on a message with a wrong size, version or field, an unknown operation, or an unexpected or
//! missing descriptor, and after [`MAX_REQUESTS`]. A well-formed request that is not allowed is
//! answered with EPERM.
//!
//! # Not for
//! Requests that contain paths or commands, or permissions of different users: a helper serves one
//! program.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod client;
mod directory;
mod message;
mod policy;
mod run_files;
mod serve;
mod transfer;

pub use client::PrivilegedHelper;
pub use message::{HelperRequest, MAX_REQUESTS, REQUEST_LEN, RequestFault};
pub use policy::{HelperOperation, HelperPolicy};
pub use run_files::RunFiles;
pub use serve::serve_if_started_as_helper;
