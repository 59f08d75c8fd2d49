use super::*;
use crate::{
    DeliveryCounts, FrameSlots, SlotMarks, StormLimit, StormLimits, SwitchRoute, TagAction,
    UnknownUnicast, VlanId, VlanSet,
};
use std::vec;
use std::vec::Vec;

mod changes;
mod counted;
mod model;

const ALL: u64 = (1 << 48) - 1;
const SECOND: u64 = 1_000_000_000;

/// Returns a frame with these destination and source addresses, and with a VLAN tag if `vlan` is
/// given.
pub(super) fn frame(to: u64, from: u64, vlan: Option<u16>) -> Vec<u8> {
    let mut frame = Vec::from(&to.to_be_bytes()[2..]);
    frame.extend_from_slice(&from.to_be_bytes()[2..]);
    if let Some(vlan) = vlan {
        frame.extend_from_slice(&[0x81, 0x00]);
        frame.extend_from_slice(&(vlan | 0x6000).to_be_bytes());
    }
    frame.extend_from_slice(&[8, 0]);
    frame.resize(60, 0);
    frame
}

pub(super) fn packet(frame: &[u8], first: u32) -> SwitchPacket<'_> {
    let slots = FrameSlots { first, count: 1 };
    SwitchPacket {
        header: &frame[..18.min(frame.len())],
        len: frame.len() as u32,
        slots,
        marks: SlotMarks::default(),
    }
}

/// A switch, a batch that is reused for every frame, and the current time.
struct Fixture {
    switch: Switch,
    batch: SwitchBatch,
    now_ns: u64,
}

impl Fixture {
    fn new(config: SwitchConfig, ports: impl IntoIterator<Item = SwitchPortConfig>) -> Self {
        let mut switch = Switch::new(config);
        for port in ports {
            switch.attach(port).unwrap();
        }
        Self { switch, batch: SwitchBatch::new(), now_ns: 0 }
    }

    fn plain(ports: usize) -> Self {
        Self::new(SwitchConfig::default(), (0..ports).map(|_| SwitchPortConfig::default()))
    }

    /// Sends one frame; returns the ports that receive it.
    fn send(&mut self, source: u32, frame: &[u8]) -> Vec<u32> {
        self.send_marked(source, frame, SlotMarks::default())
    }

    fn send_marked(&mut self, source: u32, frame: &[u8], marks: SlotMarks) -> Vec<u32> {
        let packet = SwitchPacket { marks, ..packet(frame, 0) };
        self.switch.forward(self.now_ns, SwitchPortId(source), 0, [packet], &mut self.batch);
        let mut ports: Vec<_> = self.batch.destinations().map(|to| to.port().0).collect();
        ports.sort_unstable();
        deliver_all(&mut self.batch);
        self.switch.settle(&mut self.batch);
        ports
    }

    fn dropped(&self, port: u32, reason: SwitchDropReason) -> u64 {
        self.switch.counters(SwitchPortId(port)).unwrap().dropped(reason)
    }
}

fn deliver_all(batch: &mut SwitchBatch) {
    for i in 0..batch.len() {
        let copies: Vec<_> = batch.destination(i).copies().collect();
        let bytes = copies.iter().map(|copy| u64::from(copy.len)).sum();
        batch.report(i, DeliveryCounts { packets: copies.len() as u32, bytes });
    }
}

#[test]
fn an_unknown_address_is_flooded_and_a_learned_one_is_not() {
    let mut fixture = Fixture::plain(4);
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1, 2, 3]);
    assert_eq!(fixture.send(2, &frame(0x11, 0x22, None)), [0]);
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [2]);
}

#[test]
fn an_address_that_was_silent_is_flooded_again() {
    let mut fixture = Fixture::plain(3);
    fixture.send(1, &frame(ALL, 0x22, None));
    fixture.now_ns = 299 * SECOND;
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1]);
    fixture.now_ns = 301 * SECOND;
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1, 2]);
    assert_eq!(fixture.switch.find(fixture.now_ns, MacAddr::from_u64(0x22), 0), None);
}

