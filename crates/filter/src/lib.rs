//! A compiler from pcap filter expressions to checked classic BPF programs.
//!
//! A text such as `tcp port 80 and not host 10.0.0.1` goes through these steps. Each step has the
//! name of its file:
//!
//! ```text
//! text -> lex -> parse, id, arith -> ast (Filter) -> layers (cond) -> codegen -> assembly
//!      -> check -> CbpfProgram -> interpreter
//! ```
//!
//! The language is that of pcap-filter(7) for Ethernet frames, as libpcap 1.10 implements it. Some
//! constructs are not supported on purpose (host names, header chains, other link types, ...). They
//! are rejected by name with a reason, never misinterpreted.
//!
//! VLAN tags are expected in the frame, as they are on the wire.
//!
//! # Invariants
//! 1. A [`CbpfProgram`] exists only after its check. It terminates, jumps only forward, and stays
//!    within its own code and memory. So [`CbpfProgram::run`] cannot fail.
//! 2. The parser accepts only expressions that can be compiled. After parsing, an expression can
//!    fail only because its program is too large or needs too much scratch memory.
//!
//! # Example
//!
//! ```
//! let program = slipring_filter::compile("ip proto \\udp or arp")?;
//! let mut frame = [0u8; 60];
//! frame[12..14].copy_from_slice(&[0x08, 0x06]);
//! assert_ne!(program.run(&frame, 60), 0);
//!
//! let error = slipring_filter::compile("tcp prt 80").unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "column 5: expected `and`, `or` or the end of the filter, found `prt`",
//! );
//! # Ok::<(), slipring_filter::FilterError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]
extern crate alloc;
#[cfg(test)]
extern crate std;

/// Exists only to compile and run the example in the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod arith;
mod assembly;
mod ast;
mod check;
mod codegen;
mod cond;
mod error;
mod id;
mod insn;
mod interpreter;
mod layers;
mod lex;
mod mnemonic;
mod names;
mod parse;
mod program;
#[cfg(test)]
mod tests;

pub use ast::Filter;
pub use check::CbpfProgramError;
pub use error::FilterError;
pub use insn::CbpfInsn;
pub use mnemonic::Mnemonic;
pub use program::CbpfProgram;

/// Maximum number of bytes of an accepted frame that a program of [`compile`] keeps. As in usual
/// capture programs, it is so large that whole frames are kept.
pub const DEFAULT_SNAP_LEN: u32 = 262_144;

/// Compiles a filter expression. An empty expression accepts every frame.
///
/// # Errors
/// The errors of [`Filter::parse`] and [`Filter::compile`].
pub fn compile(text: &str) -> Result<CbpfProgram, FilterError> {
    Filter::parse(text)?.compile(DEFAULT_SNAP_LEN)
}
