//! Mistakes of a driver that would break a real chip, or that a real chip would not report.

use std::fmt;

/// The direction of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The driver or the device reads.
    Read,
    /// The driver or the device writes.
    Write,
}

/// A fault of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The driver accessed an offset that has no register, or no register of this width.
    UnknownRegister {
        /// Byte offset in the register window.
        offset: u64,
        /// Number of bytes.
        width: u8,
        /// Direction of the access.
        access: Access,
    },
    /// A configuration register was written while 9346CR locked these registers.
    LockedWrite {
        /// Byte offset in the register window.
        offset: u64,
    },
    /// A read-only register was written.
    ReadOnly {
        /// Byte offset in the register window.
        offset: u64,
    },
    /// The address of a ring was changed while its engine was running.
    RingMovedWhileRunning {
        /// Byte offset of the address register.
        offset: u64,
    },
    /// A ring does not begin at a multiple of 256 bytes.
    UnalignedRing {
        /// Address of the ring.
        address: u64,
    },
    /// An engine was started before the driver took the chip out of its out-of-band mode.
    StartedOutOfBand,
    /// The doorbell was rung while the transmitter was off.
    DoorbellWhileStopped,
    /// The driver started an engine, rang the doorbell or requested the counters although the
    /// device was not a bus master.
    NotBusMaster,
    /// The device would have accessed memory that is not mapped for it.
    DmaOutsideMappings {
        /// Address of the first byte of the access.
        address: u64,
        /// Number of bytes of the access.
        len: u64,
        /// Direction of the access, from the device's side.
        access: Access,
    },
    /// A packet's descriptors do not begin with FS or do not end with LS, or one of them has no
    /// bytes.
    BadTxChain {
        /// Index of the descriptor in the ring.
        index: u32,
    },
    /// A descriptor asks for a checksum, a VLAN tag or segmentation, which the model does not
    /// support.
    UnmodelledOffload {
        /// Index of the descriptor in the ring.
        index: u32,
    },
    /// A frame below 60 bytes, on a chip that does not pad.
    ShortFrame {
        /// Number of bytes.
        len: usize,
    },
    /// A message of PTP that is shorter than the chip reads, on a chip that stops at it.
    ShortPtp {
        /// Number of bytes of the frame.
        len: usize,
    },
    /// A receive buffer of no bytes, or not at a multiple of 8 bytes.
    BadRxBuffer {
        /// Index of the descriptor in the ring.
        index: u32,
    },
    /// No descriptor of the ring has the end-of-ring bit.
    RingWithoutEnd {
        /// Address of the ring.
        address: u64,
    },
    /// An indirect register does not exist: its address is not a multiple of 4.
    BadWindowAddress {
        /// Offset of the register through which the indirect register was accessed.
        window: u64,
        /// Address of the indirect register.
        address: u32,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:x?}")
    }
}

/// The violations so far. Only the first ones are stored.
#[derive(Debug, Default, Clone)]
pub struct Violations {
    list: Vec<Violation>,
    count: u64,
}

impl Violations {
    const KEPT: usize = 256;

    /// Adds a violation.
    pub fn add(&mut self, violation: Violation) {
        self.count += 1;
        if self.list.len() < Self::KEPT {
            self.list.push(violation);
        }
    }

    /// Returns the first violations, oldest first.
    #[must_use]
    pub fn list(&self) -> &[Violation] {
        &self.list
    }

    /// Returns the number of violations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}
