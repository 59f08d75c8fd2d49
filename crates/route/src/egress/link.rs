//! Link headers of frames that leave.

use slipring_wire::MacAddr;
use slipring_wire::assigned::{EtherType, VlanTag};

use crate::verdict::LinkPrefix;
use crate::view::{MAX_LINK_LEN, PortFacts};

/// MAC addresses, tags and type of a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkHeader {
    bytes: [u8; MAX_LINK_LEN],
    len: usize,
}

impl LinkHeader {
    /// The header of a frame from a port to `mac`. The DSCP's class selector decides the priority
    /// in the tags.
    pub(crate) fn new(port: &PortFacts, mac: MacAddr, is_v6: bool, class_selector: u8) -> Self {
        let mut header = Self { bytes: [0; MAX_LINK_LEN], len: 0 };
        header.push(&mac.0);
        header.push(&port.mac.to_le_bytes()[..6]);
        let priority = port.priorities[usize::from(class_selector & 7)];
        for (tpid, vid) in [port.tags.outer, port.tags.inner].into_iter().flatten() {
            header.push(&tpid.to_be_bytes());
            header.push(&VlanTag::new(vid, priority).0.to_be_bytes());
        }
        let ethertype = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
        header.push(&ethertype.0.to_be_bytes());
        header
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// The bytes of the header.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Writes the header before `l3`. Returns the offset at which the frame now starts, and the
    /// first bytes of the header if there is no space for them.
    pub(super) fn write(&self, bytes: &mut [u8], l3: u16) -> (u16, LinkPrefix) {
        let (header, space) = (self.as_bytes(), usize::from(l3));
        if let Some(start) = space.checked_sub(header.len()) {
            bytes[start..space].copy_from_slice(header);
            return (start as u16, LinkPrefix::default());
        }
        let (before, within) = header.split_at(header.len() - space);
        bytes[..space].copy_from_slice(within);
        let mut prepend = LinkPrefix { bytes: [0; 8], len: before.len() as u8 };
        prepend.bytes[..before.len()].copy_from_slice(before);
        (0, prepend)
    }
}
