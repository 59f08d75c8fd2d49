//! Lists the bound ports of a domain.

use std::sync::Arc;

use slipring_abi::name::PipeRole;

use crate::open::domain::Domain;
use crate::port::adapter::Adapter;
use crate::types::lock::lock;
use crate::types::outcome::AdapterCounters;
use crate::types::port_name::PortKind;

/// A port that is bound by a program, or as an interface of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPort {
    /// Inode number of the network namespace in which the port was opened.
    pub netns: u64,
    /// The port's name in requests: `eth0`, `x{1`, `vale0:a`.
    pub name: String,
    /// The kind of port.
    pub kind: PortKind,
    /// The port's packet counters; `None` if the port does not count its packets.
    pub counters: Option<AdapterCounters>,
}

impl Domain {
    /// Returns all bound ports except null ports and monitors, sorted by network namespace and
    /// name.
    #[must_use]
    pub fn bound_ports(&self) -> Vec<BoundPort> {
        let (named, pipes, persistent) = {
            let names = lock(&self.names);
            let (named, pipes) = names.all();
            (named, pipes, names.switches.ports_by_name())
        };
        let plain = named.into_iter().map(|(key, port)| {
            let kind = PortKind::of_name(&key.1);
            (key, port, kind)
        });
        let switched = persistent.into_iter().map(|(key, port)| (key, port, PortKind::Switch));
        let ends = pipes.into_iter().flat_map(|((netns, _), pipe)| {
            [PipeRole::Master, PipeRole::Slave].map(|role| {
                let end = pipe.end(role);
                ((netns, end.name().to_owned()), end, PortKind::Pipe)
            })
        });
        let bound = |port: &Arc<dyn Adapter>| !port.claims().is_idle() && !port.has_vanished();
        let all = plain.chain(switched).chain(ends).filter(|(_, port, _)| bound(port));
        let one = |((netns, name), port, kind): ((u64, String), Arc<dyn Adapter>, PortKind)| {
            BoundPort { netns, name, kind, counters: port.counters() }
        };
        let mut all: Vec<_> = all.map(one).collect();
        all.sort_by(|a, b| (a.netns, &a.name).cmp(&(b.netns, &b.name)));
        all.dedup();
        all
    }
}
