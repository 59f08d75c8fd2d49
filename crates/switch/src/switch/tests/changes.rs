//! Tests of changes to a switch and its ports while frames pass.

use super::*;

#[test]
fn a_port_keeps_its_counters_and_loses_its_addresses_only_if_its_vlans_change() {
    let mut fixture = Fixture::plain(3);
    fixture.send(1, &frame(ALL, 0x22, None));
    fixture.send(2, &frame(ALL, 0x33, None));
    let isolated = SwitchPortConfig { is_isolated: true, ..SwitchPortConfig::default() };
    fixture.switch.reconfigure(SwitchPortId(1), isolated.clone()).unwrap();
    assert_eq!(fixture.switch.port(SwitchPortId(1)), Some(&isolated));
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1]);
    let vlan = VlanMembership::Access(VlanId::new(9).unwrap());
    fixture.switch.reconfigure(SwitchPortId(1), SwitchPortConfig { vlan, ..isolated }).unwrap();
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1, 2], "unknown again");
    assert_eq!(fixture.send(0, &frame(0x33, 0x11, None)), [2], "at another port");
    let counters = fixture.switch.counters(SwitchPortId(1)).unwrap();
    assert_eq!((counters.rx.packets, counters.tx.packets), (1, 3));
}

#[test]
fn a_change_of_vlan_awareness_forgets_all_addresses() {
    let mut fixture = Fixture::plain(3);
    fixture.send(1, &frame(ALL, 0x22, None));
    fixture.switch.set_vlan_aware(false);
    assert_eq!(fixture.switch.table().len(), 1, "no change");
    fixture.switch.set_vlan_aware(true);
    assert!(fixture.switch.config().is_vlan_aware && fixture.switch.table().is_empty());
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, Some(7))), [0; 0], "not in VLAN 1");
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, Some(1))), [1, 2]);
    let trunk = SwitchPortConfig {
        vlan: VlanMembership::Trunk { native: None, allowed: VlanSet::all() },
        ..SwitchPortConfig::default()
    };
    for port in 0..2 {
        fixture.switch.reconfigure(SwitchPortId(port), trunk.clone()).unwrap();
    }
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, Some(7))), [1], "the members are found again");
}

#[test]
fn frames_to_unknown_addresses_are_dropped_from_one_moment_on() {
    let mut fixture = Fixture::plain(2);
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1]);
    fixture.switch.set_unknown_unicast(UnknownUnicast::Drop);
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [0; 0]);
    assert_eq!(fixture.switch.config().unknown_unicast, UnknownUnicast::Drop);
    fixture.switch.set_unknown_unicast(UnknownUnicast::Flood);
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1]);
}

#[test]
fn the_ports_are_those_that_are_attached() {
    let mut fixture = Fixture::plain(3);
    fixture.switch.detach(SwitchPortId(1));
    assert!(fixture.switch.ports().eq([SwitchPortId(0), SwitchPortId(2)]));
    assert_eq!(std::string::ToString::to_string(&SwitchPortId(2)), "2");
}

#[test]
fn a_full_table_pins_no_address() {
    let config = SwitchConfig { max_addresses: 1, ..SwitchConfig::default() };
    let mut fixture = Fixture::new(config, [SwitchPortConfig::default()]);
    let mut pin = |mac| fixture.switch.pin(0, MacAddr::from_u64(mac), 0, SwitchPortId(0));
    assert_eq!([pin(2), pin(4)], [Ok(()), Err(SwitchConfigError::TableFull(1))]);
}

#[test]
fn a_set_of_vlans_has_those_it_was_made_of() {
    let some = [1, 63, 64, 65, 1000, 4094];
    let ids = || (1..=4094).map(|id| VlanId::new(id).unwrap());
    let set: VlanSet = some.iter().map(|&id| VlanId::new(id).unwrap()).collect();
    assert!(ids().filter(|&id| set.contains(id)).map(VlanId::get).eq(some));
    assert!(ids().all(|id| VlanSet::all().contains(id)));
    assert_eq!(ids().collect::<VlanSet>(), VlanSet::all());
}

#[test]
fn the_reserved_vlan_4095_is_not_forwarded() {
    let trunk = || SwitchPortConfig {
        vlan: VlanMembership::Trunk { native: None, allowed: VlanSet::all() },
        ..SwitchPortConfig::default()
    };
    let aware = SwitchConfig { is_vlan_aware: true, ..SwitchConfig::default() };
    let mut fixture = Fixture::new(aware, [trunk(), trunk()]);
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, Some(4094))), [1]);
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, Some(4095))), [0; 0]);
    assert_eq!(fixture.dropped(0, SwitchDropReason::VlanIngress), 1);
    assert_eq!(fixture.switch.table().len(), 1);
}
