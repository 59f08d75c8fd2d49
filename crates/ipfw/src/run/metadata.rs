use alloc::vec::Vec;

use super::config::PortIndex;
use super::search::StateSearch;
use crate::rule::RuleNumber;

/// Maximum depth of calls.
pub(super) const MAX_CALLS: usize = 16;

/// Which check of a packet this is: on input or on output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckPass {
    /// The packet comes in: `in` holds, and `via` is the port by which it comes in.
    In,
    /// The packet goes out: `out` holds, and `via` is the port by which it leaves.
    Out,
}

/// The data of a packet apart from its bytes. It is passed from check to check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketMetadata {
    /// Whether the packet is checked when it comes in or when it goes out.
    pub pass: CheckPass,
    /// The port by which the packet came in; `None` if it is unknown.
    pub recv: Option<PortIndex>,
    /// The port by which the packet leaves; `None` until it is known.
    pub xmit: Option<PortIndex>,
    /// The packet's tags.
    pub tags: Vec<u16>,
    /// The packet's mark.
    pub mark: u32,
    /// Where to continue after a pipe, queue, translator or reassembly; `None` to start at the
    /// first rule.
    pub resume: Option<ResumePoint>,
    pub(super) calls: Vec<ResumePoint>,
    /// The state names that were looked up in this pass, and how many calls and flow changes the
    /// packet has made in it. Both numbers are limited.
    pub(super) search: StateSearch,
}

/// A position in the list: the rule after which to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    pub(super) rule: u64,
    /// The number of the rule. The packet continues at the next higher number if the rule no longer
    /// exists, or if `return` says so.
    pub number: RuleNumber,
}

impl PacketMetadata {
    /// The metadata of a packet that comes in by `recv`.
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

    /// Returns the metadata of the same packet when it goes out by `xmit`. Tags and mark stay, and
    /// the search starts at the first rule.
    #[must_use]
    pub fn outgoing(self, xmit: PortIndex) -> Self {
        let (calls, search) = (Vec::new(), StateSearch::NEW);
        Self { pass: CheckPass::Out, xmit: Some(xmit), resume: None, calls, search, ..self }
    }
}
