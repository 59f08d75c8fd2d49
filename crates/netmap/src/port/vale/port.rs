//! A switch port that programs bind. It has rings of its own, and frames are copied.
//!
//! Most ports live as long as a program has them bound (`vale0:a`). Persistent ports are created
//! and removed by some requests, and attached to switches by other requests. Frames that a program
//! sends on a persistent port outside a switch are discarded. In a second switch a persistent port
//! acts as an interface: the ports of that switch put frames into its tx rings.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError};

use rustix::io::Errno;
use slipring_abi::NS_INDIRECT;
use slipring_ring::{
    BufIdx, KernRing, PersistentWords, Region, RingHalves, RingView, Rx, Slot, SlotFlags, SlotIdx,
    Tx,
};
use slipring_switch::{SwitchBatch, SwitchPortConfig, SwitchPortId};

use crate::memory::caller::CallerMemory;
use crate::memory::netmap_memory::NetmapMemory;
use crate::port::adapter::Adapter;
use crate::port::base::AdapterBase;
use crate::port::monitor_taps::MonitorTaps;
use crate::port::persist::{Persistent, PersistentPort, PortVisitor};
use crate::port::switched::SwitchedPort;
use crate::port::vale::bridge::{Bridge, BridgeAttachment, BridgePort};
use crate::port::vale::destination_ring::DestinationRing;
use crate::port::vale::frames::SyncFrames;
use crate::port::waker::Listeners;
use crate::types::lock::lock;
use crate::types::outcome::{OffsetLimits, SyncStatus};
use crate::types::shape::{AdapterShape, TxRx};
use crate::types::state::{PortRef, PortState, ValePortState};

/// A port that programs bind to send and receive through a switch.
#[derive(Debug)]
pub(crate) struct ValePort {
    shape: AdapterShape,
    vnet: AtomicU32,
    /// The switch to which the port is attached when it is first bound; `None` for a persistent
    /// port.
    home_bridge: Option<Arc<Bridge>>,
    attachment: RwLock<Option<BridgeAttachment>>,
    monitor_taps: Arc<MonitorTaps>,
    rings: OnceLock<ValeRings>,
    making: Mutex<()>,
    /// The region with the persistent words.
    persistent_words: Arc<Region>,
    /// Must be the last field, so that the memory is dropped after the rings.
    base: AdapterBase,
}

#[derive(Debug)]
struct ValeRings {
    tx: Vec<SourceRing>,
    port: Arc<BridgePort>,
}

/// A tx ring of a program that is bound to a switch port.
#[derive(Debug)]
struct SourceRing {
    view: RingView,
    sender: Mutex<ValeSender>,
    /// Two words for a restart. Word 0 is the slot after the last slot that was taken to be sent,
    /// word 1 the slot after the last slot that was sent.
    words: PersistentWords,
    listeners: Listeners,
}

#[derive(Debug)]
struct ValeSender {
    kern: KernRing,
    frames: SyncFrames,
    batch: SwitchBatch,
}

impl ValePort {
    pub(crate) fn new(
        name: String,
        shape: AdapterShape,
        memory: Arc<NetmapMemory>,
        cells: Arc<Region>,
        home: Option<Arc<Bridge>>,
    ) -> Arc<Self> {
        let monitor_taps = Arc::default();
        Arc::new(Self {
            base: AdapterBase::new(name, &shape, memory).with_monitor_taps(&monitor_taps),
            shape,
            vnet: AtomicU32::new(0),
            home_bridge: home,
            attachment: RwLock::default(),
            monitor_taps,
            rings: OnceLock::new(),
            making: Mutex::default(),
            persistent_words: cells,
        })
    }

    /// Attaches the port to a switch under the given name.
    pub(crate) fn attach(&self, hub: &Arc<Bridge>, name: &str) -> Result<SwitchPortId, Errno> {
        self.ensure_rings()?;
        let mut attachment = self.attachment.write().unwrap_or_else(PoisonError::into_inner);
        if attachment.is_some() {
            return Err(Errno::BUSY);
        }
        self.attach_with(&mut attachment, hub, name)
    }

