//! The kernel's settings of interfaces that affect forwarding. They exist only for IPv4.

use slipring_rtnetlink::{NetconfMessage, NetconfScope};

use crate::mirrored::{Mirrored, Origin};
use crate::tables::ReversePathMode;

/// The settings of one scope: an interface, `all` or `default`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SettingValues {
    rp_filter: i32,
    ignores_routes_with_linkdown: bool,
}

/// The settings of all interfaces.
#[derive(Debug, Default)]
pub(crate) struct InterfaceSettings(Mirrored<NetconfScope, SettingValues>);

impl InterfaceSettings {
    /// Stores the settings in a message. Settings that it does not contain stay unchanged. Returns
    /// whether anything has changed.
    pub(crate) fn set(&mut self, message: &NetconfMessage, origin: Origin) -> bool {
        let known = self.of(message.scope);
        let linkdown = message.ignores_routes_with_linkdown;
        let values = SettingValues {
            rp_filter: message.rp_filter.unwrap_or(known.rp_filter),
            ignores_routes_with_linkdown: linkdown.unwrap_or(known.ignores_routes_with_linkdown),
        };
        self.0.set(message.scope, values, origin).is_some()
    }

    pub(crate) fn remove(&mut self, scope: NetconfScope) -> bool {
        self.0.remove(scope).is_some()
    }

    pub(crate) fn begin_dump(&mut self) {
        self.0.begin_dump();
    }

    /// Ends the dump. Returns whether any setting was removed.
    pub(crate) fn end_dump(&mut self, is_complete: bool) -> bool {
        !self.0.end_dump(is_complete).is_empty()
    }

    fn of(&self, scope: NetconfScope) -> SettingValues {
        self.0.get(scope).copied().unwrap_or_default()
    }

    fn of_interface(&self, ifindex: u32) -> [SettingValues; 2] {
        [NetconfScope::All, NetconfScope::Interface(ifindex)].map(|scope| self.of(scope))
    }

    /// How sources of packets from an interface are checked. The greater of two values applies: the
    /// one for `all` and the one for the interface (ip-sysctl, `rp_filter`).
    pub(crate) fn reverse_path(&self, ifindex: u32) -> ReversePathMode {
        let [all, own] = self.of_interface(ifindex).map(|values| values.rp_filter);
        match all.max(own) {
            0 => ReversePathMode::Off,
            1 => ReversePathMode::Strict,
            _ => ReversePathMode::Loose,
        }
    }

    /// Whether next hops on an interface are not used while it has no carrier. The setting applies
    /// if it is set for the interface or for all interfaces (ip-sysctl,
    /// `ignore_routes_with_linkdown`).
    pub(crate) fn ignores_routes_with_linkdown(&self, ifindex: u32) -> bool {
        self.of_interface(ifindex).iter().any(|values| values.ignores_routes_with_linkdown)
    }
}
