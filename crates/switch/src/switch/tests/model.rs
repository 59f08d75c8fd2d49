//! Compares the switch with a model that handles each frame alone.

use super::{ALL, deliver_all, frame, packet};
use crate::{
    Switch, SwitchBatch, SwitchConfig, SwitchDropReason, SwitchPortConfig, SwitchPortId, TagAction,
    UnknownUnicast, VlanId, VlanMembership, VlanSet,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

/// The frames sent to each (port, ring). Each frame is given by its first slot and the change of
/// its tag.
type Sent = BTreeMap<(u32, u32), Vec<(u32, TagAction)>>;

struct Model {
    config: SwitchConfig,
    ports: Vec<SwitchPortConfig>,
    learned: BTreeMap<(u16, u64), (u32, u64)>,
}

#[derive(Debug, Clone)]
struct Sending {
    source: usize,
    ring: u32,
    pause_ns: u64,
    /// Each frame's destination, source and VLAN tag.
    frames: Vec<(u64, u64, Option<u16>)>,
}

impl Model {
    fn forward(&mut self, now_ns: u64, sending: &Sending, sent: &mut Sent) {
        for (slot, &(to, from, tag)) in (0..).zip(&sending.frames) {
            let source = &self.ports[sending.source];
            let Some(vlan) = self.ingress(source, tag) else { continue };
            if source.learns && from != 0 && from >> 40 & 1 == 0 {
                self.learned.insert((vlan, from), (sending.source as u32, now_ns));
            }
            for (port, ring) in self.targets(now_ns, sending, to, vlan) {
                let tag = self.egress(&self.ports[port as usize], vlan, tag);
                sent.entry((port, ring)).or_default().push((slot, tag));
            }
        }
    }

    fn ingress(&self, port: &SwitchPortConfig, tag: Option<u16>) -> Option<u16> {
        if !self.config.is_vlan_aware {
            return Some(0);
        }
        let native = match &port.vlan {
            VlanMembership::Access(own) => Some(own.get()),
            VlanMembership::Trunk { native, .. } => native.map(VlanId::get),
        };
        match tag {
            None | Some(0) => native,
            Some(id) => is_member(port, id).then_some(id),
        }
    }

    fn egress(&self, port: &SwitchPortConfig, vlan: u16, tag: Option<u16>) -> TagAction {
        if !self.config.is_vlan_aware {
            return TagAction::Keep;
        }
        let bare = match &port.vlan {
            VlanMembership::Access(_) => true,
            VlanMembership::Trunk { native, .. } => {
                native.is_some_and(|native| native.get() == vlan)
            }
        };
        match (bare, tag) {
            (true, None) => TagAction::Keep,
            (true, Some(_)) => TagAction::Remove,
            (false, None) => TagAction::Insert(vlan),
            (false, Some(id)) => {
                if id == vlan {
                    TagAction::Keep
                } else {
                    TagAction::Replace(vlan)
                }
            }
        }
    }

    fn targets(&self, now_ns: u64, sending: &Sending, to: u64, vlan: u16) -> Vec<(u32, u32)> {
        let source = &self.ports[sending.source];
        let open = |port: u32| {
            let config = &self.ports[port as usize];
            port != sending.source as u32
                && !(source.is_isolated && config.is_isolated)
                && (!self.config.is_vlan_aware || is_member(config, vlan))
        };
        let tick = |ns: u64| ns >> 24;
        let known = self.learned.get(&(vlan, to)).filter(|(_, seen)| {
            self.config.ageing_ns.is_none_or(|ageing| tick(now_ns) - tick(*seen) <= tick(ageing))
        });
        if let (Some(&(port, _)), 0) = (known, to >> 40 & 1) {
            let ring = sending.ring % self.ports[port as usize].rings;
            return if open(port) { [(port, ring)].into() } else { Vec::new() };
        }
        let unicast = to >> 40 & 1 == 0;
        if unicast && self.config.unknown_unicast == UnknownUnicast::Drop {
            return Vec::new();
        }
        let takes = |port: u32| {
            let config = &self.ports[port as usize];
            match (unicast, to == ALL) {
                (true, _) => config.takes_unknown,
                (false, true) => config.takes_broadcast,
                (false, false) => config.takes_multicast,
            }
        };
        (0..self.ports.len() as u32)
            .filter(|&port| open(port) && takes(port))
            .map(|p| (p, 0))
            .collect()
    }
}

fn is_member(port: &SwitchPortConfig, id: u16) -> bool {
    match &port.vlan {
        VlanMembership::Access(own) => own.get() == id,
        VlanMembership::Trunk { native, allowed } => {
            let is_native = native.is_some_and(|native| native.get() == id);
            is_native || VlanId::new(id).is_ok_and(|id| allowed.contains(id))
        }
    }
}

fn vlan() -> impl Strategy<Value = VlanMembership> {
    let id = || (1u16..5).prop_map(|id| VlanId::new(id).unwrap());
    prop_oneof![
        id().prop_map(VlanMembership::Access),
        (prop::option::of(id()), prop::collection::vec(id(), 0..4)).prop_map(|(native, ids)| {
            VlanMembership::Trunk { native, allowed: ids.into_iter().collect::<VlanSet>() }
        }),
    ]
}

fn port() -> impl Strategy<Value = SwitchPortConfig> {
    let mostly = || prop::bool::weighted(0.8);
    (1u32..4, mostly(), prop::bool::weighted(0.3), mostly(), mostly(), mostly(), vlan()).prop_map(
        |(rings, learns, is_isolated, takes_broadcast, takes_multicast, takes_unknown, vlan)| {
            SwitchPortConfig {
                rings,
                learns,
                is_isolated,
                takes_broadcast,
                takes_multicast,
                takes_unknown,
                vlan,
                ..SwitchPortConfig::default()
            }
        },
    )
}

fn sending() -> impl Strategy<Value = Sending> {
    let address =
        || prop_oneof![6 => 1u64..12, 1 => Just(ALL), 1 => Just(0x0100_5e00_0001), 1 => Just(0)];
    let tag = prop_oneof![2 => Just(None), 3 => (0u16..6).prop_map(Some)];
    let frames = prop::collection::vec((address(), address(), tag), 0..40);
    (0usize..5, 0u32..5, 0u64..1 << 29, frames)
        .prop_map(|(source, ring, pause_ns, frames)| Sending { source, ring, pause_ns, frames })
}

proptest! {
    #[test]
    fn every_frame_goes_where_the_model_says_in_order_and_is_counted(
        ports in prop::collection::vec(port(), 5),
        is_vlan_aware in any::<bool>(),
        floods in any::<bool>(),
        ageing_ns in prop::option::of(1u64 << 26..1 << 30),
        sendings in prop::collection::vec(sending(), 1..30),
    ) {
        let unknown_unicast = if floods { UnknownUnicast::Flood } else { UnknownUnicast::Drop };
        let config = SwitchConfig { is_vlan_aware, ageing_ns, unknown_unicast, ..SwitchConfig::default() };
        let mut switch = Switch::new(config);
        for port in &ports {
            switch.attach(port.clone()).unwrap();
        }
        let mut model = Model { config, ports, learned: BTreeMap::new() };
        let (mut batch, mut now_ns) = (SwitchBatch::new(), 0);
        for sending in &sendings {
            now_ns += sending.pause_ns;
            let frames: Vec<_> =
                sending.frames.iter().map(|&(to, from, tag)| frame(to, from, tag)).collect();
            let packets = frames.iter().zip(0..).map(|(frame, i)| packet(frame, i));
            switch.forward(now_ns, SwitchPortId(sending.source as u32), sending.ring, packets, &mut batch);
            let sent: Sent = batch
                .destinations()
                .map(|to| ((to.port().0, to.ring()), to.copies().map(|c| (c.slots.first, c.tag)).collect()))
                .collect();
            for to in batch.destinations() {
                prop_assert_eq!(to.packets() as usize, to.copies().count());
            }
            let mut expected = Sent::new();
            model.forward(now_ns, sending, &mut expected);
            prop_assert_eq!(sent, expected);
            deliver_all(&mut batch);
            switch.settle(&mut batch);
        }
        let (mut taken, mut given) = (0, 0);
        for id in switch.ports() {
            let counters = switch.counters(id).unwrap();
            taken += counters.rx.packets + counters.copies;
            given += counters.tx.packets + counters.drops().map(|(_, count)| count).sum::<u64>();
            prop_assert_eq!(counters.dropped(SwitchDropReason::DestinationFull), 0);
        }
        prop_assert_eq!(taken, given);
    }
}
