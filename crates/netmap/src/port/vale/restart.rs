//! Saves and restores switches and their ports.
//!
//! A frame that was being sent when the daemon was killed is not sent again, because it may already
//! be in some rings. So at most the frames of one sync of each tx ring are missing. The port counts
//! each of their slots as a frame lost by a restart. Frames in rx rings, and frames queued after
//! that sync, are preserved.

use std::sync::Arc;

use slipring_ring::{KernRing, PersistentWords, Region};
use slipring_switch::{
    StormLimit, StormLimits, SwitchDropReason, SwitchPortConfig, SwitchPortId, UnknownUnicast,
    VlanId, VlanMembership, VlanSet,
};

use crate::memory::netmap_memory::NetmapMemory;
use crate::port::vale::attach::NicAttachment;
use crate::port::vale::bridge::Bridge;
use crate::port::vale::port::ValePort;
use crate::port::vale::switches::BridgeTable;
use crate::types::port_name::PortKey;
use crate::types::state::{
    BridgeAttachmentState, BridgePortState, BridgeState, ValePortState, VlanState,
};

impl BridgeTable {
    /// Returns all persistent ports.
    pub(crate) fn all_persistent(&self) -> Vec<(PortKey, Arc<ValePort>)> {
        self.persistent.iter().map(|(key, port)| (key.clone(), port.clone())).collect()
    }

    /// Returns all interfaces attached to switches.
    pub(crate) fn all_attached(&self) -> Vec<Arc<NicAttachment>> {
        self.attached.values().cloned().collect()
    }

    /// Restores an attached interface under its name.
    pub(crate) fn add_attached(&mut self, key: PortKey, attachment: NicAttachment) {
        self.attached.insert(key, Arc::new(attachment));
    }

    /// Restores a persistent port under its name.
    pub(crate) fn add_persistent(&mut self, key: PortKey, port: Arc<ValePort>) {
        self.persistent.insert(key, port);
    }

    /// Returns the saved form of all switches.
    pub(crate) fn states(&self) -> Vec<BridgeState> {
        let hubs = self.bridges.iter().filter_map(|(key, hub)| Some((key, hub.upgrade()?)));
        let state = |(key, hub): (&PortKey, Arc<Bridge>)| hub.state(key.clone());
        hubs.map(state).collect()
    }

    /// Restores a switch of the previous process; `None` if its number is taken.
    pub(crate) fn resume(&mut self, state: &BridgeState) -> Option<Arc<Bridge>> {
        let at = usize::from(state.number);
        while self.bridges.len() <= at {
            self.bridges.push(((0, String::new()), std::sync::Weak::new()));
        }
        if self.bridges[at].1.strong_count() > 0 {
            return None;
        }
        let hub = Bridge::new(state.key.1.clone(), state.number);
        hub.with_engine(|engine| {
            engine.set_ageing(state.ageing_ns);
            engine.set_vlan_aware(state.is_vlan_aware);
            engine.set_unknown_unicast(match state.drops_unknown {
                true => UnknownUnicast::Drop,
                false => UnknownUnicast::Flood,
            });
        });
        self.bridges[at] = (state.key.clone(), Arc::downgrade(&hub));
        Some(hub)
    }
}

impl Bridge {
    fn state(&self, key: PortKey) -> BridgeState {
        self.with_engine(|engine| {
            let config = engine.config();
            BridgeState {
                key,
                number: self.number(),
                ageing_ns: config.ageing_ns,
                drops_unknown: config.unknown_unicast == UnknownUnicast::Drop,
                is_vlan_aware: config.is_vlan_aware,
            }
        })
    }

    /// Returns the saved form of a port's attachment to this switch: number, name and settings.
    pub(crate) fn attachment_state(
        &self,
        id: SwitchPortId,
        name: &str,
    ) -> Option<BridgeAttachmentState> {
        let config = self.with_engine(|engine| engine.port(id).cloned())?;
        let settings = BridgePortState::from_config(&config);
        Some(BridgeAttachmentState {
            bridge: self.number(),
            id: id.0,
            name: name.to_owned(),
            settings,
        })
    }
}

