//! A checked classic BPF program.

use alloc::vec::Vec;

use crate::check::{self, CbpfProgramError};
use crate::insn::CbpfInsn;
use crate::interpreter::{self, DecodedInsn};

/// A classic BPF program that has passed the check.
///
/// # Invariants
/// Every jump leads forward and stays within the program, the last instruction returns, and every
/// memory slot exists and is written before it is read.
#[derive(Debug, Clone)]
pub struct CbpfProgram {
    insns: Vec<CbpfInsn>,
    /// The same instructions, decoded for the interpreter.
    steps: Vec<DecodedInsn>,
}

impl CbpfProgram {
    /// Creates a program from instructions of another source, after checking them.
    ///
    /// # Errors
    /// The [`CbpfProgramError`] for the first rule that the instructions violate.
    pub fn from_raw(insns: Vec<CbpfInsn>) -> Result<Self, CbpfProgramError> {
        check::check(&insns)?;
        let steps = interpreter::decode(&insns);
        Ok(Self { insns, steps })
    }

    /// Returns the instructions, with the layout of the `struct sock_filter` array of
    /// `SO_ATTACH_FILTER`.
    #[must_use]
    pub fn insns(&self) -> &[CbpfInsn] {
        &self.insns
    }

    /// Returns the instructions as the bytes of a `struct sock_filter` array, in native byte order.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.insns.len() * size_of::<CbpfInsn>());
        for insn in &self.insns {
            bytes.extend_from_slice(&insn.code.to_ne_bytes());
            bytes.extend_from_slice(&[insn.jt, insn.jf]);
            bytes.extend_from_slice(&insn.k.to_ne_bytes());
        }
        bytes
    }

    /// Runs the program on a frame. Returns how many bytes of the frame to keep, or 0 if the frame
    /// is rejected.
    ///
    /// `frame` are the captured bytes, from the start of the Ethernet header, with VLAN tags.
    /// `wire_len` is the length that the frame had on the wire, in bytes (`len` in a filter
    /// expression). A program that reads beyond `frame` or divides by zero rejects the frame.
    #[must_use]
    pub fn run(&self, frame: &[u8], wire_len: u32) -> u32 {
        interpreter::run(&self.steps, frame, wire_len).unwrap_or(0)
    }
}

impl PartialEq for CbpfProgram {
    fn eq(&self, other: &Self) -> bool {
        self.insns == other.insns
    }
}

impl Eq for CbpfProgram {}
