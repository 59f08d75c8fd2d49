//! Code that the tests of several crates need.
//!
//! Values own all resources. When a value is dropped, even after a panic, its programs end, and its
//! namespaces and directories are removed. Nothing has a name that another test could also use.
//!
//! ```
//! use slipring_test_support::{Namespace, Program, installed};
//!
//! fn the_two_ends_of_a_cable_answer_each_other() {
//!     let (Some(left), Some(right)) = (Namespace::new(), Namespace::new()) else { return };
//!     if !installed("ping") {
//!         return;
//!     }
//!     left.cable("e0", &right, "e0", "");
//!     left.ip("addr add 10.9.0.1/24 dev e0");
//!     right.ip("addr add 10.9.0.2/24 dev e0");
//!     let ping = Program::start(&left, "ping", "-c 1 10.9.0.2").finish().well();
//!     assert!(ping.stdout.contains("1 received"));
//! }
//! the_two_ends_of_a_cable_answer_each_other();
//! ```
//!
//! | for | use |
//! |---|---|
//! | a network of its own | [`Namespace`], [`Lab`] |
//! | a program in it, with a run directory of its own | [`Program`]; outside all namespaces, [`program::output`] |
//! | a daemon, and C programs on its device | [`Sandbox`] |
//! | a program on a terminal | [`pty::OnTerminal`] |
//! | descriptors whose end the kernel must see immediately | [`close`] |
//! | waiting until something happens | [`eventually`], with [`accepts`] for a socket |
//! | a program that another user runs | [`program::copy_into`], [`Sandbox::copy_of`] |
//! | skipping a test on a machine that lacks something | [`skip!`], [`installed`], [`is_root`], [`user_namespaces_allowed`] |
//! | an expected text in a file | [`golden::check`] |
//! | a protocol between threads | `models`, with the feature of that name |
//! | frames | [`frames`] |
//! | JSON or OpenMetrics that others can read | [`oracle`] |
//!
//! Not for code that only one crate needs. Such code is in the tests of that crate.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod closing;
pub mod frames;
pub mod golden;
pub mod lab;
#[cfg(feature = "models")]
pub mod models;
pub mod namespace;
pub mod oracle;
pub mod program;
pub mod pty;
pub mod sandbox;
mod skipping;
mod sys;
pub mod tree;
mod waiting;

pub use closing::close;
pub use lab::{Lab, LabPort};
pub use namespace::Namespace;
pub use program::{FinishedProgram, Program};
pub use sandbox::Sandbox;
pub use skipping::{installed, is_root, user_namespaces_allowed};
pub use waiting::{TIMEOUT, accepts, eventually};
