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

    /// Tells the threads of [`Self::distribute`] that the IPv4 table entries (cells) of a snapshot
    /// are written. Only then do subinterfaces answer requests for the MAC addresses of new
    /// addresses, because a host sends packets as soon as it has an answer.
    pub(super) fn tell_of_cells(&self, tables: &Arc<ForwardingTables>) {
        for worker in &self.workers {
            let tables = Arc::clone(tables);
            worker.tell(move |worker| worker.follow_cells(&tables, now()));
        }
        self.subinterfaces.iter().for_each(|own| own.set_addresses(tables));
    }
}
