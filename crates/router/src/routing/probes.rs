//! Probes of interfaces that have come up. They get no redirected frames until the main thread has
//! found out that they can send them.

use std::io;
use std::sync::Arc;

use slipring_fib::{FibPort, FibPortIndex};
use slipring_route_bpf::{DriverDrops, EgressProbe};

use super::Routing;

/// A probe of an interface that has come up.
pub(crate) struct DueProbe {
    pub(crate) port: FibPortIndex,
    probe: Arc<EgressProbe>,
    drops: Option<Arc<DriverDrops>>,
    /// The interface's present name.
    name: String,
}

impl DueProbe {
    /// Like [`EgressProbe::sends`].
    pub(crate) fn sends(&self) -> io::Result<bool> {
        self.probe.sends(&self.name, self.drops.as_deref())
    }
}

impl Routing {
    /// Makes the main thread probe interfaces while the first tables are still being read, so that
    /// the router starts earlier.
    pub(super) fn probe_early(&mut self) {
        if self.counters.published > 0 {
            return;
        }
        let Some(ports) = self.mirror.ports() else { return };
        let known = self.unprobed.len();
        self.note_up(&ports);
        if self.unprobed.len() > known {
            self.engine.set_interfaces(&ports);
            self.ready.ring();
        }
    }

    /// Records which interfaces have come up. Those with a probe are probed again, because the link
    /// may lead to another device now. Until then, they get no redirected frames.
    pub(super) fn note_up(&mut self, ports: &[FibPort]) {
        let up: Vec<bool> = ports.iter().map(|port| port.is_up).collect();
        for (at, _) in up.iter().enumerate().filter(|(at, up)| **up && !self.up[*at]) {
            let port = FibPortIndex(at as u16);
            if self.engine.interfaces().get(at).is_some_and(|of| of.probe.is_some()) {
                self.engine.set_sends(port, false);
                self.unprobed.push(port);
            }
        }
        self.up = up;
    }

    /// Returns the probes of interfaces that have come up, and of those in `again`.
    pub(crate) fn take_probes(&mut self, again: Vec<FibPortIndex>) -> Vec<DueProbe> {
        let mut ports = std::mem::take(&mut self.unprobed);
        ports.extend(again);
        let probe = |port: FibPortIndex| {
            let of = &self.engine.interfaces()[usize::from(port.0)];
            let name = self.mirror.interface_name(of.iface.index)?.to_owned();
            let drops = self.engine.drops().cloned();
            Some(DueProbe { port, probe: of.probe.clone()?, drops, name })
        };
        ports.into_iter().filter_map(probe).collect()
    }

    /// Whether interfaces have come up that have not been probed yet.
    pub(crate) const fn has_unprobed(&self) -> bool {
        !self.unprobed.is_empty()
    }

    /// Records the result of a probe, unless the interface has come up again since then.
    pub(crate) fn note_probe(&mut self, port: FibPortIndex, sends: bool) {
        if !self.unprobed.contains(&port) {
            self.engine.set_sends(port, sends);
        }
    }
}
