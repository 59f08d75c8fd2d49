//! Models of emulated links as WebAssembly modules: the user's own loss, delay and rate, without
//! trust and without a compiler of ours.
//!
//! # The interface, version 1
//!
//! A module exports
//!
//! | name | type | what |
//! |---|---|---|
//! | `slipring_abi` | `() -> i32` | 1: it is written for this interface |
//! | a delay, usually `delay_ns` | `(now_ns: i64, len: i32, number: i64) -> i64` | how long the frame travels, in ns |
//! | a loss, usually `lose` | `(now_ns: i64, len: i32, number: i64) -> i32` | 0: it goes on, 1: it is lost, 2: it is marked (ECN), and lost if it cannot be |
//! | a rate, usually `finish_ns` | `(start_ns: i64, wire_bytes: i32, number: i64) -> i64` | when the line is through with it, in ns, `start_ns` or later |
//! | `slipring_header` | `() -> i32` | where the first bytes of the frame are to be put before each delay or loss; optional |
//! | `slipring_header_len` | `() -> i32` | how many at most; the rest of that room is zeros |
//! | `slipring_rewrites` | `() -> i32` | not 0: after each delay or loss the frame gets its first bytes back from there, as they are then; optional |
//! | `memory` | memory | needed for the header only |
//!
//! and may import from `slipring`
//!
//! | name | type | what |
//! |---|---|---|
//! | `random` | `() -> i64` | 64 random bits, by the seed, the link, the stage and the frame's number |
//! | `uniform` | `() -> f64` | a number in `[0, 1)` from there |
//! | `param` | `(i32) -> f64` | the number with that index in the settings, from 0 |
//!
//! `number` is that of the frame: how many reached its link before it (for a rate: how many the
//! model was asked about before). Times are those of the
//! link's clock, lengths without FCS; `wire_bytes` has the framing in it.
//!
//! # Invariants
//! 1. A call that traps, runs out of fuel or answers nonsense costs its frame, which is lost as
//!    [`Cause::Model`](slipring_link::Cause::Model), and nothing else. The module goes on with
//!    the memory as that call left it.
//! 2. A module sees nothing but what is above: no clock, no file, no memory of ours. The same
//!    seed, settings and frames give the same answers everywhere; bits of NaNs are canonical.
//! 3. Each link and direction has an instance of its own. A change of the link keeps it, with its
//!    memory, unless module, function, parameters or limits change.
//!
//! ```
//! use slipring_link::{DelayModel, DelaySpec, LinkSpec};
//! use slipring_wasm::{ModuleLimits, WasmModule};
//!
//! // (func (export "delay_ns") (param i64 i32 i64) (result i64) (i64.const 5000)), and the version
//! let bytes = wat::parse_str(
//!     r#"(module
//!          (func (export "slipring_abi") (result i32) (i32.const 1))
//!          (func (export "delay_ns") (param i64 i32 i64) (result i64) (i64.const 5000)))"#,
//! )?;
//! let module = WasmModule::read(&bytes, ModuleLimits::default())?;
//! let model = DelayModel::User(module.delay("delay_ns", &[])?);
//! let link = LinkSpec { delay: DelaySpec { model, half_life_ns: None }, ..LinkSpec::wire("up") };
//! # let _ = link;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Not for: models that the link crate has; those cost nanoseconds, a call here some tens more.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
mod machine;
mod models;
mod module;

pub use error::ModuleError;
pub use module::{ModuleLimits, WasmModule};

/// The version of the interface.
pub const ABI_VERSION: i32 = 1;
