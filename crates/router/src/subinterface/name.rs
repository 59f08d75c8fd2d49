//! Names of subinterfaces: `IF.VID` and `IF.VID.VID`.

use slipring_fib::VlanTags;

/// The TPID of a customer VLAN, for a single tag and the inner one of two (IEEE 802.1Q).
const CUSTOMER_TPID: u16 = 0x8100;
/// The TPID of a service VLAN, for the outer one of two tags (IEEE 802.1ad).
const SERVICE_TPID: u16 = 0x88a8;

/// The parts of a subinterface's name: the parent and the VLAN tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubinterfaceName {
    /// Name of the interface that carries the tagged frames.
    pub(crate) parent: String,
    /// The tags of its frames.
    pub(crate) tags: VlanTags,
}

impl SubinterfaceName {
    /// Parses `eth1.100`, or `eth1.100.7` with the outer identifier first; `None` for other names.
    /// Identifiers are 1 to 4094.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (rest, last) = name.rsplit_once('.')?;
        let last = vlan_id(last)?;
        let outer = rest.rsplit_once('.').and_then(|(parent, id)| Some((parent, vlan_id(id)?)));
        let (parent, tags) = match outer {
            Some((parent, outer)) => {
                let inner = Some((CUSTOMER_TPID, last));
                (parent, VlanTags { outer: Some((SERVICE_TPID, outer)), inner })
            }
            None => (rest, VlanTags { outer: Some((CUSTOMER_TPID, last)), inner: None }),
        };
        (!parent.is_empty()).then(|| Self { parent: parent.to_owned(), tags })
    }
}

/// Parses a VLAN identifier. Only the decimal form without leading zeros is accepted.
fn vlan_id(text: &str) -> Option<u16> {
    let id = text.parse().ok().filter(|id: &u16| (1..=4094).contains(id))?;
    (id.to_string() == text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Option<(String, VlanTags)> {
        SubinterfaceName::parse(name).map(|it| (it.parent, it.tags))
    }

    #[test]
    fn a_name_says_the_parent_and_the_tags() {
        let one = VlanTags { outer: Some((0x8100, 100)), inner: None };
        assert_eq!(parsed("eth1.100"), Some(("eth1".into(), one)));
        let two = VlanTags { outer: Some((0x88a8, 100)), inner: Some((0x8100, 7)) };
        assert_eq!(parsed("eth1.100.7"), Some(("eth1".into(), two)));
    }

    #[test]
    fn a_parent_may_have_a_dot_in_its_name() {
        let one = VlanTags { outer: Some((0x8100, 4094)), inner: None };
        assert_eq!(parsed("lan.a.4094"), Some(("lan.a".into(), one)));
    }

    #[test]
    fn names_without_valid_identifiers_name_no_subinterface() {
        for name in ["eth1", "eth1.0", "eth1.4095", "eth1.+1", "eth1.01", ".100", "eth1.", "eth1.x"]
        {
            assert_eq!(parsed(name), None, "{name}");
        }
    }
}
