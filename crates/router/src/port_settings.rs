//! Settings of ports that a running router can replace.

use slipring_fib::{ReversePathMode, VrfConfig};
use slipring_route::PolicerSpec;
use slipring_rtnetlink::TABLE_LOCAL;

/// The settings of all ports, in the order of their indices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PortSettings {
    /// How sources are checked, even if the kernel does not check them.
    pub(crate) source_checks: Vec<ReversePathMode>,
    /// The rates at which packets are accepted.
    pub(crate) policers: Vec<Option<PolicerSpec>>,
    /// The VRFs in which the kernel must look packets up; `None` for ports without a section
    /// `[[vrf]]`.
    pub(crate) vrfs: Vec<Option<InterfaceVrf>>,
}

/// The VRF of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceVrf {
    pub(crate) name: String,
    pub(crate) table: u32,
}

impl InterfaceVrf {
    /// Whether this VRF's table is the first of `tables` apart from the table `local`, in each
    /// family that the kernel supports.
    pub(crate) fn is_first_in(&self, tables: &VrfConfig) -> bool {
        [&tables.v4, &tables.v6].into_iter().all(|list| {
            list.iter().find(|table| **table != TABLE_LOCAL).is_none_or(|it| *it == self.table)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_those_of_the_vrf_if_it_is_their_first() {
        let red = InterfaceVrf { name: "red".to_owned(), table: 100 };
        let tables = |v4: &[u32], v6: &[u32]| VrfConfig { v4: v4.into(), v6: v6.into() };
        assert!(red.is_first_in(&tables(&[255, 100, 254], &[255, 100])));
        assert!(red.is_first_in(&tables(&[100], &[])), "there is no IPv6");
        assert!(!red.is_first_in(&tables(&[255, 254, 100], &[255, 100])));
        assert!(!red.is_first_in(&tables(&[255, 100], &[255, 254])));
    }
}
