//! WebAssembly modules as models of emulated links. With a module, a user can define a delay, a
//! loss or a rate. A module is not trusted, and runs in a sandbox. No compiler needs to be
//! installed where it runs.
//!
//! # The interface, version 1
//!
//! A module exports
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `slipring_abi` | `() -> i32` | 1: the version of this interface |
//! | a delay function, by default `delay_ns` | `(now_ns: i64, len: i32, number: i64) -> i64` | travel time of the frame, in ns |
//! | a loss function, by default `lose` | `(now_ns: i64, len: i32, number: i64) -> i32` | 0: the frame continues, 1: it is lost, 2: it is marked (ECN), or lost if it cannot be marked |
//! | a rate function, by default `finish_ns` | `(start_ns: i64, wire_bytes: i32, number: i64) -> i64` | when the line has sent the frame, in ns, `start_ns` or later |
//! | `slipring_header` | `() -> i32` | address of the header window, to which the first bytes of the frame are copied before each delay or loss; optional |
//! | `slipring_header_len` | `() -> i32` | length of the header window; after a frame that is shorter than the window, the remaining bytes are zeros |
//! | `slipring_rewrites` | `() -> i32` | not 0: after each delay or loss, the bytes of the window are copied back into the frame; optional |
//! | `memory` | memory | the module's memory; only needed for the header window |
//!
//! and may import from `slipring`
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `random` | `() -> i64` | 64 random bits, derived from the seed, the link, the stage and the frame's number |
//! | `uniform` | `() -> f64` | a number in `[0, 1)` from the same stream |
//! | `param` | `(i32) -> f64` | the number with that index in the settings, from 0 |
//!
//! `number` is the frame's number: how many frames entered the network before it by the same link.
//! A frame keeps its number on later links, and a copy has that of its original. Times are those of
//! the link's clock. Lengths do not include the FCS. `wire_bytes` also includes what the line adds
//! to a frame.
//!
//! # Invariants
//! 1. A call may trap, use up its fuel or return an invalid value. This affects only the frame of
//!    that call, which is lost with the cause
//!    [`LinkDropCause::Model`](slipring_link::LinkDropCause::Model). The module's memory stays as
//!    the call has left it.
//! 2. A module has access only to its own memory and to the imports above. It has no clock and no
//!    files, and cannot access other memory of this process. The same seed, settings and frames
//!    have the same results on every machine, because NaNs have canonical bits.
//! 3. Each model of each link has its own instance of a module. So the two directions of an
//!    emulation share nothing. If the settings of the link change, the instance and its memory
//!    stay, unless the module, the function, the parameters or the limits change.
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
//! Not for models that the link crate implements itself. Such a model costs a few nanoseconds per
//! frame. The call of a module costs tens of nanoseconds more.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod error;
mod machine;
mod models;
mod module;

pub use error::ModuleError;
pub use module::{ModuleLimits, WasmModule};

/// The version of the interface between host and module.
pub const ABI_VERSION: i32 = 1;
