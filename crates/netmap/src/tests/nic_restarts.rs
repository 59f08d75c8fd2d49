//! Tests of interfaces through restarts of the daemon.

use slipring_ring::{KernRing, RingHalves, RingView, Rx, Tx};

use super::attaches::{Machine, attach, eventually, unplug};
use super::restarts::Daemon;
use super::*;
use crate::memory::ledger::Ledger;
use crate::memory::netmap_memory::{MemoryNeeds, NetmapMemory};
use crate::types::state::DomainState;

const SHAPE: AdapterShape = AdapterShape { rings: [1; 2], host_rings: [1; 2], slots: [8; 2] };

/// Provides the interface `nic0`, also after a restart.
#[derive(Debug)]
struct OneNic;

/// An interface with a ring for the NIC and one for the host in each direction. Its driver does
/// nothing.
#[derive(Debug)]
struct IdleNic {
    rings: [Vec<Option<RingView>>; 2],
    base: AdapterBase,
}

impl IdleNic {
    fn with_rings(
        rings: [Vec<Option<RingView>>; 2],
        memory: &Arc<NetmapMemory>,
    ) -> Arc<dyn Adapter> {
        let base = AdapterBase::new("nic0".to_owned(), &SHAPE, memory.clone());
        Arc::new(Self { rings, base })
    }
}

impl Provider for OneNic {
    fn find(&self, wanted: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        let memory = wanted.domain.private_memory(MemoryNeeds::rings(4, 8, true))?;
        let region = memory.region();
        let view = |kern: KernRing| Some(kern.view());
        let tx = [0, 1].map(|i| view(RingHalves::<Tx>::create(region, i, 8).unwrap().kern));
        let rx = [0, 1].map(|i| view(RingHalves::<Rx>::create(region, i, 8).unwrap().kern));
        Ok(IdleNic::with_rings([tx.into(), rx.into()], &memory))
    }

    fn resume(&self, left: &RecoveredPort<'_>) -> Option<Arc<dyn Adapter>> {
        Some(IdleNic::with_rings(left.rings.clone(), left.memory))
    }
}

impl Adapter for IdleNic {
    fn base(&self) -> &AdapterBase {
        &self.base
    }

    fn shape(&self) -> AdapterShape {
        SHAPE
    }

    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView> {
        self.rings[dir as usize].get(i)?.as_ref()
    }

    fn sync(&self, _: TxRx, _: usize) -> SyncStatus {
        SyncStatus::Done
    }

    fn listeners(&self, _: TxRx, _: usize) -> Option<&Listeners> {
        None
    }
}

#[test]
fn the_parameter_fwd_forwards_frames_after_a_restart() {
    let mut daemon = Daemon::with(Box::new(OneNic));
    let wish = NmreqRegister { nr_mode: NR_REG_NIC_SW, ..NmreqRegister::default() };
    let (i, got) = daemon.bound("nic0", &wish);
    let mut daemon = daemon.killed_with(Box::new(OneNic)).unwrap();
    daemon.world.domain.parameters().set("fwd", 1).unwrap();
    let [host_tx, rx] = [1, 2].map(|ring| daemon.eye().ring_at(&got, ring));
    daemon.eye().queue(rx, 0, 60, 0);
    daemon.sync(i, NIOCRXSYNC).unwrap();
    let eye = daemon.eye();
    assert_eq!((eye.ring(host_tx).head, eye.slot(host_tx, 0).len), (1, 60));
}

#[test]
fn an_interface_that_vanished_from_its_switch_is_not_in_the_saved_state() {
    let machine = Arc::<Machine>::default();
    let daemon = Daemon::with(Box::new(machine.clone()));
    attach(&daemon.world, NR_REG_ALL_NIC).unwrap();
    let attached = || {
        let (ledger, bytes) = Ledger::adopt(daemon.shelf.copy("ledger-0")).unwrap();
        std::mem::forget(ledger);
        postcard::from_bytes::<DomainState>(&bytes).unwrap().attached.len()
    };
    assert_eq!(attached(), 1);
    unplug(&machine);
    eventually(|| !lock(&machine.notified).is_empty());
    assert_eq!((attached(), daemon.world.domain.switches().len()), (0, 0));
}