    /// Attaches the port; the caller holds the lock of `attachment`, which is `None`.
    fn attach_with(
        &self,
        attachment: &mut Option<BridgeAttachment>,
        hub: &Arc<Bridge>,
        name: &str,
    ) -> Result<SwitchPortId, Errno> {
        let rings = self.rings.get().ok_or(Errno::NOMEM)?;
        let taken = hub.attach(name, rings.port.clone())?;
        let id = taken.id;
        *attachment = Some(taken);
        Ok(id)
    }

    /// Detaches the port from its switch; returns the port number that it had there.
    pub(crate) fn detach(&self) -> Option<SwitchPortId> {
        let attachment = self.attachment.write().unwrap_or_else(PoisonError::into_inner).take();
        attachment.map(|attachment| attachment.id)
    }

    /// Returns the port's switch, and the port's number in it.
    pub(crate) fn attachment(&self) -> Option<(Arc<Bridge>, SwitchPortId)> {
        let attachment = self.attachment.read().unwrap_or_else(PoisonError::into_inner);
        attachment.as_ref().map(|attachment| (attachment.bridge.clone(), attachment.id))
    }

    /// Attaches the port to the switch to which it was attached in the previous process, under the
    /// same number; `None` if that fails.
    pub(crate) fn reattach(
        &self,
        hub: &Arc<Bridge>,
        name: &str,
        id: SwitchPortId,
        config: SwitchPortConfig,
    ) -> Option<()> {
        let rings = self.rings.get()?;
        let taken = hub.attach_at(name, rings.port.clone(), id, config)?;
        *self.attachment.write().unwrap_or_else(PoisonError::into_inner) = Some(taken);
        Some(())
    }

    /// Sets the rings that the port had in the previous process.
    pub(crate) fn set_rings(&self, tx: Vec<(KernRing, PersistentWords)>, rx: Vec<KernRing>) {
        let tx = tx.into_iter().map(|(kern, words)| SourceRing::new(kern, words)).collect();
        let rx = rx.into_iter().enumerate();
        let outlets =
            rx.map(|(i, kern)| DestinationRing::of_program(kern, (self.monitor_taps.clone(), i)));
        let vnet = self.vnet.load(Ordering::Relaxed);
        let member = BridgePort::new(outlets.collect(), vnet, Some(self.monitor_taps.clone()));
        // The port is new, so its rings are not set yet.
        let _ = self.rings.set(ValeRings { tx, port: member });
    }

