//! Returns frames from user space to the kernel, which receives them on the interface on which they
//! arrived.
//!
//! The frame is the input of a test run of an XDP program that passes everything, with live frames:
//! the kernel continues with it as with a frame from the driver. Native XDP programs of the
//! interface do not see it again; generic ones would. For an interface with packet sockets, the
//! input goes to another program, which marks a copy of the frame and redirects it to the
//! interface.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno;
use slipring_bpf::insn::{BpfReg, exit, mov_imm};
use slipring_bpf::{Assembler, BpfCode, BpfProgram};

use crate::interception::PacketInterception;
use crate::program::context::XDP_PASS;

/// Makes the kernel receive frames. Loading its programs needs privileges; running them does not.
#[derive(Debug)]
pub struct FrameInjector {
    program: BpfProgram,
    intercepted: BTreeMap<u32, BpfProgram>,
}

impl FrameInjector {
    pub(crate) const fn new(program: BpfProgram) -> Self {
        Self { program, intercepted: BTreeMap::new() }
    }

    /// Lets injected frames of an interface pass its interception, which would otherwise take them
    /// again.
    ///
    /// # Errors
    /// The kernel's error, if the process has too many open descriptors.
    pub fn pass_interception(&mut self, interception: &PacketInterception) -> io::Result<()> {
        self.intercepted.insert(interception.ifindex(), interception.injection()?);
        Ok(())
    }

    /// Makes the kernel receive a frame as if it came from an interface of the calling thread's
    /// namespace. The frame starts at the destination MAC address.
    ///
    /// # Errors
    /// The kernel's error: EINVAL for a frame that does not fit a page, ENOBUFS if the kernel's
    /// receive queue is full.
    pub fn receive(&self, frame: &[u8], ifindex: u32) -> io::Result<()> {
        let Some(program) = self.intercepted.get(&ifindex) else {
            return self.program.run_as_received(frame, ifindex);
        };
        match program.test_run(frame, 1)?.result as i32 {
            0 => Ok(()),
            // 1 is NET_RX_DROP: the kernel's receive queue is full.
            1 => Err(Errno::NOBUFS.into()),
            error => Err(io::Error::from_raw_os_error(-error)),
        }
    }
}

pub(crate) fn pass_program() -> BpfCode {
    let mut program = Assembler::new();
    program.put_all([mov_imm(BpfReg::R0, XDP_PASS), exit()]);
    program.assemble().expect("the program has no labels")
}
