//! Finds the best mode that a device supports, and binds the device's queues in this mode.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use slipring_ring::Region;

use super::bound::BoundQueue;
use super::layout::is_aligned;
use super::owner;
use super::program::{HookError, HookRequest, VlanHandling, XdpAttachMode, XdpHook};
use super::socket::{UnboundSocket, XdpSocket};
use super::sys;
use crate::error::{OpenCause, QueueOwner};
use crate::iface::Iface;
use crate::options::{OpenOptions, XdpMode};

/// Minimum number of entries of a kernel ring.
const MIN_RING_SIZE: u32 = 64;
/// Send buffer space that the kernel counts for one frame in flight, rounded up, in bytes.
const SEND_BUFFER_BYTES_PER_FRAME: u32 = 4096;

/// How sockets are bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SocketMode {
    pub(super) attach_mode: XdpAttachMode,
    pub(super) zero_copy: bool,
    /// Whether packets may take several buffers.
    pub(super) chains: bool,
}

/// The bound sockets, and the XDP program that redirects frames to them.
pub(super) struct BoundSockets {
    pub(super) sockets: Vec<XdpSocket>,
    pub(super) hook: Arc<XdpHook>,
    pub(super) mode: SocketMode,
}

/// Binds `queues` in the best mode that the options allow. If the caller has attached an XDP
/// program (`given`), only modes with the same kind of attachment are tried: native or generic.
pub(super) fn open_queues(
    iface: &Iface,
    queues: &[u32],
    region: &Region,
    options: &OpenOptions,
    given: Option<Arc<XdpHook>>,
) -> Result<BoundSockets, OpenCause> {
    let attempt = SetupAttempt { iface, queues, region, options };
    let attached = given.as_ref().map(|hook| hook.attach_mode);
    let mut hook = given.or_else(|| XdpHook::existing(iface.index));
    // The initial value is reported if no mode could be tried at all; later this is the error of
    // the last mode.
    let mut last = io::Error::other(format!(
        "buffers of {} bytes cannot be read without a copy; those of 2048 or 4096 can",
        region.buf_size()
    ));
    let fits = |mode: &SocketMode| attached.is_none_or(|attached| mode.attach_mode == attached);
    for mode in modes(iface, options.xdp, is_aligned(region)).into_iter().filter(fits) {
        match attempt.open(mode, hook.take()) {
            Ok(opened) => return Ok(opened),
            Err(SetupFailure::Fatal(cause)) => return Err(cause),
            Err(SetupFailure::Refused(error, kept)) => (last, hook) = (error, kept),
        }
    }
    // Some drivers have queues only while the interface is up. This error is returned only after
    // all modes were tried, because another mode may need fewer queues.
    if last.raw_os_error() == Some(libc::ENETDOWN) {
        return Err(OpenCause::Down { ifname: iface.name.clone() });
    }
    let wanted = match options.xdp {
        XdpMode::ZeroCopy => "AF_XDP zero-copy",
        XdpMode::Native => "native XDP",
        XdpMode::Generic => "generic XDP",
        XdpMode::Best => "AF_XDP",
    };
    Err(OpenCause::ModeRefused { ifname: iface.name.clone(), wanted, source: last })
}

/// Binds sockets that only send: copied frames need neither a program nor the driver's support.
/// Also returns whether packets may take several buffers. `None` if no sockets could be bound.
pub(super) fn bind_senders(
    iface: &Iface,
    queues: &[u32],
    region: &Region,
    options: &OpenOptions,
) -> Option<(Vec<XdpSocket>, bool)> {
    let attempt = SetupAttempt { iface, queues, region, options };
    for mode in modes(iface, XdpMode::Generic, false) {
        match attempt.bind_all(mode) {
            Ok(sockets) => return Some((sockets, mode.chains)),
            Err(SetupFailure::Refused(..)) => {}
            Err(SetupFailure::Fatal(_)) => return None,
        }
    }
    None
}

/// Returns the modes to try, best first. Zero-copy is among them only if chunks are aligned.
fn modes(iface: &Iface, wanted: XdpMode, aligned: bool) -> Vec<SocketMode> {
    // Zero-copy fails on software devices, except virtio, which has hardware rings. On the others,
    // it is tried only if no other mode is allowed, because registering a region takes long.
    let hopeless = iface.is_software() && iface.driver != "virtio_net";
    let native = |zero_copy| (XdpAttachMode::Native, zero_copy);
    let attempts: &[(XdpAttachMode, bool)] = match wanted {
        XdpMode::ZeroCopy => &[native(true)],
        XdpMode::Native if hopeless => &[native(false)],
        XdpMode::Native => &[native(true), native(false)],
        XdpMode::Best if hopeless => &[native(false), (XdpAttachMode::Generic, false)],
        XdpMode::Best => &[native(true), native(false), (XdpAttachMode::Generic, false)],
        XdpMode::Generic => &[(XdpAttachMode::Generic, false)],
    };
    let both = |&(mode, zero_copy): &(XdpAttachMode, bool)| {
        [true, false].map(|chains| SocketMode { attach_mode: mode, zero_copy, chains })
    };
    attempts.iter().filter(|&&(_, zero_copy)| aligned || !zero_copy).flat_map(both).collect()
}

/// Why an attempt to bind the queues in one mode failed.
enum SetupFailure {
    /// Another mode may work. The second value is the XDP program that is still attached, and may
    /// fit that mode.
    Refused(io::Error, Option<Arc<XdpHook>>),
    Fatal(OpenCause),
}

impl From<OpenCause> for SetupFailure {
    fn from(cause: OpenCause) -> Self {
        Self::Fatal(cause)
    }
}

struct SetupAttempt<'a> {
    iface: &'a Iface,
    queues: &'a [u32],
    region: &'a Region,
    options: &'a OpenOptions,
}

