//! What administrators ask of switches beyond netmap's requests: figures, addresses, settings.

use rustix::io::Errno;
use slipring_switch::{Config, MacEntry, PortConfig, PortCounters, PortId, Switch};

use crate::domain::{Domain, lock};
use crate::taps::TapInfo;

/// A switch as it is now.
#[derive(Debug, Clone)]
pub struct SwitchInfo {
    /// Inode number of its network namespace.
    pub netns: u64,
    /// Its name: `vale0`.
    pub name: String,
    /// Its index in lists.
    pub number: u16,
    /// Its settings.
    pub config: Config,
    /// Its ports, in order of their numbers.
    pub ports: Vec<SwitchPort>,
    /// The addresses that it knows.
    pub addresses: Vec<MacEntry>,
}

/// A port of a switch.
#[derive(Debug, Clone)]
pub struct SwitchPort {
    /// Its number.
    pub id: PortId,
    /// Its name: `vale0:a`.
    pub name: String,
    /// What has passed it.
    pub counters: PortCounters,
    /// Its settings.
    pub config: PortConfig,
    /// Those who watch it.
    pub monitors: Vec<TapInfo>,
}

impl Domain {
    /// All switches that have a port.
    #[must_use]
    pub fn switches(&self) -> Vec<SwitchInfo> {
        let hubs: Vec<_> = {
            let names = lock(&self.names);
            let hubs = names.switches.hubs.iter();
            hubs.filter_map(|((netns, _), hub)| Some((*netns, hub.upgrade()?))).collect()
        };
        let infos = hubs.into_iter().map(|(netns, hub)| {
            let (now_ns, named) = (hub.now_ns(), hub.ports());
            let watched = |(id, name)| (id, name, hub.monitors(id));
            let named: Vec<_> = named.into_iter().map(watched).collect();
            hub.engine(|engine| SwitchInfo {
                netns,
                name: hub.name().to_owned(),
                number: hub.number(),
                config: *engine.config(),
                ports: named.into_iter().filter_map(|port| info(engine, port)).collect(),
                addresses: engine.table().entries(now_ns).collect(),
            })
        });
        infos.filter(|info| !info.ports.is_empty()).collect()
    }

    /// Looks at or changes the engine of the switch `name`, which is told the time and how its
    /// ports are called.
    ///
    /// # Errors
    /// [`Errno::NOENT`]: there is no such switch.
    pub fn with_switch<T>(
        &self,
        netns: u64,
        name: &str,
        visit: impl FnOnce(&mut Switch, u64, &[(PortId, String)]) -> T,
    ) -> Result<T, Errno> {
        let hub = lock(&self.names).switches.find(netns, name).ok_or(Errno::NOENT)?;
        let (now_ns, ports) = (hub.now_ns(), hub.ports());
        let visited = hub.engine(|engine| visit(engine, now_ns, &ports));
        self.commit();
        Ok(visited)
    }

    /// Whether something in it outlives those who have it open: interfaces in switches,
    /// persistent ports.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        lock(&self.names).switches.is_lasting()
    }
}

fn info(
    engine: &Switch,
    (id, name, monitors): (PortId, String, Vec<TapInfo>),
) -> Option<SwitchPort> {
    let (counters, config) = (*engine.counters(id)?, engine.port(id)?.clone());
    Some(SwitchPort { id, name, counters, config, monitors })
}
