//! The kernel's own forwarding: the settings that must be on so that the kernel can take over, and
//! other settings of interfaces.

use std::fs;

use super::obstacle::{CheckedInterface, Obstacle, ObstacleKind};

/// Reads the value of a setting by its path below /proc/sys. The path may contain an interface name
/// with dots.
fn sysctl(path: &str) -> Option<i64> {
    fs::read_to_string(format!("/proc/sys/{path}")).ok()?.trim().parse().ok()
}

/// Returns the settings that the kernel needs to forward in place of the router, as lines for
/// sysctl(8). Empty if the kernel forwards already.
pub(super) fn missing() -> Vec<String> {
    let needed = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
    let is_off = |name: &&str| sysctl(&name.replace('.', "/")) == Some(0);
    needed.into_iter().filter(is_off).map(|name| format!("sysctl -w {name}=1")).collect()
}

/// Returns the value of an IPv4 setting for an interface: the greater of the value for `all` and
/// its own value, as in the kernel (ip-sysctl).
pub(super) fn of_interface(name: &str, setting: &str) -> i64 {
    let value = |of: &str| sysctl(&format!("net/ipv4/conf/{of}/{setting}")).unwrap_or_default();
    value("all").max(value(name))
}

/// Finds interfaces whose packets the kernel does not forward (ip-sysctl, `forwarding`). For IPv4
/// the setting of the interface decides, for IPv6 the setting for `all`.
pub(super) fn switched_off(interfaces: &[CheckedInterface]) -> Vec<Obstacle> {
    let is_off = |path: &str| sysctl(path) == Some(0);
    let v6 = is_off("net/ipv6/conf/all/forwarding");
    let off = interfaces
        .iter()
        .filter(|of| v6 || is_off(&format!("net/ipv4/conf/{}/forwarding", of.present_name())));
    off.map(|CheckedInterface { name, .. }| Obstacle {
        kind: ObstacleKind::ForwardingOff,
        interface: Some(name.clone()),
        what: format!("the kernel's forwarding is off on {name}"),
        show: format!("sysctl net.ipv4.conf.{name}.forwarding net.ipv6.conf.all.forwarding"),
    })
    .collect()
}
