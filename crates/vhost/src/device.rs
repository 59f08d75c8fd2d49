//! The vhost-user device: carries out the front-end's requests on its virtqueues.
//!
//! A virtqueue runs if it has memory and a layout, was started, and was enabled. It need not be
//! enabled if the protocol features were not negotiated. If a message changes any of this, the
//! queue is removed from its link and created again.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::OFlags;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures,
    VhostUserVirtioFeatures,
};
use virtio_bindings::bindings::virtio_config::VIRTIO_F_VERSION_1;
use virtio_bindings::bindings::virtio_net::VIRTIO_NET_F_MRG_RXBUF;
use virtio_bindings::bindings::virtio_ring::{
    VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC,
};

use crate::link::VhostLink;
use crate::memory::VhostMemory;
use crate::vring::{NegotiatedFeatures, VirtqLayout, Vring};

/// Maximum number of descriptors of a virtqueue. It is more than any front-end offers to its guests
/// for virtio-net.
const MAX_QUEUE_SIZE: u32 = 4096;

const fn bit(feature: u32) -> u64 {
    1 << feature
}

/// The features that the device offers. They include no offloads: with an offload, the guest leaves
/// checksums or segmentation to the device, but the port performs neither.
pub(crate) const FEATURES: u64 = bit(VIRTIO_F_VERSION_1)
    | bit(VIRTIO_NET_F_MRG_RXBUF)
    | bit(VIRTIO_RING_F_EVENT_IDX)
    | bit(VIRTIO_RING_F_INDIRECT_DESC)
    | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();

/// The device of one connection.
pub(crate) struct VhostDevice {
    links: Vec<Arc<VhostLink>>,
    features: u64,
    memory: Option<VhostMemory>,
    /// There are two virtqueues per pair: first the guest's receive queue, then its transmit queue.
    queues: Vec<VirtqConfig>,
}

/// The front-end's settings of a virtqueue.
#[derive(Debug, Default)]
struct VirtqConfig {
    size: u16,
    base: u16,
    /// The addresses of the descriptor table, the avail ring and the used ring, in the address
    /// space of the front-end.
    layout: Option<[u64; 3]>,
    kick: Option<OwnedFd>,
    call: Option<Arc<OwnedFd>>,
    /// Whether the queue was started and has not been stopped since.
    started: bool,
    enabled: bool,
}

impl VhostDevice {
    pub(crate) fn new(links: &[Arc<VhostLink>]) -> Self {
        let queues = (0..2 * links.len()).map(|_| VirtqConfig::default()).collect();
        Self { links: links.to_vec(), features: 0, memory: None, queues }
    }

    fn queue_config(&mut self, index: u32) -> Result<&mut VirtqConfig> {
        self.queues.get_mut(index as usize).ok_or(Error::InvalidParam)
    }

    /// Removes a virtqueue from its link. If the queue should run, creates a new one.
    fn apply(&mut self, index: u32) -> Result<()> {
        let Self { links, queues, features, memory } = self;
        let (i, wish) = (index as usize, &mut queues[index as usize]);
        let link = &links[i / 2];
        let mut rings = link.lock();
        let layout = rings.vring_mut(i % 2);
        if let Some(running) = layout.take() {
            wish.base = running.base();
        }
        let unasked = *features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0;
        let runs = wish.started && (wish.enabled || unasked);
        if let Some(memory) = memory.as_ref().filter(|_| runs) {
            *layout = Some(wish.start(memory, negotiated(*features)).ok_or(Error::InvalidParam)?);
        }
        drop(rings);
        // This wakes the program, because frames may already wait in the virtqueue, or for it.
        self.links_of(i).iter().for_each(|link| link.notify());
        Ok(())
    }

    /// Returns the links whose ring pairs use a virtqueue. Ring pairs without a queue pair of the
    /// guest use its first receive queue.
    fn links_of(&self, index: usize) -> &[Arc<VhostLink>] {
        match index {
            0 => &self.links,
            index => std::slice::from_ref(&self.links[index / 2]),
        }
    }

    fn apply_all(&mut self) -> Result<()> {
        (0..self.queues.len() as u32).try_for_each(|index| self.apply(index))
    }

    /// Stops a virtqueue. Returns the avail index of the chain that would be taken next.
    fn stop(&mut self, index: u32) -> Result<u16> {
        self.queue_config(index)?.started = false;
        self.apply(index)?;
        if let Some(kick) = self.queue_config(index)?.kick.take() {
            self.links_of(index as usize).iter().for_each(|link| link.remove_kick(&kick));
        }
        let wish = self.queue_config(index)?;
        wish.call = None;
        Ok(wish.base)
    }

