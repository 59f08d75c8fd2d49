//! VLANs: who is in which, and what that does to a frame's tag.
//!
//! Only the customer tag (0x8100) counts; a service tag (0x88a8) makes a frame untagged here.

use alloc::boxed::Box;

use crate::config::SwitchConfigError;

/// A VLAN's number, 1 to 4094.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VlanId(u16);

impl VlanId {
    /// The VLAN of ports that were told nothing.
    pub const DEFAULT: Self = Self(1);

    /// Checks a number.
    ///
    /// # Errors
    /// [`SwitchConfigError::VlanId`] outside 1 to 4094.
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

    /// Whether a VLAN is in it.
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

/// A port's place among the VLANs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VlanMembership {
    /// In one VLAN: what leaves is untagged; what enters untagged, or tagged with that VLAN.
    Access(VlanId),
    /// In several: frames carry a tag, but those of the native VLAN.
    Trunk {
        /// The VLAN of untagged frames; without it they are dropped.
        native: Option<VlanId>,
        /// The VLANs that may pass.
        allowed: VlanSet,
    },
}

impl Default for VlanMembership {
    fn default() -> Self {
        Self::Access(VlanId::DEFAULT)
    }
}

/// What the caller does to the tag of a copy: the four bytes behind the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagAction {
    /// Nothing.
    Keep,
    /// Takes it out.
    Remove,
    /// Puts a tag with this VLAN in.
    Insert(u16),
    /// Puts this VLAN into the tag that is there; priority bits stay.
    Replace(u16),
}

/// What a frame's own tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameTag {
    No,
    /// With a VLAN, or 0 for priority only.
    With(u16),
}

impl VlanMembership {
    /// The VLAN of a frame that enters here; `None` if it may not.
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
    /// As they came: the switch knows no VLANs.
    AsIs,
    Untagged,
    /// Tagged, but for the native VLAN (0: none).
    Tagged {
        native: u16,
    },
}

impl VlanEgress {
    /// What to do to a frame of VLAN `id` that came tagged like this.
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
