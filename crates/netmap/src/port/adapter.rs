//! The trait that every kind of port implements: its rings as its openers see them.
//!
//! The trait covers what all kinds of ports do. The abilities of only some kinds are separate
//! traits, and an accessor (`as_…`) returns the port as such a trait object. Methods of `dyn
//! Adapter` give the default answer for ports without the ability.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_ring::RingView;

use crate::memory::caller::CallerMemory;
use crate::memory::netmap_memory::NetmapMemory;
use crate::port::base::AdapterBase;
use crate::port::claims::Claims;
use crate::port::delegation::{DelegatingPort, DelegationGuard, PipeDelegation, QueueDelegation};
use crate::port::kicks::KickDispatcher;
use crate::port::monitor_taps::MonitorTaps;
use crate::port::persist::Persistent;
use crate::port::switched::SwitchedPort;
use crate::port::waker::Listeners;
use crate::types::outcome::{AdapterCounters, OffsetLimits, SyncStatus};
use crate::types::shape::{AdapterShape, TxRx};

/// A port as its openers see it: rings in a [`NetmapMemory`], and the code that syncs them.
///
/// Rings are numbered per direction: first those of the NIC, then those of the host.
pub trait Adapter: Send + Sync + Debug {
    /// Returns the data common to all ports.
    fn base(&self) -> &AdapterBase;

    /// Returns the numbers of rings and slots; before [`Self::activate`], the expected ones.
    fn shape(&self) -> AdapterShape;

    /// Creates the rings that a bind of `mode` (`NR_REG_*`) needs, if they do not exist. Called
    /// before every bind. Until then the port need not take any resources, because some programs
    /// only query it.
    ///
    /// # Errors
    /// The reason why the rings cannot be created.
    fn activate(&self, _mode: u32) -> Result<(), Errno> {
        Ok(())
    }

    /// Returns ring `i` of a direction; `None` if the port has no ring `i`, or before
    /// [`Self::activate`].
    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView>;

    /// Sends from, or receives into, ring `i`. Never waits for a program, only for locks that are
    /// held briefly. One call moves at most as many frames as the ring has slots.
    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus;

    /// Returns the listeners to wake when ring `i` becomes ready; `None` if the port has no ring
    /// `i`. The result may be `None` before [`Self::activate`].
    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners>;

    /// Returns whether the interface, pipe or switch behind the port no longer exists.
    fn has_vanished(&self) -> bool {
        false
    }

    /// Returns whether the port's name no longer refers to this port, because its interface has
    /// vanished or was renamed. Called at each lookup of the name.
    fn is_stale(&self) -> bool {
        self.has_vanished()
    }

    /// Returns whether the port is a monitor, which cannot send.
    fn is_monitor(&self) -> bool {
        false
    }

    /// Returns the packet counters, which include losses outside the rings; `None` if nothing
    /// counts them.
    fn counters(&self) -> Option<AdapterCounters> {
        None
    }

    /// Returns the limits of payload offsets ([`slipring_ring::RingView::offsets`]); `None` if the
    /// port does not support them.
    fn offset_limits(&self) -> Option<OffsetLimits> {
        None
    }

    /// Returns the port as a port whose rings programs may sync in their own processes; `None` for
    /// other ports.
    fn as_delegating(&self) -> Option<&dyn DelegatingPort> {
        None
    }

    /// Returns the port as a switch port; `None` for other ports.
    fn as_switched(&self) -> Option<&dyn SwitchedPort> {
        None
    }

    /// Returns the port as a port that this crate saves and resumes at a restart of the daemon;
    /// `None` for other ports. Ports of a provider are resumed by [`crate::Provider::resume`].
    fn as_persistent(&self) -> Option<Persistent<'_>> {
        None
    }
}