#[test]
fn without_ageing_an_address_stays_as_in_netmap() {
    let mut fixture = Fixture::plain(3);
    fixture.switch.set_ageing(None);
    fixture.send(1, &frame(ALL, 0x22, None));
    fixture.now_ns = 40_000_000 * SECOND;
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1]);
}

#[test]
fn no_learn_leaves_the_table_alone() {
    let mut fixture = Fixture::plain(3);
    let marks = SlotMarks { no_learn: true, to: None };
    fixture.send_marked(1, &frame(ALL, 0x22, None), marks);
    assert!(fixture.switch.table().is_empty());
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1, 2]);
}

#[test]
fn a_port_in_the_slot_overrides_the_table() {
    let mut fixture = Fixture::plain(4);
    fixture.send(1, &frame(ALL, 0x22, None));
    let to = |port| SlotMarks { no_learn: false, to: Some(SwitchPortId(port)) };
    assert_eq!(fixture.send_marked(0, &frame(0x22, 0x11, None), to(3)), [3]);
    assert_eq!(fixture.send_marked(0, &frame(ALL, 0x11, None), to(2)), [2]);
    assert_eq!(fixture.send_marked(0, &frame(0x22, 0x11, None), to(9)), [0; 0]);
    assert_eq!(fixture.send_marked(0, &frame(0x22, 0x11, None), to(0)), [0; 0]);
    assert_eq!(fixture.dropped(0, SwitchDropReason::NoSuchPort), 1);
    assert_eq!(fixture.dropped(0, SwitchDropReason::SamePort), 1);
}

#[test]
fn runts_are_dropped_by_name() {
    let mut fixture = Fixture::plain(2);
    assert_eq!(fixture.send(0, &[0xff; 13]), [0; 0]);
    assert_eq!(fixture.send(0, &[]), [0; 0]);
    assert_eq!(fixture.dropped(0, SwitchDropReason::Runt), 2);
    assert!(fixture.switch.table().is_empty());
}

#[test]
fn group_addresses_are_never_learned() {
    let mut fixture = Fixture::plain(2);
    for from in [ALL, 0x0100_5e00_0001, 0] {
        assert_eq!(fixture.send(0, &frame(0x22, from, None)), [1]);
    }
    assert!(fixture.switch.table().is_empty());
}

#[test]
fn a_frame_for_its_own_port_goes_nowhere() {
    let mut fixture = Fixture::plain(2);
    fixture.send(0, &frame(ALL, 0x22, None));
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [0; 0]);
    assert_eq!(fixture.dropped(0, SwitchDropReason::SamePort), 1);
}

#[test]
fn unknown_unicast_can_be_dropped_or_kept_from_a_port() {
    let mut fixture = Fixture::new(
        SwitchConfig { unknown_unicast: UnknownUnicast::Drop, ..SwitchConfig::default() },
        vec![SwitchPortConfig::default(); 3],
    );
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [0; 0]);
    assert_eq!(fixture.dropped(0, SwitchDropReason::UnknownUnicast), 1);
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, None)), [1, 2]);

    let mut fixture = Fixture::plain(3);
    let deaf = SwitchPortConfig { takes_unknown: false, ..SwitchPortConfig::default() };
    fixture.switch.reconfigure(SwitchPortId(1), deaf).unwrap();
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [2]);
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, None)), [1, 2]);
}

#[test]
fn a_flooded_frame_that_nobody_takes_is_counted() {
    let mut fixture = Fixture::plain(1);
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, None)), [0; 0]);
    assert_eq!(fixture.dropped(0, SwitchDropReason::NoDestination), 1);
}