    pub(crate) fn set_vnet(&self, bytes: u32) {
        self.vnet.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn region(&self) -> Arc<Region> {
        self.base.memory().region().clone()
    }

    /// Returns the saved form for the successor process.
    fn state(&self, port: PortState) -> ValePortState {
        let attachment = self.attachment.read().unwrap_or_else(PoisonError::into_inner);
        let name = |attachment: &BridgeAttachment| {
            let ports = attachment.bridge.ports();
            ports.into_iter().find(|(id, _)| *id == attachment.id).map(|(_, name)| name)
        };
        let attachment = attachment.as_ref();
        let attachment = attachment.and_then(|attachment| {
            attachment.bridge.attachment_state(attachment.id, &name(attachment)?)
        });
        let rings = self.rings.get();
        let words = rings.map(|rings| rings.tx.iter().map(|inlet| inlet.words.offset()).collect());
        ValePortState {
            port,
            is_persistent: false,
            vnet: self.vnet.load(Ordering::Relaxed),
            home_bridge: self.home_bridge.as_ref().map(|home| home.number()),
            attachment,
            words: words.unwrap_or_default(),
        }
    }

    fn ensure_rings(&self) -> Result<(), Errno> {
        let _one_maker = lock(&self.making);
        if self.rings.get().is_none() {
            let rings = self.create_rings()?;
            // The lock on `making` is held, so no other thread has set the rings.
            let _ = self.rings.set(rings);
        }
        Ok(())
    }

    fn create_rings(&self) -> Result<ValeRings, Errno> {
        let region = self.base.memory().region();
        let ([tx, rx], [tx_slots, rx_slots]) = (self.shape.rings, self.shape.slots);
        let inlets = (0..tx).map(|ringid| {
            let kern =
                RingHalves::<Tx>::create(region, ringid, tx_slots).map_err(|_| Errno::NOMEM)?.kern;
            Ok(SourceRing::new(
                kern,
                PersistentWords::new(&self.persistent_words).map_err(|_| Errno::NOMEM)?,
            ))
        });
        let outlets = (0..rx).map(|ringid| {
            let pair =
                RingHalves::<Rx>::create(region, ringid, rx_slots).map_err(|_| Errno::NOMEM)?;
            Ok(DestinationRing::of_program(pair.kern, (self.monitor_taps.clone(), ringid.into())))
        });
        let tx = inlets.collect::<Result<_, Errno>>()?;
        let outlets = outlets.collect::<Result<_, Errno>>()?;
        let vnet = self.vnet.load(Ordering::Relaxed);
        Ok(ValeRings { tx, port: BridgePort::new(outlets, vnet, Some(self.monitor_taps.clone())) })
    }

    fn source_ring(&self, i: usize) -> Option<&SourceRing> {
        self.rings.get()?.tx.get(i)
    }

    /// Sends the frames that are queued on ring `i`.
    fn send(&self, i: usize, inlet: &SourceRing, sender: &mut ValeSender) -> SyncStatus {
        let ValeSender { kern, frames, batch } = sender;
        let Ok(head) = kern.released() else { return SyncStatus::Reinit };
        if head != kern.hwcur() {
            let vnet = self.vnet_header() as usize;
            let end = frames.read(&inlet.view, kern.hwcur(), head, vnet);
            // Recorded before the first frame is delivered: after a kill, none of these frames is
            // sent again.
            inlet.record_begin(end);
            self.monitor_taps.observe_slots(TxRx::Tx, i, &inlet.view, frames.all_slots());
            let attachment = self.attachment.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(attachment) = attachment.as_ref().filter(|_| !frames.is_empty()) {
                attachment.bridge.transmit(attachment.id, i as u32, &inlet.view, frames, batch);
            }
            drop(attachment);
            kern.complete_to(end);
            inlet.words.word(0, 1).store(end.into(), Ordering::Release);
        }
        // All sent frames have already been copied, so their slots are free now.
        let tail = kern.prev(kern.hwcur());
        kern.set_tail(tail);
        SyncStatus::Done
    }
}

impl SourceRing {
    fn new(kern: KernRing, words: PersistentWords) -> Self {
        let sender = ValeSender { kern, frames: SyncFrames::default(), batch: SwitchBatch::new() };
        Self {
            view: sender.kern.view(),
            words,
            sender: Mutex::new(sender),
            listeners: Listeners::default(),
        }
    }

    fn record_begin(&self, end: SlotIdx) {
        self.words.word(0, 0).swap(end.into(), Ordering::AcqRel);
    }

    fn try_sender(&self) -> Option<MutexGuard<'_, ValeSender>> {
        match self.sender.try_lock() {
            Ok(sender) => Some(sender),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(sender)) => Some(sender.into_inner()),
        }
    }

    /// Passes the queued slots whose bytes are in the program's private memory (`NS_INDIRECT`) to a
    /// closure. No slot counts as queued while another thread syncs the ring, or if the indices are
    /// invalid; the next sync reports invalid indices.
    fn visit_indirect_slots<T>(
        &self,
        visit: impl FnOnce(&mut dyn Iterator<Item = (SlotIdx, Slot)>) -> T,
    ) -> T {
        let sender = self.try_sender();
        let queued = sender.as_ref().and_then(|sender| {
            let (kern, head) = (&sender.kern, self.view.head());
            let held = kern.pending(kern.hwtail());
            let right = head < kern.num_slots() && kern.pending(head) <= held;
            right.then(|| kern.slots(kern.hwcur(), head))
        });
        let indirect = |(_, slot): &(SlotIdx, Slot)| slot.flags.0 & NS_INDIRECT != 0;
        visit(&mut queued.into_iter().flatten().filter(indirect))
    }
}

impl Adapter for ValePort {
    fn base(&self) -> &AdapterBase {
        &self.base
    }

    fn shape(&self) -> AdapterShape {
        self.shape
    }

    fn activate(&self, _mode: u32) -> Result<(), Errno> {
        self.ensure_rings()?;
        let Some(home) = &self.home_bridge else { return Ok(()) };
        // Another bind of the port may attach it at the same time.
        let mut attachment = self.attachment.write().unwrap_or_else(PoisonError::into_inner);
        if attachment.is_none() {
            self.attach_with(&mut attachment, home, self.base.name())?;
        }
        Ok(())
    }