/// Shortcuts to the data in the port's [`AdapterBase`].
impl dyn Adapter + '_ {
    /// Returns the name of the port in requests.
    pub fn name(&self) -> &str {
        self.base().name()
    }

    /// Returns the memory that contains the port's rings and buffers.
    pub fn memory(&self) -> &Arc<NetmapMemory> {
        self.base().memory()
    }

    /// Returns the record of which rings are bound.
    pub fn claims(&self) -> &Arc<Claims> {
        self.base().claims()
    }

    /// Returns the port's monitors; `None` if the port cannot have any.
    pub fn monitor_taps(&self) -> Option<&Arc<MonitorTaps>> {
        self.base().monitor_taps()
    }
}

/// Abilities of some ports, with default answers for all others.
impl dyn Adapter + '_ {
    /// Lends rings to a program ([`DelegatingPort::lend`]); `OPNOTSUPP` for ports that cannot.
    pub(crate) fn lend(
        &self,
        rings: &[Range<usize>; 2],
        kicks: &Arc<KickDispatcher>,
    ) -> Result<(PipeDelegation, DelegationGuard), Errno> {
        self.as_delegating().ok_or(Errno::OPNOTSUPP)?.lend(rings, kicks)
    }

    /// Lends queues to a program ([`DelegatingPort::lend_queues`]); `OPNOTSUPP` for ports that
    /// cannot.
    pub(crate) fn lend_queues(
        &self,
        rings: &[Range<usize>; 2],
        client_id: u32,
    ) -> Result<(Vec<QueueDelegation>, DelegationGuard), Errno> {
        self.as_delegating().ok_or(Errno::OPNOTSUPP)?.lend_queues(rings, client_id)
    }

    /// Handles a kick ([`DelegatingPort::kick`]); does nothing for ports that do not lend rings.
    pub(crate) fn kick(&self) {
        if let Some(port) = self.as_delegating() {
            port.kick();
        }
    }

    /// Announces that a thread will sleep until ring `i` is ready
    /// ([`DelegatingPort::announce_sleep`]); does nothing for ports that do not lend rings.
    pub(crate) fn announce_sleep(&self, dir: TxRx, i: usize) {
        if let Some(port) = self.as_delegating() {
            port.announce_sleep(dir, i);
        }
    }

    /// Sends what is queued in tx ring `i`: [`SwitchedPort::flush`] for switch ports, a sync for
    /// others.
    pub(crate) fn flush(&self, i: usize) -> SyncStatus {
        match self.as_switched() {
            Some(port) => port.flush(i),
            None => self.sync(TxRx::Tx, i),
        }
    }

    /// Returns the length in bytes of the virtio-net header before each frame
    /// ([`SwitchedPort::vnet_header`]); 0 for ports that are not switch ports.
    pub(crate) fn vnet_header(&self) -> u32 {
        self.as_switched().map_or(0, |port| port.vnet_header())
    }

    /// Sets the length of the virtio-net header ([`SwitchedPort::set_vnet_header`]); `INVAL` for
    /// ports that are not switch ports.
    pub(crate) fn set_vnet_header(&self, bytes: u32) -> Result<(), Errno> {
        self.as_switched().ok_or(Errno::INVAL)?.set_vnet_header(bytes)
    }

    /// Returns whether frames in tx ring `i` must be fetched from the program's memory
    /// ([`SwitchedPort::has_indirect`]); `false` for ports that are not switch ports.
    pub(crate) fn has_indirect(&self, i: usize) -> bool {
        self.as_switched().is_some_and(|port| port.has_indirect(i))
    }

    /// Fetches the frames for which [`Self::has_indirect`] returns `true`
    /// ([`SwitchedPort::fetch_indirect`]); does nothing for ports that are not switch ports.
    pub(crate) fn fetch_indirect(
        &self,
        i: usize,
        caller: &mut dyn CallerMemory,
    ) -> Result<(), Errno> {
        self.as_switched().map_or(Ok(()), |port| port.fetch_indirect(i, caller))
    }
}
