//! Buffers for packets under check: the parsed headers of a packet, and the results of its lookups.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::compiled::{CandidateCaches, ClassGroup, PacketState};
use super::interpret::RuleVerdict;
use crate::packet::{MalformedReason, PacketHeaders};
use crate::state::StateHash;

/// Buffers for packets, which are reused.
#[derive(Debug, Default)]
pub(super) struct CheckBuffers {
    pub(super) finders: CandidateCaches,
    /// The verdict of a run that ended with `RunEnd::Other`; `None` after other runs.
    pub(super) other: Option<RuleVerdict>,
    /// Buffer for a single packet; `None` before the first check and while a check uses it.
    pub(super) one: Option<Box<ParsedPacket>>,
    pub(super) group: Vec<ParsedPacket>,
    pub(super) by_class: Box<ClassGroup>,
}

/// A packet and the results of its lookups. The value stays in place, because a copy would cost
/// more than some rules do.
#[derive(Clone, Debug, Default)]
pub(super) struct ParsedPacket {
    pub(super) packet: PacketHeaders,
    pub(super) state: PacketState,
    pub(super) hash: Option<StateHash>,
    pub(super) fault: Option<MalformedReason>,
    /// Length of the frame in bytes.
    pub(super) len: usize,
}

impl ParsedPacket {
    /// Parses the headers of a frame, and discards the results for the previous packet.
    #[inline(always)]
    pub(super) fn read(&mut self, frame: &[u8]) -> Result<(), MalformedReason> {
        self.hash = None;
        self.state.reset();
        self.packet.read(frame)
    }

    /// Parses the headers of a frame, and keeps the packet's position in the list.
    #[inline(always)]
    pub(super) fn read_headers(&mut self, frame: &[u8]) {
        self.hash = None;
        self.fault = self.packet.read(frame).err();
        self.len = frame.len();
    }
}
