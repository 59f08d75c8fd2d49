//! Which interfaces carry a default route, from the routes that `/proc` lists for this thread's
//! namespace: of IPv4 those of the main table, with their first next hop only; of IPv6 all.

/// Returns whether an IPv4 or IPv6 default route uses `ifname`.
pub(super) fn has_default(ifname: &str) -> bool {
    // `/proc/net` would show the network namespace of the main thread, not of this one.
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/net/{file}"));
    let v4 = read("route").is_ok_and(|table| default_v4(&table, ifname));
    v4 || read("ipv6_route").is_ok_and(|table| default_v6(&table, ifname))
}

/// Searches the IPv4 routes. Columns: Iface Destination Gateway Flags RefCnt Use Metric Mask …
fn default_v4(table: &str, ifname: &str) -> bool {
    table.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()).any(
        |columns| {
            let column = |i: usize| columns.get(i).copied().unwrap_or_default();
            column(0) == ifname && column(1) == "00000000" && column(7) == "00000000"
        },
    )
}

/// Searches the IPv6 routes. Columns: destination, its prefix length, source, its prefix length,
/// gateway, metric, references, uses, flags, interface.
fn default_v6(table: &str, ifname: &str) -> bool {
    let zeros = "0".repeat(32);
    table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>()).any(|columns| {
        let column = |i: usize| columns.get(i).copied().unwrap_or_default();
        // `lo` always has a default route, of type "unreachable".
        column(9) == ifname && ifname != "lo" && column(0) == zeros && column(1) == "00"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_interface_of_the_default_route_counts() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\n\
                     eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\n\
                     eth1\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n";
        assert!(default_v4(table, "eth0") && !default_v4(table, "eth1"));
        let zeros = "0".repeat(32);
        let table = format!(
            "{zeros} 00 {zeros} 00 fe80 00000400 00000001 00000000 00000003 eth0\n\
             {zeros} 00 {zeros} 00 {zeros} ffffffff 00000001 00000000 00200200 lo\n\
             fe800000000000000000000000000000 40 {zeros} 00 {zeros} 0100 1 0 00000001 eth1\n"
        );
        assert!(default_v6(&table, "eth0"));
        assert!(!default_v6(&table, "eth1") && !default_v6(&table, "lo"));
    }
}