#[test]
fn isolated_ports_reach_only_the_others() {
    let isolated = SwitchPortConfig { is_isolated: true, ..SwitchPortConfig::default() };
    let mut fixture = Fixture::new(
        SwitchConfig::default(),
        [isolated.clone(), isolated, SwitchPortConfig::default()],
    );
    assert_eq!(fixture.send(0, &frame(ALL, 0x11, None)), [2]);
    assert_eq!(fixture.send(2, &frame(ALL, 0x33, None)), [0, 1]);
    assert_eq!(fixture.send(1, &frame(0x11, 0x22, None)), [0; 0]);
    assert_eq!(fixture.dropped(1, SwitchDropReason::Isolated), 1);
    assert_eq!(fixture.send(1, &frame(0x33, 0x22, None)), [2]);
}

#[test]
fn unicast_keeps_its_ring_modulo_and_flooding_takes_ring_0() {
    let rings = |rings| SwitchPortConfig { rings, ..SwitchPortConfig::default() };
    let mut fixture = Fixture::new(SwitchConfig::default(), [rings(8), rings(3), rings(4)]);
    fixture.send(1, &frame(ALL, 0x22, None));
    let (known, unknown) = (frame(0x22, 0x11, None), frame(0x99, 0x11, None));
    let packets = [packet(&known, 0), packet(&unknown, 1), packet(&known, 2)];
    fixture.switch.forward(0, SwitchPortId(0), 5, packets, &mut fixture.batch);
    let mut seen: Vec<_> = fixture
        .batch
        .destinations()
        .map(|to| (to.port().0, to.ring(), to.copies().map(|c| c.slots.first).collect::<Vec<_>>()))
        .collect();
    seen.sort();
    assert_eq!(seen, [(1, 0, vec![1]), (1, 2, vec![0, 2]), (2, 0, vec![1])]);
}

#[test]
fn flooded_and_unicast_frames_to_one_ring_keep_their_order() {
    let mut fixture = Fixture::plain(3);
    fixture.send(1, &frame(ALL, 0x22, None));
    let (known, all) = (frame(0x22, 0x11, None), frame(ALL, 0x11, None));
    let packets = (0..6).map(|i| packet(if i % 2 == 0 { &known } else { &all }, i));
    fixture.switch.forward(0, SwitchPortId(0), 0, packets, &mut fixture.batch);
    let slots = |port| {
        let to = fixture.batch.destinations().find(|to| to.port() == SwitchPortId(port)).unwrap();
        assert_eq!(to.packets() as usize, to.copies().count());
        to.copies().map(|copy| copy.slots.first).collect::<Vec<_>>()
    };
    assert_eq!(slots(1), [0, 1, 2, 3, 4, 5]);
    assert_eq!(slots(2), [1, 3, 5]);
}

#[test]
fn what_a_full_destination_did_not_take_is_counted_there() {
    let mut fixture = Fixture::plain(2);
    let all = frame(ALL, 0x11, None);
    fixture.switch.forward(
        0,
        SwitchPortId(0),
        0,
        (0..10).map(|i| packet(&all, i)),
        &mut fixture.batch,
    );
    fixture.batch.report(0, DeliveryCounts { packets: 4, bytes: 240 });
    fixture.switch.settle(&mut fixture.batch);
    let counters = fixture.switch.counters(SwitchPortId(1)).unwrap();
    assert_eq!((counters.tx.packets, counters.tx.bytes), (4, 240));
    assert_eq!(counters.dropped(SwitchDropReason::DestinationFull), 6);
}

#[test]
fn more_than_254_ports_work() {
    let mut fixture = Fixture::plain(1000);
    assert_eq!(fixture.send(999, &frame(ALL, 0x11, None)).len(), 999);
    assert_eq!(fixture.send(300, &frame(0x11, 0x22, None)), [999]);
}

