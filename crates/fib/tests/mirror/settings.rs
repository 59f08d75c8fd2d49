//! Tests of notifications about settings of interfaces.

use slipring_fib::*;

use crate::kernel::{ALL, DEFAULT, DOWN, NO_CARRIER, address, dump, dumped, link, settings, tell};
use crate::{action, mirror, publish};

fn modes(tables: &ForwardingTables) -> Vec<ReversePathMode> {
    tables.ports.iter().map(|port| port.reverse_path).collect()
}

/// A mirror whose interfaces have IPv4 addresses.
fn numbered() -> Mirror {
    let mut mirror = mirror();
    tell(&mut mirror, &[address(1, "10.1.0.1", 16, 0), address(2, "10.2.0.1", 16, 0)]);
    mirror
}

#[test]
fn the_greater_value_of_all_and_of_the_interface_is_its_check_of_sources() {
    use ReversePathMode::{Loose, Off, Strict};
    for (all, own, expected) in [
        (0, 0, Off),
        (0, 1, Strict),
        (1, 0, Strict),
        (1, 2, Loose),
        (2, 1, Loose),
        (0, 2, Loose),
        (7, 1, Loose),
    ] {
        let mut mirror = numbered();
        tell(&mut mirror, &[settings(ALL).rp_filter(all), settings(1).rp_filter(own)]);
        assert_eq!(modes(&publish(&mut mirror))[0], expected, "all {all}, own {own}");
    }
}

#[test]
fn a_changed_check_makes_a_new_snapshot_and_leaves_other_settings_as_they_are() {
    use ReversePathMode::{Loose, Off, Strict};
    let mut mirror = numbered();
    dump(&mut mirror, DumpKind::Settings, &[settings(1).rp_filter(1).ignores_linkdown(true)]);
    assert_eq!(modes(&publish(&mut mirror)), [Strict, Off]);
    tell(&mut mirror, &[settings(1).rp_filter(2)]);
    assert_eq!(modes(&publish(&mut mirror)), [Loose, Off]);
    tell(&mut mirror, &[link(1, NO_CARRIER)]);
    assert_eq!(action(&publish(&mut mirror), "10.1.0.5"), TargetAction::Kernel);
    tell(&mut mirror, &[settings(1).rp_filter(2)]);
    assert!(mirror.publish().is_none(), "it is as it was");
}

#[test]
fn settings_go_with_their_interface_and_with_a_dump_that_lacks_them() {
    use ReversePathMode::{Off, Strict};
    let mut mirror = numbered();
    tell(&mut mirror, &[settings(1).rp_filter(1), settings(2).rp_filter(1)]);
    assert_eq!(modes(&publish(&mut mirror)), [Strict, Strict]);
    tell(&mut mirror, &[settings(1).deleted()]);
    assert_eq!(modes(&publish(&mut mirror)), [Off, Strict]);
    dump(&mut mirror, DumpKind::Settings, &[]);
    assert_eq!(modes(&publish(&mut mirror)), [Off, Off]);
}

#[test]
fn without_an_ipv4_address_the_loose_check_is_the_strict_one() {
    let mut mirror = mirror();
    tell(&mut mirror, &[address(1, "10.1.0.1", 16, 0), address(2, "fd02::1", 64, 0)]);
    tell(&mut mirror, &[settings(ALL).rp_filter(2)]);
    let expected = [ReversePathMode::Loose, ReversePathMode::Strict];
    assert_eq!(modes(&publish(&mut mirror)), expected);
    tell(&mut mirror, &[address(1, "10.1.0.1", 16, 0).deleted()]);
    assert_eq!(modes(&publish(&mut mirror)), [ReversePathMode::Strict; 2]);
}

#[test]
fn a_change_during_a_dump_has_the_settings_dumped_again() {
    let mut mirror = numbered();
    mirror.begin_dump(DumpKind::Settings);
    tell(&mut mirror, &[settings(1).rp_filter(1)]);
    tell(&mut mirror, &[dumped(settings(1).rp_filter(0).ignores_linkdown(true))]);
    mirror.end_dump(DumpKind::Settings);
    assert!(mirror.needs_resync().contains(DumpKind::Settings));
    dump(&mut mirror, DumpKind::Settings, &[settings(1).rp_filter(1).ignores_linkdown(true)]);
    assert!(!mirror.needs_resync().contains(DumpKind::Settings));
    assert_eq!(modes(&publish(&mut mirror))[0], ReversePathMode::Strict);
}

#[test]
fn settings_of_ipv6_are_not_those_of_ipv4() {
    let mut mirror = numbered();
    publish(&mut mirror);
    let of_v6 = settings(1).rp_filter(1).of_family(10);
    tell(&mut mirror, &[of_v6, link(3, DOWN)]);
    let tables = mirror.publish();
    assert!(tables.is_none_or(|tables| modes(&tables)[0] == ReversePathMode::Off));
}

/// The kernel also applies the default settings to interfaces that have never had an address. It
/// does not announce this.
#[test]
fn after_a_change_of_the_default_settings_are_listed_again() {
    let mut mirror = numbered();
    dump(&mut mirror, DumpKind::Settings, &[]);
    assert!(!mirror.needs_resync().contains(DumpKind::Settings));
    tell(&mut mirror, &[settings(DEFAULT).rp_filter(1)]);
    assert!(mirror.needs_resync().contains(DumpKind::Settings));
    dump(
        &mut mirror,
        DumpKind::Settings,
        &[settings(DEFAULT).rp_filter(1), settings(1).rp_filter(1)],
    );
    assert!(!mirror.needs_resync().contains(DumpKind::Settings));
}

#[test]
fn the_routers_own_check_counts_where_it_is_stricter_and_for_both_families() {
    use ReversePathMode::{Loose, Off, Strict};
    let mut mirror = numbered();
    let of_v6 = |tables: &ForwardingTables| -> Vec<_> {
        tables.ports.iter().map(|port| port.reverse_path_v6).collect()
    };
    tell(&mut mirror, &[settings(1).rp_filter(2), settings(2).rp_filter(1)]);
    mirror.set_source_checks(vec![Strict, Loose]);
    let tables = publish(&mut mirror);
    assert_eq!((modes(&tables), of_v6(&tables)), (vec![Strict, Strict], vec![Strict, Loose]));
    mirror.set_source_checks(vec![Strict, Loose]);
    assert!(mirror.publish().is_none(), "it is as it was");
    mirror.set_source_checks(Vec::new());
    let tables = publish(&mut mirror);
    assert_eq!((modes(&tables), of_v6(&tables)), (vec![Loose, Strict], vec![Off, Off]));
}
