//! Gives snapshots to the threads that forward in user space, and to those of subinterfaces.

use std::net::IpAddr;
use std::sync::Arc;

use slipring_fib::ForwardingTables;
use slipring_port::now;

use super::Routing;
use super::host_addresses::host_addresses;

impl Routing {
    /// Gives a snapshot and this machine's addresses to the threads that forward in user space.
    pub(super) fn distribute(&self, tables: &Arc<ForwardingTables>, local: &[(IpAddr, u8)]) {
        let own = host_addresses(local);
        for worker in &self.workers {
            let (tables, own) = (Arc::clone(tables), own.clone());
            worker.tell(move |worker| {
                worker.engine.set_own_addresses(own);
                worker.set_tables(tables, now());
            });
        }
        if let Some(subinterfaces) = &self.subinterfaces {
            subinterfaces.set_tables(tables, own, self.settings.icmp_limits);
        }
    }

    /// Makes subinterfaces answer for the addresses in a snapshot whose routes are all in use: a host
    /// sends packets as soon as it has an answer.
    pub(super) fn announce_addresses(&self, tables: &Arc<ForwardingTables>) {
        let Some(own) = &self.subinterfaces else { return };
        own.set_addresses(tables);
        for worker in &self.workers {
            let tables = Arc::clone(tables);
            worker.tell(move |worker| worker.set_link_addresses(&tables));
        }
    }
}