    fn ring(&self, dir: TxRx, i: usize) -> Option<&RingView> {
        let rings = self.rings.get()?;
        match dir {
            TxRx::Tx => rings.tx.get(i).map(|inlet| &inlet.view),
            TxRx::Rx => rings.port.rings.get(i).map(|outlet| outlet.view()),
        }
    }

    fn sync(&self, dir: TxRx, i: usize) -> SyncStatus {
        match dir {
            TxRx::Tx => {
                let Some(inlet) = self.source_ring(i) else { return SyncStatus::Gone };
                let sender = inlet.try_sender();
                sender.map_or(SyncStatus::Busy, |mut sender| self.send(i, inlet, &mut sender))
            }
            TxRx::Rx => {
                let outlets = self.rings.get().map(|rings| &rings.port.rings);
                let outlet = outlets.and_then(|outlets| outlets.get(i));
                outlet.map_or(SyncStatus::Gone, DestinationRing::sync)
            }
        }
    }

    fn listeners(&self, dir: TxRx, i: usize) -> Option<&Listeners> {
        let rings = self.rings.get()?;
        match dir {
            TxRx::Tx => rings.tx.get(i).map(|inlet| &inlet.listeners),
            TxRx::Rx => rings.port.rings.get(i).map(|outlet| &outlet.listeners),
        }
    }

    fn offset_limits(&self) -> Option<OffsetLimits> {
        Some(OffsetLimits::ANY)
    }

    fn as_switched(&self) -> Option<&dyn SwitchedPort> {
        Some(self)
    }

    fn as_persistent(&self) -> Option<Persistent<'_>> {
        Some(Persistent(self))
    }
}

impl PersistentPort for ValePort {
    fn visit(&self, visitor: &mut dyn PortVisitor) -> PortRef {
        visitor.switch_port(&|port| self.state(port))
    }
}

impl SwitchedPort for ValePort {
    fn flush(&self, i: usize) -> SyncStatus {
        let Some(inlet) = self.source_ring(i) else { return SyncStatus::Gone };
        self.send(i, inlet, &mut lock(&inlet.sender))
    }

    fn vnet_header(&self) -> u32 {
        self.vnet.load(Ordering::Relaxed)
    }

    fn set_vnet_header(&self, bytes: u32) -> Result<(), Errno> {
        if !matches!(bytes, 0 | 10 | 12) {
            return Err(Errno::INVAL);
        }
        self.vnet.store(bytes, Ordering::Relaxed);
        if let Some(rings) = self.rings.get() {
            rings.port.vnet.store(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    fn has_indirect(&self, i: usize) -> bool {
        self.source_ring(i)
            .is_some_and(|inlet| inlet.visit_indirect_slots(|slots| slots.next().is_some()))
    }

    fn fetch_indirect(&self, i: usize, caller: &mut dyn CallerMemory) -> Result<(), Errno> {
        let Some(inlet) = self.source_ring(i) else { return Ok(()) };
        let mut bytes = Vec::new();
        // No lock is held while the fetch waits for the program; syncs of the ring stop before
        // these slots.
        for (at, slot) in inlet.visit_indirect_slots(|slots| slots.collect::<Vec<_>>()) {
            let region = self.base.memory().region();
            bytes.resize(usize::from(slot.len).min(region.buf_size() as usize), 0);
            let read = caller.read(inlet.view.slot_ptr(at), &mut bytes);
            let len = if read.is_ok() { bytes.len() as u16 } else { 0 };
            let buf = if region.is_usable(slot.buf) { slot.buf } else { BufIdx(0) };
            region.copy_in(buf, &bytes);
            // From now on the slot's own buffer holds the frame.
            let flags = SlotFlags(slot.flags.0 & !NS_INDIRECT);
            if inlet.view.offsets().is_some() {
                // `ptr` held the address of the bytes; it is cleared so that it is not read as a
                // payload offset.
                inlet.view.set_slot_ptr(at, 0);
            }
            inlet.view.set_slot(at, Slot { buf, len, flags });
        }
        Ok(())
    }

    #[cfg(test)]
    fn begin(&self, i: usize, end: SlotIdx) {
        self.rings.get().unwrap().tx[i].record_begin(end);
    }
}
