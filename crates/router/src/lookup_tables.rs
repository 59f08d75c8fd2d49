//! Finds which of the kernel's tables decide about the packets of each interface, according to the
//! kernel's routing rules.
//!
//! ```text
//!   ip rule:  iif eth2 lookup 100     eth0, eth1 --> VRF 0: local, main, default
//!             lookup main, ...        eth2       --> VRF 1: local, 100, main, default
//! ```
//!
//! A VRF is a list of tables. The first VRF is for this machine's own packets, and for all
//! interfaces with the same tables: as a rule, those that no rule names. The other VRFs are created
//! at the start, because creating them needs privileges: as many as the rules need then, or more if
//! the settings say so. The kernel forwards packets of interfaces for which no VRF is left, or
//! whose rules depend on more than the interface.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use netlink_sys::protocols::NETLINK_ROUTE;
use slipring_fib::{Mirror, VrfConfig, VrfIndex};
use slipring_rtnetlink::{MessageBody, Messages, RequestBuilder, RouteFamily, RuleMessage};

use crate::dump::read_dump;
use crate::port_settings::InterfaceVrf;

/// Maximum number of VRFs.
pub(crate) const MAX_VRFS: usize = 16;

/// The meaning of the routing rules for the router.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LookupTables {
    /// The tables in which packets are looked up, by VRF.
    pub(crate) vrfs: Vec<VrfConfig>,
    /// The VRF of each port; `None` for ports whose packets the kernel looks up.
    pub(crate) of_ports: Vec<Option<VrfIndex>>,
}

impl LookupTables {
    /// Evaluates the rules that the mirror contains. A VRF keeps its number as long as its tables
    /// are needed. A port for which `named` contains a VRF gets one of the router's VRFs only if
    /// its packets are looked up in the named VRF's table first, apart from the table `local`.
    pub(crate) fn of(mirror: &Mirror, ifindexes: &[u32], named: &[Option<InterfaceVrf>]) -> Self {
        let of_port = |(at, ifindex): (usize, &u32)| {
            // A VRF device has local addresses of its own, which the engines do not know. So the
            // kernel looks up the packets of its ports.
            let is_simple = !mirror.is_vrf_port(*ifindex);
            let named = named.get(at).and_then(Option::as_ref);
            let is_as_named = |tables: &VrfConfig| named.is_none_or(|vrf| vrf.is_first_in(tables));
            let tables = tables_of(|family| mirror.tables_for(family, *ifindex).ok());
            tables.filter(|tables| is_simple && is_as_named(tables))
        };
        let wanted: Vec<_> = ifindexes.iter().enumerate().map(of_port).collect();
        let own = tables_of(|family| mirror.tables_for_output(family).ok());
        assign(&wanted, own.unwrap_or_default(), &mirror.vrf_configs())
    }
}

/// Assigns a VRF to each list of tables, as long as there are unused VRFs.
fn assign(wanted: &[Option<VrfConfig>], own: VrfConfig, vrfs: &[VrfConfig]) -> LookupTables {
    let mut vrfs = vrfs.to_vec();
    vrfs[0] = own;
    let is_wanted = |config: &VrfConfig| wanted.iter().flatten().any(|wanted| wanted == config);
    let mut free: Vec<_> = (1..vrfs.len()).filter(|at| !is_wanted(&vrfs[*at])).rev().collect();
    for config in wanted.iter().flatten() {
        if !vrfs.contains(config)
            && let Some(at) = free.pop()
        {
            vrfs[at] = config.clone();
        }
    }
    let vrf_of = |config: &VrfConfig| vrfs.iter().position(|known| known == config);
    let of_port = |config: &Option<VrfConfig>| vrf_of(config.as_ref()?);
    let of_ports = wanted.iter().map(|config| of_port(config).map(|at| VrfIndex(at as u16)));
    LookupTables { of_ports: of_ports.collect(), vrfs }
}

/// The tables of both families. `None` if rules also look at other properties of the packets.
fn tables_of(of: impl Fn(RouteFamily) -> Option<Vec<u32>>) -> Option<VrfConfig> {
    Some(VrfConfig { v4: of(RouteFamily::V4)?, v6: of(RouteFamily::V6)? })
}

/// The VRFs of a router at its start: as many as the rules for its interfaces need, and at least
/// `least`. Only the first VRF has tables already.
///
/// # Errors
/// The kernel's error.
pub(crate) fn first_vrfs(interfaces: &[String], least: usize) -> io::Result<Vec<VrfConfig>> {
    let mut of_interface: BTreeMap<String, Vec<(u8, u32, u32)>> = BTreeMap::new();
    each_rule(|rule| {
        if interfaces.iter().any(|name| name == rule.input) {
            let selects = (rule.family.number(), rule.priority, rule.table);
            of_interface.entry(rule.input.to_owned()).or_default().push(selects);
        }
    })?;
    let different: BTreeSet<_> = of_interface.into_values().collect();
    let others = (1 + different.len()).max(least).min(MAX_VRFS) - 1;
    let empty = VrfConfig { v4: Vec::new(), v6: Vec::new() };
    let others = std::iter::repeat_n(empty, others);
    Ok([VrfConfig::default()].into_iter().chain(others).collect())
}

/// Lists the kernel's rules of both families.
///
/// # Errors
/// The kernel's error.
pub(crate) fn each_rule(mut take: impl FnMut(&RuleMessage<'_>)) -> io::Result<()> {
    let request = RequestBuilder::new(1).dump_rules();
    read_dump(NETLINK_ROUTE, &request, |buffer| {
        for message in Messages::new(&buffer).filter_map(Result::ok) {
            match message.body {
                MessageBody::Rule(_, rule) => take(&rule),
                MessageBody::Done(_) => return Ok(true),
                MessageBody::Error(error) => {
                    return Err(io::Error::from_raw_os_error(error.errno as i32));
                }
                _ => {}
            }
        }
        Ok(false)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(first: u32) -> VrfConfig {
        VrfConfig { v4: vec![255, first, 254], v6: vec![255, first, 254] }
    }

    fn vrfs(of: &LookupTables) -> Vec<Option<u16>> {
        of.of_ports.iter().map(|vrf| vrf.map(|vrf| vrf.0)).collect()
    }

    const NONE: VrfConfig = VrfConfig { v4: Vec::new(), v6: Vec::new() };

    #[test]
    fn interfaces_with_the_same_tables_share_a_vrf() {
        let own = VrfConfig::default();
        let wanted = [Some(own.clone()), Some(tables(1)), Some(tables(2)), Some(tables(1)), None];
        let found = assign(&wanted, own.clone(), &[own.clone(), NONE, NONE]);
        assert_eq!(vrfs(&found), [Some(0), Some(1), Some(2), Some(1), None]);
        assert_eq!(found.vrfs, [own, tables(1), tables(2)]);
    }

    #[test]
    fn without_a_free_vrf_the_kernel_looks_up() {
        let own = VrfConfig::default();
        let wanted = [Some(tables(1)), Some(tables(2))];
        let found = assign(&wanted, own.clone(), &[own, NONE]);
        assert_eq!(vrfs(&found), [Some(1), None]);
    }

    #[test]
    fn tables_that_are_still_wanted_stay_in_their_vrf() {
        let own = VrfConfig::default();
        let known = [own.clone(), tables(1), tables(2)];
        let wanted = [Some(tables(3)), Some(tables(2))];
        let found = assign(&wanted, own.clone(), &known);
        assert_eq!(vrfs(&found), [Some(1), Some(2)]);
        assert_eq!(assign(&[Some(tables(2))], own, &known).vrfs, known);
    }
}
