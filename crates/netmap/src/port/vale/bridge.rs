//! One switch: its ports, its learned addresses, and the forwarding of a batch.
//!
//! Decisions are made under a lock, in a few nanoseconds per frame; copying needs no lock that
//! excludes other senders. Attaching and detaching wait for the batches in progress, which never
//! wait for a program.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use rustix::io::Errno;
use slipring_ring::RingView;
use slipring_switch::{
    Switch, SwitchBatch, SwitchConfig, SwitchDropReason, SwitchPortConfig, SwitchPortId,
};

use crate::port::monitor_taps::{MonitorInfo, MonitorTaps};
use crate::port::vale::copy_plan::FrameSource;
use crate::port::vale::destination_ring::DestinationRing;
use crate::port::vale::frames::SyncFrames;
use crate::types::lock::lock;

/// The maximum number of ports of a switch. The flags of a slot (`NS_PORT_MASK`) can name only the
/// ports 1 to 255.
const MAX_PORTS: usize = 1024;

/// A switch of the user, netmap's VALE.
#[derive(Debug)]
pub(crate) struct Bridge {
    name: String,
    number: u16,
    engine: Mutex<Switch>,
    /// The ports, by port number.
    ports: RwLock<Vec<Option<NamedBridgePort>>>,
    /// Time 0 of the forwarding engine's clock.
    start: Instant,
}

/// A port, with the name that it has in this switch.
#[derive(Debug, Clone)]
struct NamedBridgePort {
    /// The name in requests: `vale0:a`.
    name: String,
    port: Arc<BridgePort>,
}

/// A port of a switch, as the senders that deliver frames to it use it.
#[derive(Debug)]
pub(crate) struct BridgePort {
    pub(crate) rings: Vec<DestinationRing>,
    /// Bytes of the virtio-net header before each frame.
    pub(crate) vnet: AtomicU32,
    /// The monitors of the port, for their counters; `None` if the port cannot be monitored.
    monitor_taps: Option<Arc<MonitorTaps>>,
}

impl BridgePort {
    pub(crate) fn new(
        outlets: Vec<DestinationRing>,
        vnet: u32,
        taps: Option<Arc<MonitorTaps>>,
    ) -> Arc<Self> {
        Arc::new(Self { rings: outlets, vnet: AtomicU32::new(vnet), monitor_taps: taps })
    }

    pub(crate) fn vnet(&self) -> usize {
        self.vnet.load(Ordering::Relaxed) as usize
    }
}

/// An attachment to a switch; dropping it detaches the port.
#[derive(Debug)]
pub(crate) struct BridgeAttachment {
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) id: SwitchPortId,
}

impl Drop for BridgeAttachment {
    fn drop(&mut self) {
        self.bridge.detach(self.id);
    }
}

