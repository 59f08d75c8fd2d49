//! VLANs: the membership of ports, and its effect on a frame's tag.
//!
//! Only the customer tag (0x8100) counts; a frame with a service tag (0x88a8) is untagged here.

use alloc::boxed::Box;

use crate::config::SwitchConfigError;

/// A VLAN id, 1 to 4094.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// The VLAN of ports without VLAN configuration.
    pub const DEFAULT: Self = Self(1);

    /// Checks an id.
    ///
    /// # Errors
    /// [`SwitchConfigError::VlanId`] if `id` is not 1 to 4094.
    pub const fn new(id: u16) -> Result<Self, SwitchConfigError> {
        if id >= 1 && id <= 4094 { Ok(Self(id)) } else { Err(SwitchConfigError::VlanId(id)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A set of VLANs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; 64]>);

impl VlanSet {
    /// All VLANs.
    #[must_use]
    pub fn all() -> Self {
        Self(Box::new([u64::MAX; 64]))
    }

    /// Whether the set contains a VLAN.
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

/// The VLAN membership of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VlanMembership {
    /// The port is in one VLAN: frames leave untagged; they enter untagged or tagged with this
    /// VLAN.
    Access(VlanId),
    /// The port is in several VLANs: frames are tagged, except those of the native VLAN.
    Trunk {
        /// The VLAN of untagged frames; if `None`, untagged frames are dropped.
        native: Option<VlanId>,
        /// The permitted VLANs.
        allowed: VlanSet,
    },
}

impl Default for VlanMembership {
    fn default() -> Self {
        Self::Access(VlanId::DEFAULT)
    }
}

/// How the caller must change the tag of a copy: the four bytes after the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagAction {
    /// Leave the tag unchanged.
    Keep,
    /// Remove the tag.
    Remove,
    /// Insert a tag with this VLAN.
    Insert(u16),
    /// Write this VLAN to the existing tag; the priority bits stay.
    Replace(u16),
}

/// The tag in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameTag {
    No,
    /// A tag with this VLAN id; 0 for a tag with a priority only.
    With(u16),
}

impl VlanMembership {
    /// The VLAN of a frame that enters here; `None` if it is not permitted.
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

/// How frames leave a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VlanEgress {
    /// Unchanged: the switch is not VLAN-aware.
    AsIs,
    Untagged,
    /// Tagged, except frames of the native VLAN (0: none).
    Tagged {
        native: u16,
    },
}

impl VlanEgress {
    /// How to change the tag of a frame of VLAN `id` that arrived with the tag `tagged`.
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
