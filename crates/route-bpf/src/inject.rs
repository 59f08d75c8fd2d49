//! Frames that user space leaves to the kernel after all: the kernel receives them on the interface
//! on which they arrived.
//!
//! The frame is the input of a test run of a program that passes everything, with live frames: the
//! kernel continues with it as with a frame from the driver. Programs of the interface in the driver
//! do not see it again; those in the stack would.

use std::io;

use slipring_bpf::insn::{BpfReg, exit, mov_imm};
use slipring_bpf::{Assembler, BpfCode, BpfProgram};

use crate::program::context::XDP_PASS;

/// Has the kernel receive frames. Loading its program needs privileges, running it does not.
#[derive(Debug)]
pub struct FrameInjector {
    program: BpfProgram,
}

impl FrameInjector {
    pub(crate) const fn new(program: BpfProgram) -> Self {
        Self { program }
    }

    /// Has the kernel receive a frame, from the destination MAC address on, as from an interface of
    /// the calling thread's namespace.
    ///
    /// # Errors
    /// The kernel's error: EINVAL for a frame that does not fit a page.
    pub fn receive(&self, frame: &[u8], ifindex: u32) -> io::Result<()> {
        self.program.run_as_received(frame, ifindex)
    }
}

pub(crate) fn pass_program() -> BpfCode {
    let mut program = Assembler::new();
    program.put_all([mov_imm(BpfReg::R0, XDP_PASS), exit()]);
    program.assemble().expect("the program has no labels")
}