impl Bridge {
    pub(crate) fn new(name: String, number: u16) -> Arc<Self> {
        let config = SwitchConfig {
            secret: [slipring_ring::secret_word(), slipring_ring::secret_word()],
            ..SwitchConfig::default()
        };
        Arc::new(Self {
            name,
            number,
            engine: Mutex::new(Switch::new(config)),
            ports: RwLock::default(),
            start: Instant::now(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the switch: its `nr_bridge_idx` in requests.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// Returns the current time of the engine.
    pub(crate) fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Attaches a port under the lowest free number.
    pub(crate) fn attach(
        self: &Arc<Self>,
        name: &str,
        member: Arc<BridgePort>,
    ) -> Result<BridgeAttachment, Errno> {
        let mut members = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        if members.iter().flatten().count() >= MAX_PORTS {
            return Err(Errno::NOMEM);
        }
        let rings = member.rings.len() as u32;
        let config = SwitchPortConfig { rings, ..SwitchPortConfig::default() };
        let id = lock(&self.engine).attach(config).map_err(|_| Errno::INVAL)?;
        let at = id.0 as usize;
        if members.len() <= at {
            members.resize(at + 1, None);
        }
        members[at] = Some(NamedBridgePort { name: name.to_owned(), port: member });
        Ok(BridgeAttachment { bridge: self.clone(), id })
    }

    /// Attaches a port with the number and the settings that it had in the previous process.
    pub(crate) fn attach_at(
        self: &Arc<Self>,
        name: &str,
        member: Arc<BridgePort>,
        id: SwitchPortId,
        config: SwitchPortConfig,
    ) -> Option<BridgeAttachment> {
        let mut members = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        let (at, mut engine) = (id.0 as usize, lock(&self.engine));
        if at >= MAX_PORTS {
            return None;
        }
        // The engine always assigns the lowest free number. To get the number `id`, all lower free
        // numbers are taken first, and freed afterwards.
        let mut before = Vec::new();
        let got = loop {
            match engine.attach(config.clone()).ok()? {
                got if got < id => before.push(got),
                got => break got,
            }
        };
        for one in before {
            engine.detach(one);
        }
        if got != id {
            engine.detach(got);
            return None;
        }
        if members.len() <= at {
            members.resize(at + 1, None);
        }
        members[at] = Some(NamedBridgePort { name: name.to_owned(), port: member });
        Some(BridgeAttachment { bridge: self.clone(), id })
    }

    /// Removes the port with this number from the switch.
    fn detach(&self, id: SwitchPortId) {
        let mut members = self.ports.write().unwrap_or_else(PoisonError::into_inner);
        lock(&self.engine).detach(id);
        // The port is dropped after the lock is released: this may be the last reference to an
        // interface, and closing that may take long.
        let gone = members.get_mut(id.0 as usize).and_then(Option::take);
        drop(members);
        drop(gone);
    }

    /// Returns the ports in order of their numbers, with their names.
    pub(crate) fn ports(&self) -> Vec<(SwitchPortId, String)> {
        let members = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        let numbered = (0..).map(SwitchPortId).zip(members.iter());
        numbered.filter_map(|(id, port)| Some((id, port.as_ref()?.name.clone()))).collect()
    }

    /// Returns the counters of the monitors of port `id`.
    pub(crate) fn monitors(&self, id: SwitchPortId) -> Vec<MonitorInfo> {
        let members = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        let port = members.get(id.0 as usize).and_then(Option::as_ref);
        port.and_then(|port| port.port.monitor_taps.as_ref())
            .map(|taps| taps.infos())
            .unwrap_or_default()
    }

    /// Returns the number of the port with this name; `None` if no port has it.
    pub(crate) fn number_of(&self, name: &str) -> Option<SwitchPortId> {
        self.ports().into_iter().find(|(_, port)| port == name).map(|(id, _)| id)
    }

    /// Calls `visit` with the forwarding engine, to read or change it.
    pub(crate) fn with_engine<T>(&self, visit: impl FnOnce(&mut Switch) -> T) -> T {
        visit(&mut lock(&self.engine))
    }

    /// Forwards the frames that `source` sends from its ring `ring`.
    pub(crate) fn transmit(
        &self,
        source: SwitchPortId,
        ring: u32,
        view: &RingView,
        frames: &SyncFrames,
        batch: &mut SwitchBatch,
    ) {
        let members = self.ports.read().unwrap_or_else(PoisonError::into_inner);
        let member_of = |id: SwitchPortId| Some(&*members.get(id.0 as usize)?.as_ref()?.port);
        let Some(from) = member_of(source) else { return };
        let now_ns = self.now_ns();
        let mut engine = lock(&self.engine);
        if frames.too_long() > 0 {
            engine.refuse(source, SwitchDropReason::TooLong, frames.too_long().into());
        }
        engine.forward(now_ns, source, ring, frames.packets(), batch);
        drop(engine);
        let source = FrameSource { ring: view, frames, vnet: from.vnet() };
        for i in 0..batch.len() {
            let dest = batch.destination(i);
            let delivered = member_of(dest.port()).and_then(|member| {
                let outlet = member.rings.get(dest.ring() as usize)?;
                Some(outlet.deliver(source, &dest, member.vnet()))
            });
            batch.report(i, delivered.unwrap_or_default());
        }
        lock(&self.engine).settle(batch);
    }
}
