//! VLANs: which ports belong to one, and how a frame's tag changes on the way.
//!
//! Only customer tags (0x8100) count. A frame with a service tag (0x88a8) is treated as untagged.

use alloc::boxed::Box;

use crate::config::SwitchConfigError;

/// A VLAN id, 1 to 4094.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// The VLAN of ports that have no VLAN configuration.
    pub const DEFAULT: Self = Self(1);

    /// Creates a VLAN id.
    ///
    /// # Errors
    /// [`SwitchConfigError::VlanId`] if `id` is not 1 to 4094.
    pub const fn new(id: u16) -> Result<Self, SwitchConfigError> {
        if id >= 1 && id <= 4094 { Ok(Self(id)) } else { Err(SwitchConfigError::VlanId(id)) }
    }

    /// Returns the id as a number, 1 to 4094.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A set of VLANs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; 64]>);

impl VlanSet {
    /// Returns the set of all VLANs, 1 to 4094.
    #[must_use]
    pub fn all() -> Self {
        let mut bits = Box::new([u64::MAX; 64]);
        // IEEE 802.1Q reserves 4095: it is never configured, and no frame is forwarded with it. 0
        // stands for no VLAN.
        bits[0] &= !1;
        bits[63] &= !(1 << 63);
        Self(bits)
    }

    /// Returns whether the set contains a VLAN.
    #[must_use]
    pub fn contains(&self, id: VlanId) -> bool {
        self.has(id.0)
    }

    fn has(&self, id: u16) -> bool {
        self.0[usize::from(id >> 6) & 63] >> (id & 63) & 1 != 0
    }
}

impl FromIterator<VlanId> for VlanSet {
    fn from_iter<I: IntoIterator<Item = VlanId>>(ids: I) -> Self {
        let mut bits = Box::new([0; 64]);
        for VlanId(id) in ids {
            bits[usize::from(id >> 6)] |= 1 << (id & 63);
        }
        Self(bits)
    }
}

/// The VLAN membership of a port. A frame that enters with VLAN 0 in its tag counts as untagged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VlanMembership {
    /// The port is in one VLAN. Frames leave it untagged. Frames that enter must be untagged or
    /// tagged with this VLAN.
    Access(VlanId),
    /// The port is in several VLANs. Frames leave it with a tag, except those of the native VLAN.
    Trunk {
        /// The VLAN of untagged frames; if `None`, untagged frames are dropped.
        native: Option<VlanId>,
        /// The VLANs whose frames may enter and leave, besides the native VLAN.
        allowed: VlanSet,
    },
}

impl Default for VlanMembership {
    fn default() -> Self {
        Self::Access(VlanId::DEFAULT)
    }
}

/// How the caller must change the tag when it copies a frame. A tag is the four bytes after the
/// addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagAction {
    /// Leave the tag unchanged.
    Keep,
    /// Remove the tag.
    Remove,
    /// Insert a tag with this VLAN.
    Insert(u16),
    /// Write this VLAN to the existing tag; the priority bits stay unchanged.
    Replace(u16),
}

/// The VLAN tag that a frame arrived with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameTag {
    No,
    /// A tag with this VLAN id, which is 0 if the tag has only a priority.
    With(u16),
}

impl VlanMembership {
    /// Returns the VLAN of a frame that enters at this port; `None` if the port does not accept the
    /// frame.
    pub(crate) fn ingress(&self, tag: FrameTag) -> Option<u16> {
        match (self, tag) {
            (Self::Access(own), FrameTag::No | FrameTag::With(0)) => Some(own.0),
            (Self::Access(own), FrameTag::With(id)) => (own.0 == id).then_some(id),
            (Self::Trunk { native, .. }, FrameTag::No | FrameTag::With(0)) => {
                native.map(VlanId::get)
            }
            (Self::Trunk { .. }, FrameTag::With(id)) => self.is_member(id).then_some(id),
        }
    }

    pub(crate) fn is_member(&self, id: u16) -> bool {
        match self {
            Self::Access(own) => own.0 == id,
            Self::Trunk { native, allowed } => {
                allowed.has(id) || native.is_some_and(|native| native.0 == id)
            }
        }
    }

    pub(crate) fn egress(&self) -> VlanEgress {
        match self {
            Self::Access(_) => VlanEgress::Untagged,
            Self::Trunk { native, .. } => {
                VlanEgress::Tagged { native: native.map_or(0, VlanId::get) }
            }
        }
    }
}

/// How the switch changes the tags of frames that leave a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VlanEgress {
    /// Frames leave unchanged, because the switch is not VLAN-aware.
    AsIs,
    Untagged,
    /// Frames leave tagged, except those of the native VLAN, given here; 0 if there is no native
    /// VLAN.
    Tagged {
        native: u16,
    },
}

impl VlanEgress {
    /// Returns how to change the tag of a frame of VLAN `id` that arrived with the tag `tagged`.
    #[inline]
    pub(crate) fn tag(self, id: u16, tagged: FrameTag) -> TagAction {
        let untagged = match self {
            Self::AsIs => return TagAction::Keep,
            Self::Untagged => true,
            Self::Tagged { native } => native == id,
        };
        match (untagged, tagged) {
            (true, FrameTag::No) => TagAction::Keep,
            (true, FrameTag::With(_)) => TagAction::Remove,
            (false, FrameTag::No) => TagAction::Insert(id),
            (false, FrameTag::With(own)) if own == id => TagAction::Keep,
            (false, FrameTag::With(_)) => TagAction::Replace(id),
        }
    }
}
