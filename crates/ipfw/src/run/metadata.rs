use alloc::vec::Vec;

use super::config::PortIndex;
use super::search::StateSearch;
use crate::rule::RuleNumber;

/// Most calls within each other.
pub(super) const MAX_CALLS: usize = 16;

/// When a packet is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckPass {
    /// As it comes in: `in` holds, `via` is the port it came by.
    In,
    /// As it goes out: `out` holds, `via` is the port it leaves by.
    Out,
}

/// What is known of a packet besides its bytes, and goes with it from check to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketMetadata {
    /// When it is checked.
    pub pass: CheckPass,
    /// The port it came by; `None` for a frame that the firewall itself made.
    pub recv: Option<PortIndex>,
    /// The port it leaves by, once known.
    pub xmit: Option<PortIndex>,
    /// Its tags.
    pub tags: Vec<u16>,
    /// Its mark.
    pub mark: u32,
    /// Where to go on, after a pipe, queue, translator or reassembly.
    pub resume: Option<ResumePoint>,
    pub(super) calls: Vec<ResumePoint>,
    /// What it may do only so often before it goes out.
    pub(super) search: StateSearch,
}

/// A place in the list: the rule behind which to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    pub(super) rule: u64,
    /// The number of the rule, for when it is gone.
    pub number: RuleNumber,
}

impl PacketMetadata {
    /// A packet that comes in by `recv`.
    #[must_use]
    pub const fn incoming(recv: PortIndex) -> Self {
        Self {
            pass: CheckPass::In,
            recv: Some(recv),
            xmit: None,
            tags: Vec::new(),
            mark: 0,
            resume: None,
            calls: Vec::new(),
            search: StateSearch::NEW,
        }
    }

    /// The same packet as it goes out by `xmit`: tags and mark stay, the list starts over.
    #[must_use]
    pub fn outgoing(self, xmit: PortIndex) -> Self {
        let (calls, search) = (Vec::new(), StateSearch::NEW);
        Self { pass: CheckPass::Out, xmit: Some(xmit), resume: None, calls, search, ..self }
    }
}
