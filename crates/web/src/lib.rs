//! The web page of running emulators, and the HTTP gateway to their control sockets.
//!
//! ```text
//!   browser ──HTTP──> server.rs ──> guard.rs ──> api.rs ──> slipring-control ──> RUN/PID.sock
//!                     connections   checks       requests   (threads that
//!                     and limits    access       and watch  may wait)
//!                                       └──────> page.rs    the bundle of web/
//! ```
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /api/v1/running` | `[{"pid":4121,"names":["lab"]}]` |
//! | `GET /api/v1/presets` | settings of known kinds of links |
//! | `POST /api/v1/TARGET/WHAT` | the answer to `{"do":WHAT,…}` on the control socket of TARGET |
//! | `GET /api/v1/TARGET/watch?period=250ms` | the counters periodically, as server-sent events |
//!
//! TARGET is a name, a process id, or `-` for the only run. A body is an object with arguments, or
//! is empty. Errors have the four parts that all errors of slipring have, and a suitable status.
//!
//! ```
//! use std::io::{Read, Write};
//! use slipring_web::{WebGateway, WebOptions};
//!
//! let dir = std::env::temp_dir().join("slipring-nothing-runs-here");
//! let gateway = WebGateway::open(WebOptions::on("127.0.0.1:0".parse().unwrap(), &dir)).unwrap();
//! let mut stream = std::net::TcpStream::connect(gateway.address()).unwrap();
//! stream.write_all(b"GET /api/v1/running HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).unwrap();
//! assert!(answer.ends_with("[]"), "{answer}");
//! gateway.stop();
//! ```
//!
//! # Invariants
//! 1. A client without a token has no more access than on the control socket: only this user, root
//!    and, under sudo, the user who called sudo, on this machine, get answers.
//! 2. A page of another origin can neither read nor change anything.
//! 3. The memory that a request needs is limited, and it needs one waiting thread. No thread that
//!    moves frames ever waits for this crate.
//!
//! # Not for
//! TLS, users and permissions, for which a proxy can be used. The meaning of requests, which the
//! emulator decides.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod api;
mod connections;
mod counters;
mod events;
mod guard;
mod page;
mod response;
mod server;
mod token;

pub use counters::HttpCounters;
pub use page::page_missing;
pub use server::{WebGateway, WebOptions};
pub use token::AccessToken;