#[test]
fn a_detached_port_is_forgotten_and_its_number_used_again() {
    let mut fixture = Fixture::plain(3);
    fixture.now_ns = u64::MAX / 2;
    fixture.send(1, &frame(ALL, 0x22, None));
    assert_eq!(fixture.switch.detach(SwitchPortId(1)).unwrap().rx.packets, 1);
    assert!(fixture.switch.detach(SwitchPortId(1)).is_none());
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [2]);
    assert_eq!(fixture.send(1, &frame(ALL, 0x22, None)), [0; 0]);
    assert_eq!(fixture.switch.attach(SwitchPortConfig::default()), Ok(SwitchPortId(1)));
    assert_eq!(fixture.send(0, &frame(0x22, 0x11, None)), [1, 2]);
}

#[test]
fn a_storm_is_cut_to_its_limit_and_known_unicast_is_not() {
    let limit = Some(StormLimit::Packets { per_sec: 100, burst: 10 });
    let storm = StormLimits { broadcast: limit, multicast: None, unknown: limit };
    let stormy = SwitchPortConfig { storm, ..SwitchPortConfig::default() };
    let mut fixture = Fixture::new(SwitchConfig::default(), [stormy, SwitchPortConfig::default()]);
    fixture.send(1, &frame(ALL, 0x22, None));
    let mut passed = |to: u64, n: usize| {
        (0..n).filter(|_| !fixture.send(0, &frame(to, 0x11, None)).is_empty()).count()
    };
    assert_eq!(passed(ALL, 50), 10);
    assert_eq!(passed(0x99, 50), 10);
    assert_eq!(passed(0x22, 50), 50);
    assert_eq!(passed(0x0100_5e00_0001, 50), 50);
    fixture.now_ns = SECOND / 2;
    assert_eq!(
        (0..50).filter(|_| !fixture.send(0, &frame(ALL, 0x11, None)).is_empty()).count(),
        10
    );
    assert_eq!(fixture.dropped(0, SwitchDropReason::StormBroadcast), 80);
    assert_eq!(fixture.dropped(0, SwitchDropReason::StormUnknown), 40);
}

#[test]
fn a_change_of_other_settings_does_not_refill_a_storm_limit() {
    let limit = |burst| Some(StormLimit::Packets { per_sec: 100, burst });
    let storm = StormLimits { broadcast: limit(10), multicast: None, unknown: limit(10) };
    let stormy = SwitchPortConfig { storm, ..SwitchPortConfig::default() };
    let mut fixture =
        Fixture::new(SwitchConfig::default(), [stormy.clone(), SwitchPortConfig::default()]);
    let passed = |fixture: &mut Fixture, to: u64| {
        (0..50).filter(|_| !fixture.send(0, &frame(to, 0x11, None)).is_empty()).count()
    };
    assert_eq!([ALL, 0x99].map(|to| passed(&mut fixture, to)), [10, 10]);
    let storm = StormLimits { unknown: limit(20), ..storm };
    let changed = SwitchPortConfig { storm, learns: !stormy.learns, ..stormy };
    fixture.switch.reconfigure(SwitchPortId(0), changed).unwrap();
    assert_eq!([ALL, 0x99].map(|to| passed(&mut fixture, to)), [0, 20]);
}

#[test]
fn a_flooded_frame_that_no_port_receives_takes_no_place_in_the_batch() {
    let mut fixture = Fixture::plain(1);
    let all = frame(ALL, 0x11, None);
    let packets = (0..3).map(|i| packet(&all, i));
    fixture.switch.forward(0, SwitchPortId(0), 0, packets, &mut fixture.batch);
    assert_eq!(fixture.batch.sets.packets(1), 0);
    fixture.switch.settle(&mut fixture.batch);
    assert_eq!(fixture.dropped(0, SwitchDropReason::NoDestination), 3);
}

