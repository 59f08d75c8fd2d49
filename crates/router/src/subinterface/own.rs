//! Subinterfaces of the plan.

use slipring_fib::VlanTags;
use slipring_port::iface::Iface;

/// A subinterface of the plan.
#[derive(Clone, Debug)]
pub(crate) struct OwnSubinterface {
    /// The name, as typed. The TAP device has the same name.
    pub(crate) name: String,
    /// The interface that carries the subinterface's frames.
    pub(crate) parent: Iface,
    pub(crate) tags: VlanTags,
}

impl OwnSubinterface {
    /// The MTU of the TAP device. The kernel lets a frame exceed the parent's MTU by a tag of type
    /// 0x8100, but not by the two tags of a service VLAN. So these two tags reduce the MTU.
    pub(crate) const fn mtu(&self) -> u32 {
        const TWO_TAGS_LEN: u32 = 8;
        match self.tags.inner {
            Some(_) => self.parent.mtu.saturating_sub(TWO_TAGS_LEN),
            None => self.parent.mtu,
        }
    }

    /// Returns the tags as text.
    pub(crate) fn tag_words(&self) -> String {
        match (self.tags.outer, self.tags.inner) {
            (Some((_, outer)), Some((_, inner))) => format!("VLAN {inner} in service VLAN {outer}"),
            (Some((_, only)), _) => format!("VLAN {only}"),
            _ => String::new(),
        }
    }
}

/// Returns the identifiers of outer tags, without repetitions.
pub(super) fn vlan_ids(tags: impl Iterator<Item = VlanTags>) -> Vec<u16> {
    let mut ids: Vec<u16> = tags.filter_map(|tags| Some(tags.outer?.1)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
