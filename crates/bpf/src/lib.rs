//! Small BPF programs: a process writes them as instructions, loads them and attaches them itself.
//!
//! ```text
//!   Assembler --> BpfCode --+-- bind(maps) --> BpfProgram::load --> attach --> BpfLink
//!   labels, maps            |                  kernel, verifier                 dropping it, or
//!   by name                 |                                                  death, detaches
//!                           '-- Interpreter::run: the same instructions, no kernel, no privilege
//! ```
//!
//! Maps of a program are named in its code and bound when it is loaded, so the same [`BpfCode`]
//! runs in the kernel and in the [`Interpreter`], which tests use as the oracle. With a
//! [`MappedArray`], a process can change the behaviour of an attached program without a system
//! call: the values of an array map are mapped into the process. It accesses them word by word
//! through atomics, since the program reads and writes them at the same time.
//!
//! All kernel objects are held by descriptors: a link detaches its program when its descriptor is
//! closed, so a killed process leaves the interface as it was. No compiler, object file or mounted
//! bpffs is needed.
//!
//! # Not for
//! Programs that users supply, subprograms, global functions, CO-RE. The interpreter checks the
//! accesses of a program for a given frame; only the kernel's verifier decides whether a program
//! may be loaded.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod array;
mod assembler;
mod btf;
mod error;
pub mod insn;
mod interpreter;
mod map;
mod program;
mod sys;

pub use array::{AtomicInt, MappedArray};
pub use assembler::{AssembleError, Assembler, BpfCode};
pub use btf::{KernelTypes, kernel_function};
pub use error::BpfError;
pub use interpreter::{
    BpfRedirect, Fault, Interpreter, KernelFunction, MemoryView, SimulatedMap, XdpMeta, XdpOutcome,
};
pub use map::{BpfMap, BpfMapKind, BpfMapSpec, UpdateMode};
pub use program::{
    BpfAttachType, BpfLink, BpfLinkFlags, BpfProgram, BpfProgramFlags, BpfProgramKind, TestRun,
    attached_programs,
};
