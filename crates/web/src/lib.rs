//! The web page of running emulators, and the HTTP gateway to their control sockets.
//!
//! ```text
//!   browser ──HTTP──> server.rs ──> guard.rs ──> api.rs ──> slipring-control ──> RUN/PID.sock
//!                     connections   who may      asks       (threads that
//!                     and limits    ask what     and watches may wait)
//!                                       └──────> page.rs    the bundle of web/
//! ```
//!
//! | request | answer |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /api/v1/running` | `[{"pid":4121,"names":["lab"]}]` |
//! | `GET /api/v1/presets` | settings of known kinds of links |
//! | `POST /api/v1/TARGET/WHAT` | what `{"do":WHAT,…}` is answered by on the control socket of TARGET |
//! | `GET /api/v1/TARGET/watch?period=250ms` | the figures again and again, as server-sent events |
//!
//! TARGET is a name or a process number, or `-` for the only one that runs. A body is the object
//! of arguments, or nothing. Errors have the parts of every error, and a status that fits.
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
//! 1. Nobody gets further here than on the control socket, unless a token says so: without one,
//!    only this user and root on this machine are answered.
//! 2. A page of another origin can neither read nor change anything.
//! 3. No request costs more than its own bounded memory and one thread that waits; nothing here
//!    is ever waited for by a thread that moves frames.
//!
//! # Not for
//! TLS, users and rights: that is a proxy's. Knowing what requests mean: that is the emulator's.

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
mod socket_owner;
mod token;

pub use counters::HttpCounters;
pub use page::page_missing;
pub use server::{WebGateway, WebOptions};
pub use token::AccessToken;