    /// Stops all virtqueues. After this, the guest's memory is not accessed.
    pub(crate) fn stop_all(&mut self) {
        for index in 0..self.queues.len() as u32 {
            // Only creating a virtqueue can fail, not stopping it.
            let _ = self.stop(index);
        }
        self.memory = None;
    }
}

impl Drop for VhostDevice {
    fn drop(&mut self) {
        self.stop_all();
    }
}

impl VirtqConfig {
    /// Creates a virtqueue from the front-end's settings; `None` if these are incomplete or
    /// invalid.
    fn start(&self, memory: &VhostMemory, agreed: NegotiatedFeatures) -> Option<Vring> {
        let [descriptors, avail, used] = self.layout?.map(|at| memory.guest_address(at));
        let (descriptors, avail, used) = (descriptors?, avail?, used?);
        let layout = VirtqLayout { size: self.size, descriptors, avail, used };
        Vring::new(layout, memory.mapped.clone(), self.base, agreed, self.call.clone()).ok()
    }
}

fn negotiated(features: u64) -> NegotiatedFeatures {
    let has = |feature| features & bit(feature) != 0;
    let long = has(VIRTIO_F_VERSION_1) || has(VIRTIO_NET_F_MRG_RXBUF);
    NegotiatedFeatures {
        event_idx: has(VIRTIO_RING_F_EVENT_IDX),
        mergeable: has(VIRTIO_NET_F_MRG_RXBUF),
        header: if long { 12 } else { 10 },
    }
}

/// Checks that a descriptor is an eventfd, and makes it nonblocking.
fn into_eventfd(fd: File) -> Result<OwnedFd> {
    let checked = || -> io::Result<OwnedFd> {
        let fd = OwnedFd::from(fd);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()));
        let target = rustix::fs::readlink(path, Vec::new())?;
        if target.as_bytes() != b"anon_inode:[eventfd]" {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(fd)
    };
    checked().map_err(Error::ReqHandlerError)
}

fn unsupported<T>() -> Result<T> {
    Err(Error::InvalidOperation("not offered"))
}

impl VhostUserBackendReqHandlerMut for VhostDevice {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        (0..self.queues.len() as u32).try_for_each(|index| self.stop(index).map(|_| ()))
    }

    fn reset_device(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(FEATURES)
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        if features & !FEATURES != 0 {
            return Err(Error::InvalidParam);
        }
        self.features = features;
        self.apply_all()
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK)
    }

    fn set_protocol_features(&mut self, _features: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(self.links.len() as u64)
    }

    fn set_mem_table(
        &mut self,
        table: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<vhost::VhostUserMemoryRegionBase>>> {
        self.memory = Some(VhostMemory::map(table, files).map_err(Error::ReqHandlerError)?);
        self.apply_all().map(|()| None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        if num == 0 || num > MAX_QUEUE_SIZE || !num.is_power_of_two() {
            return Err(Error::InvalidParam);
        }
        self.queue_config(index)?.size = num as u16;
        self.apply(index)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        self.queue_config(index)?.layout = Some([descriptor, available, used]);
        self.apply(index)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        let started = std::mem::take(&mut self.queue_config(index)?.started);
        self.apply(index)?;
        let wish = self.queue_config(index)?;
        (wish.base, wish.started) = (base, started);
        self.apply(index)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let base = self.stop(index)?;
        Ok(VhostUserVringState::new(index, base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let kick = fd.map(into_eventfd).transpose()?;
        let wish = self.queue_config(index.into())?;
        let old = std::mem::replace(&mut wish.kick, kick);
        wish.started = true;
        for link in self.links_of(index.into()) {
            if let Some(old) = &old {
                link.remove_kick(old);
            }
            if let Some(kick) = &self.queues[usize::from(index)].kick {
                link.add_kick(kick).map_err(Error::ReqHandlerError)?;
            }
        }
        self.apply(index.into())
    }

    fn set_vring_call(&mut self, index: u8, fd: Option<File>) -> Result<()> {
        let call = fd.map(into_eventfd).transpose()?;
        self.queue_config(index.into())?.call = call.map(Arc::new);
        self.apply(index.into())
    }

    fn set_vring_err(&mut self, _index: u8, _fd: Option<File>) -> Result<()> {
        Ok(())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.queue_config(index)?.enabled = enable;
        self.apply(index)
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        unsupported()
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        unsupported()
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        unsupported()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        unsupported()
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        unsupported()
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        unsupported()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        unsupported()
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<vhost::VhostUserMemoryRegionBase>> {
        unsupported()
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        unsupported()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        unsupported()
    }

    fn check_device_state(&mut self) -> Result<()> {
        unsupported()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        unsupported()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        unsupported()
    }
}