#[test]
fn a_custom_lookup_decides() {
    let mut fixture = Fixture::plain(4);
    let all = frame(ALL, 0x11, None);
    let mut routes = [
        SwitchRoute::Learned,
        SwitchRoute::Port(SwitchPortId(2)),
        SwitchRoute::Ring(SwitchPortId(3), 7),
        SwitchRoute::Flood,
        SwitchRoute::Drop,
    ]
    .into_iter();
    let mut lookup = |_: SwitchPortId, packet: &SwitchPacket<'_>| {
        assert_eq!(packet.header[0], 0xff);
        routes.next().unwrap()
    };
    let packets = (0..5).map(|i| packet(&all, i));
    fixture.switch.forward_by(0, SwitchPortId(0), 0, packets, &mut lookup, &mut fixture.batch);
    let slots = |port| {
        let to = fixture.batch.destinations().find(|to| to.port() == SwitchPortId(port)).unwrap();
        to.copies().map(|copy| copy.slots.first).collect::<Vec<_>>()
    };
    assert_eq!(slots(1), [0, 3]);
    assert_eq!(slots(2), [0, 1, 3]);
    assert_eq!(slots(3), [0, 2, 3]);
    assert_eq!(fixture.dropped(0, SwitchDropReason::Lookup), 1);
}

#[test]
fn vlans_keep_stations_apart_and_tags_are_made_to_fit() {
    let vlan = |id| VlanId::new(id).unwrap();
    let access = |id| SwitchPortConfig {
        vlan: VlanMembership::Access(vlan(id)),
        ..SwitchPortConfig::default()
    };
    let allowed: VlanSet = [vlan(10), vlan(20)].into_iter().collect();
    let trunk = SwitchPortConfig {
        vlan: VlanMembership::Trunk { native: Some(vlan(30)), allowed },
        ..SwitchPortConfig::default()
    };
    let aware = SwitchConfig { is_vlan_aware: true, ..SwitchConfig::default() };
    let mut fixture = Fixture::new(aware, [access(10), access(20), trunk, access(10), access(30)]);
    let mut tags = |source: u32, tag: Option<u16>| {
        let all = frame(ALL, 0x11, tag);
        fixture.switch.forward(0, SwitchPortId(source), 0, [packet(&all, 0)], &mut fixture.batch);
        let mut seen: Vec<_> = fixture
            .batch
            .destinations()
            .map(|to| (to.port().0, to.copies().next().unwrap().tag))
            .collect();
        seen.sort_by_key(|(port, _)| *port);
        fixture.switch.settle(&mut fixture.batch);
        seen
    };
    assert_eq!(tags(0, None), [(2, TagAction::Insert(10)), (3, TagAction::Keep)]);
    assert_eq!(tags(0, Some(0)), [(2, TagAction::Replace(10)), (3, TagAction::Remove)]);
    assert_eq!(tags(0, Some(20)), []);
    assert_eq!(tags(2, Some(10)), [(0, TagAction::Remove), (3, TagAction::Remove)]);
    assert_eq!(tags(2, None), [(4, TagAction::Keep)]);
    assert_eq!(tags(4, None), [(2, TagAction::Keep)]);
    assert_eq!(tags(2, Some(99)), []);
    assert_eq!(fixture.dropped(0, SwitchDropReason::VlanIngress), 1);
    assert_eq!(fixture.dropped(2, SwitchDropReason::VlanIngress), 1);
    // The same address in another VLAN is another station.
    assert_eq!(fixture.send(3, &frame(0x11, 0x44, None)), [2]);
    let find = |vlan| fixture.switch.find(0, MacAddr::from_u64(0x11), vlan);
    assert_eq!(
        [find(10), find(30), find(20)],
        [Some(SwitchPortId(2)), Some(SwitchPortId(4)), None]
    );
}

