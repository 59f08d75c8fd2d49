//! The kernel's own forwarding: what must be on so that the kernel can take over, and settings that
//! the fast path does not have.

use std::fs;

use super::{CheckedInterface, Obstacle};

/// A setting below /proc/sys/net, as sysctl(8) writes it.
fn sysctl(name: &str) -> Option<i64> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The sysctl settings that are missing for the kernel to forward in place of the router: lines for
/// sysctl(8), empty if it forwards.
pub(super) fn missing() -> Vec<String> {
    let needed = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
    let is_off = |name: &&str| sysctl(name) == Some(0);
    needed.into_iter().filter(is_off).map(|name| format!("sysctl -w {name}=1")).collect()
}

/// Reverse-path filters of the router's interfaces. The kernel applies the greater value of `all`
/// and the interface's (ip-sysctl, `rp_filter`).
pub(super) fn reverse_path_filters(interfaces: &[CheckedInterface]) -> Vec<Obstacle> {
    let value = |of: &str| sysctl(&format!("net.ipv4.conf.{of}.rp_filter")).unwrap_or_default();
    let all = value("all");
    let filtered = interfaces.iter().filter(|interface| all.max(value(&interface.name)) > 0);
    filtered
        .map(|CheckedInterface { name, .. }| Obstacle {
            interface: Some(name.clone()),
            what: format!("{name} has a reverse-path filter"),
            show: format!("sysctl net.ipv4.conf.all.rp_filter net.ipv4.conf.{name}.rp_filter"),
        })
        .collect()
}