impl BridgePortState {
    fn from_config(config: &SwitchPortConfig) -> Self {
        let vlan = match &config.vlan {
            VlanMembership::Access(id) => VlanState::Access(id.get()),
            VlanMembership::Trunk { native, allowed } => {
                let ids = (1..=4094).filter_map(|id| VlanId::new(id).ok());
                let ids = ids.filter(|&id| allowed.contains(id)).map(VlanId::get);
                VlanState::Trunk(native.map(VlanId::get), ids.collect())
            }
        };
        let StormLimits { broadcast, multicast, unknown } = config.storm;
        let storm = [broadcast, multicast, unknown].map(|limit| {
            limit.map(|limit| match limit {
                StormLimit::Packets { per_sec, burst } => (false, per_sec, burst),
                StormLimit::Bits { per_sec, burst_bytes } => (true, per_sec, burst_bytes),
            })
        });
        Self {
            learns: config.learns,
            is_isolated: config.is_isolated,
            takes: [config.takes_broadcast, config.takes_multicast, config.takes_unknown],
            vlan,
            storm,
        }
    }

    /// Converts the saved settings for a port with `rings` rings; `None` if they are inconsistent.
    pub(crate) fn config(&self, rings: u32) -> Option<SwitchPortConfig> {
        let id = |id: &u16| VlanId::new(*id).ok();
        let vlan = match &self.vlan {
            VlanState::Access(of) => VlanMembership::Access(id(of)?),
            VlanState::Trunk(native, allowed) => VlanMembership::Trunk {
                native: native.as_ref().and_then(id),
                allowed: allowed.iter().filter_map(id).collect::<VlanSet>(),
            },
        };
        let limit = |limit: Option<(bool, u64, u64)>| {
            limit.map(|limit| match limit {
                (false, per_sec, burst) => StormLimit::Packets { per_sec, burst },
                (true, per_sec, burst_bytes) => StormLimit::Bits { per_sec, burst_bytes },
            })
        };
        let [broadcast, multicast, unknown] = self.storm.map(limit);
        let [takes_broadcast, takes_multicast, takes_unknown] = self.takes;
        Some(SwitchPortConfig {
            rings,
            learns: self.learns,
            is_isolated: self.is_isolated,
            takes_broadcast,
            takes_multicast,
            takes_unknown,
            vlan,
            storm: StormLimits { broadcast, multicast, unknown },
        })
    }
}

impl ValePort {
    /// Restores a port of the previous process; `None` if the state is inconsistent.
    pub(crate) fn resume(
        state: &ValePortState,
        memory: Arc<NetmapMemory>,
        cells: &Arc<Region>,
        hub: impl Fn(u16) -> Option<Arc<Bridge>>,
    ) -> Option<Arc<Self>> {
        let home = match state.home_bridge {
            Some(number) => Some(hub(number)?),
            None => None,
        };
        let (name, shape) = (state.port.name.clone(), state.port.shape.into());
        let port = Self::new(name, shape, memory, cells.clone(), home);
        port.set_vnet(state.vnet);
        let [tx, rx] = state.port.made();
        if tx.is_empty() && rx.is_empty() {
            return Some(port);
        }
        if tx.len() != state.words.len() {
            return None;
        }
        let region = port.region();
        let mut lost = 0;
        let inlets = tx.iter().zip(&state.words).map(|(ring, &words)| {
            let words = PersistentWords::resume(cells, words).ok()?;
            let kern = ring.resume(&region)?;
            let (kern, under_way) = resume_tx(kern, &words);
            lost += u64::from(under_way);
            Some((kern, words))
        });
        let inlets = inlets.collect::<Option<Vec<_>>>()?;
        let outlets = rx.iter().map(|ring| ring.resume(&region)).collect::<Option<Vec<_>>>()?;
        port.set_rings(inlets, outlets);
        if let Some(attachment) = &state.attachment {
            let hub = hub(attachment.bridge)?;
            let config = attachment.settings.config(rx.len() as u32)?;
            port.reattach(&hub, &attachment.name, SwitchPortId(attachment.id), config)?;
            hub.with_engine(|engine| {
                engine.refuse(SwitchPortId(attachment.id), SwitchDropReason::Restart, lost)
            });
        }
        Some(port)
    }
}

/// Returns the ring, positioned after all slots that were being sent at the kill, and the number of
/// those slots.
fn resume_tx(mut kern: KernRing, words: &PersistentWords) -> (KernRing, u32) {
    use std::sync::atomic::Ordering::Acquire;
    let (begun, done) =
        (words.word(0, 0).load(Acquire) as u32, words.word(0, 1).load(Acquire) as u32);
    let n = kern.num_slots();
    if begun >= n || done >= n {
        return (kern, 0);
    }
    let under_way = if begun >= done { begun - done } else { begun + n - done };
    kern.complete_to(begun);
    (kern, under_way)
}