#[test]
fn many_vlans_in_one_batch_are_all_flooded() {
    let trunk = || SwitchPortConfig {
        vlan: VlanMembership::Trunk { native: None, allowed: VlanSet::all() },
        ..SwitchPortConfig::default()
    };
    let aware = SwitchConfig { is_vlan_aware: true, ..SwitchConfig::default() };
    let mut fixture = Fixture::new(aware, [trunk(), trunk(), trunk()]);
    let frames: Vec<_> = (1..=200).map(|vlan| frame(ALL, 0x11, Some(vlan))).collect();
    let packets = frames.iter().zip(0..).map(|(frame, i)| packet(frame, i));
    fixture.switch.forward(0, SwitchPortId(0), 0, packets, &mut fixture.batch);
    for to in fixture.batch.destinations() {
        let slots: Vec<_> = to.copies().map(|copy| copy.slots.first).collect();
        assert_eq!(slots, (0..200).collect::<Vec<_>>());
        assert_eq!((to.packets(), to.is_as_is()), (200, false));
    }
    let counters = fixture.switch.counters(SwitchPortId(0)).unwrap();
    assert_eq!((counters.flooded, counters.copies), (200, 200));
    assert_eq!(counters.drops().count(), 0);
}

#[test]
fn addresses_can_be_listed_pinned_and_flushed() {
    let mut fixture = Fixture::plain(3);
    fixture.send(1, &frame(ALL, 0x22, None));
    fixture.switch.pin(0, MacAddr::from_u64(0x77), 0, SwitchPortId(2)).unwrap();
    let mut entries: Vec<_> =
        fixture.switch.table().entries(0).map(|e| (e.mac.to_u64(), e.port.0)).collect();
    entries.sort_unstable();
    assert_eq!(entries, [(0x22, 1), (0x77, 2)]);
    assert_eq!(fixture.switch.flush(0, |entry| !entry.is_pinned), 1);
    assert_eq!(fixture.switch.table().len(), 1);
    assert_eq!(fixture.send(0, &frame(0x77, 0x11, None)), [2]);
    assert!(fixture.switch.remove_mac(MacAddr::from_u64(0x77), 0));
    assert_eq!(fixture.send(0, &frame(0x77, 0x11, None)), [1, 2]);
    let group = fixture.switch.pin(0, MacAddr::BROADCAST, 0, SwitchPortId(2));
    assert_eq!(group, Err(SwitchConfigError::GroupAddress));
    let absent = fixture.switch.pin(0, MacAddr::from_u64(2), 0, SwitchPortId(9));
    assert_eq!(absent, Err(SwitchConfigError::NoSuchPort(9)));
}

#[test]
fn a_flood_of_sources_cannot_fill_more_than_the_limit() {
    let mut fixture = Fixture::new(
        SwitchConfig { max_addresses: 100, ..SwitchConfig::default() },
        vec![SwitchPortConfig::default(); 2],
    );
    for from in 1..=150 {
        fixture.send(0, &frame(ALL, from, None));
    }
    assert_eq!(fixture.switch.table().len(), 100);
    let counters = fixture.switch.counters(SwitchPortId(0)).unwrap();
    assert_eq!((counters.learned, counters.not_learned), (100, 50));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let mut switch = Switch::new(SwitchConfig::default());
    let none = SwitchPortConfig { rings: 0, ..SwitchPortConfig::default() };
    assert_eq!(switch.attach(none.clone()), Err(SwitchConfigError::Rings(0)));
    assert_eq!(
        switch.reconfigure(SwitchPortId(0), SwitchPortConfig::default()),
        Err(SwitchConfigError::NoSuchPort(0))
    );
    assert_eq!([0, 4095].map(VlanId::new), [0, 4095].map(|id| Err(SwitchConfigError::VlanId(id))));
    assert_eq!([1, 4094].map(|id| VlanId::new(id).unwrap().get()), [1, 4094]);
    let storm = StormLimits {
        broadcast: Some(StormLimit::Packets { per_sec: 1, burst: 0 }),
        ..StormLimits::default()
    };
    assert_eq!(
        switch.attach(SwitchPortConfig { storm, ..SwitchPortConfig::default() }),
        Err(SwitchConfigError::Burst)
    );
}