impl SetupAttempt<'_> {
    /// Binds all queues in one mode, with the existing XDP program if it fits.
    fn open(
        &self,
        mode: SocketMode,
        hook: Option<Arc<XdpHook>>,
    ) -> Result<BoundSockets, SetupFailure> {
        let hook = match hook {
            Some(hook) if hook.attach_mode == mode.attach_mode && hook.frags >= mode.chains => hook,
            // Another port of this process uses the program too, so it must stay as it is.
            Some(hook) if Arc::strong_count(&hook) > 1 => {
                let error = io::Error::other("another port of this program has it in another mode");
                return Err(SetupFailure::Refused(error, Some(hook)));
            }
            unfit => {
                drop(unfit);
                self.hook(mode)?
            }
        };
        match self.bind_all(mode) {
            Ok(sockets) => Ok(BoundSockets { sockets, hook, mode }),
            Err(SetupFailure::Refused(error, _)) => Err(SetupFailure::Refused(error, Some(hook))),
            Err(fatal) => Err(fatal),
        }
    }

    fn hook(&self, mode: SocketMode) -> Result<Arc<XdpHook>, SetupFailure> {
        let queues = self.iface.rx_queues.max(self.iface.tx_queues);
        let native = mode.attach_mode == XdpAttachMode::Native;
        // After a zero-copy bind, a real device is configured to leave tags in frames
        // (`disable_offloads`). So only the native mode with a copy has to insert them again.
        let put_back = native && !mode.zero_copy;
        let attempts: &[VlanHandling] = if put_back {
            &[VlanHandling::Reinsert, VlanHandling::InBand]
        } else {
            &[VlanHandling::InBand]
        };
        let mut last = io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        for &vlan in attempts {
            let wanted = HookRequest { attach_mode: mode.attach_mode, vlan, frags: mode.chains };
            match XdpHook::attach(self.iface.index, queues, wanted) {
                Ok(hook) => return Ok(hook),
                Err(HookError::Fatal(cause)) => return Err(cause.into()),
                Err(HookError::Refused(error)) => last = error,
            }
        }
        match last.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Err(OpenCause::Busy {
                ifname: self.iface.name.clone(),
                queue: self.queues[0],
                by: QueueOwner::Process(
                    owner::program_owner(self.iface.index)
                        .unwrap_or_else(|| "another XDP program".into()),
                ),
            }
            .into()),
            _ => Err(SetupFailure::Refused(last, None)),
        }
    }

    /// Binds a socket to each queue. The first socket registers the region, and the others share
    /// its memory.
    fn bind_all(&self, mode: SocketMode) -> Result<Vec<XdpSocket>, SetupFailure> {
        let mut sockets: Vec<XdpSocket> = Vec::with_capacity(self.queues.len());
        for &queue in self.queues {
            let socket = self.bind(mode, queue, sockets.first())?;
            sockets.push(socket);
        }
        Ok(sockets)
    }

    fn bind(
        &self,
        mode: SocketMode,
        queue: u32,
        first: Option<&XdpSocket>,
    ) -> Result<XdpSocket, SetupFailure> {
        let failed = |error| self.failure(error, queue);
        let slots = self.ring_size();
        let socket = UnboundSocket::new(self.region, first.is_some(), slots).map_err(failed)?;
        // A socket that shares memory inherits the mode of the first socket.
        let flags = if first.is_some() { libc::XDP_SHARED_UMEM } else { bind_flags(mode) };
        let umem = first.map(XdpSocket::fd);
        let socket = socket.bind(self.iface.index, queue, flags, umem).map_err(failed)?;
        let bytes = slots.saturating_mul(SEND_BUFFER_BYTES_PER_FRAME).min(1 << 30);
        sys::widen_tx(socket.fd().as_fd(), slots, bytes as i32);
        if self.options.busy_poll_us > 0 {
            let micros = self.options.busy_poll_us;
            sys::busy_poll(socket.fd(), micros, MIN_RING_SIZE)
                .map_err(|source| OpenCause::System { what: "enable busy polling", source })?;
        }
        Ok(socket)
    }

    /// Returns the number of entries of each kernel ring. It is enough for the buffers of all
    /// slots, so no ring can overflow.
    fn ring_size(&self) -> u32 {
        self.options.slots.max(MIN_RING_SIZE).next_power_of_two()
    }

    fn failure(&self, error: io::Error, queue: u32) -> SetupFailure {
        let ifname = self.iface.name.clone();
        SetupFailure::Fatal(match error.raw_os_error() {
            Some(libc::EBUSY) => {
                let wanted = BoundQueue { ifindex: self.iface.index, queue };
                let by = owner::queue_owner(wanted);
                OpenCause::Busy { by, ifname, queue }
            }
            Some(libc::EPERM | libc::EACCES) => OpenCause::Privilege {
                what: "open an AF_XDP socket",
                capabilities: "cap_net_admin,cap_bpf,cap_net_raw",
                source: error,
            },
            Some(libc::ENOBUFS) => OpenCause::LockedMemory { bytes: self.region.buf_area_len() },
            Some(libc::EAFNOSUPPORT) => OpenCause::Unsupported {
                what: "AF_XDP".into(),
                needs: "a kernel with CONFIG_XDP_SOCKETS",
            },
            Some(libc::ENODEV) => OpenCause::NoInterface { ifname },
            _ => return SetupFailure::Refused(error, None),
        })
    }
}

fn bind_flags(mode: SocketMode) -> u16 {
    let copy = if mode.zero_copy { libc::XDP_ZEROCOPY } else { libc::XDP_COPY };
    let chains = if mode.chains { libc::XDP_USE_SG } else { 0 };
    copy | chains | libc::XDP_USE_NEED_WAKEUP
}
