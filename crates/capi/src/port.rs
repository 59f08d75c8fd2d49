//! Open ports: their description, and their queues in mutexes.

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard};

use slipring_abi::name::PortName;
use slipring_core::Host;
use slipring_port::{OpenOptions, Port, PortInfo, Queue, WaitStrategy, Waiter};

use crate::error::{CallError, c_text};
use crate::structs::{
    SLIPRING_ALL_QUEUES, SLIPRING_ERR_DEFECT, SLIPRING_ERR_MACHINE, SlipringPortInfo,
};

/// A queue of a port. Only one thread at a time can use it.
pub(crate) type LockedQueue = Mutex<Box<dyn Queue>>;

/// An open port. In C, it is `struct slipring_port`.
pub struct PortHandle {
    info: PortInfo,
    pub(crate) name: CString,
    pub(crate) kind: CString,
    pub(crate) mode: CString,
    queues: Vec<LockedQueue>,
    waiter: Mutex<Waiter>,
    /// A duplicate of the waiter's descriptor, which can be used without the waiter's lock.
    wait_fd: std::os::fd::OwnedFd,
}

impl PortHandle {
    pub(crate) fn new(port: Port) -> Result<Self, CallError> {
        let failed = |error: std::io::Error| {
            CallError::new(
                SLIPRING_ERR_MACHINE,
                format!("cannot wait for {}: {error}", port.info.name),
            )
        };
        let waiter = Waiter::for_ports([&port], WaitStrategy::Sleep).map_err(failed)?;
        let wait_fd = std::os::fd::AsFd::as_fd(&waiter).try_clone_to_owned().map_err(failed)?;
        Ok(Self {
            name: c_text(&port.info.name),
            kind: c_text(port.info.kind),
            mode: c_text(port.info.mode.to_string().trim_start()),
            info: port.info,
            queues: port.queues.into_iter().map(Mutex::new).collect(),
            waiter: Mutex::new(waiter),
            wait_fd,
        })
    }

    /// Opens ports, which share one memory region if their kinds allow that.
    pub(crate) fn open_all(names: &[&str], options: &OpenOptions) -> Result<Vec<Self>, CallError> {
        let parse = |name: &&str| slipring_core::parse(name);
        let parsed: Vec<PortName> = names.iter().map(parse).collect::<Result<_, _>>()?;
        let ports = Host::global().open_all(&parsed, options)?;
        ports.into_iter().map(Self::new).collect()
    }

    pub(crate) fn wait_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.wait_fd)
    }

    pub(crate) fn waiter(&self) -> Result<MutexGuard<'_, Waiter>, CallError> {
        self.waiter.lock().map_err(|_| self.poisoned())
    }

    pub(crate) fn queue_count(&self) -> u32 {
        self.queues.len() as u32
    }

    /// Locks a queue; fails if the port has no queue with this number.
    pub(crate) fn queue(&self, queue: u32) -> Result<MutexGuard<'_, Box<dyn Queue>>, CallError> {
        self.lock(self.one(queue)?)
    }

    /// Returns one queue; fails if the port has no queue with this number.
    pub(crate) fn one(&self, queue: u32) -> Result<&LockedQueue, CallError> {
        self.queues.get(queue as usize).ok_or_else(|| {
            let (name, count) = (&self.info.name, self.queues.len());
            CallError::argument(format!("{name} has {count} queues, and none with number {queue}"))
        })
    }

    pub(crate) fn lock<'q>(
        &self,
        queue: &'q LockedQueue,
    ) -> Result<MutexGuard<'q, Box<dyn Queue>>, CallError> {
        queue.lock().map_err(|_| self.poisoned())
    }

    /// Returns one queue as a list; for `SLIPRING_ALL_QUEUES`, all queues.
    pub(crate) fn some(&self, queue: u32) -> Result<&[LockedQueue], CallError> {
        if queue == SLIPRING_ALL_QUEUES {
            return Ok(&self.queues);
        }
        self.one(queue).map(std::slice::from_ref)
    }

    /// Returns the error for a queue, or the waiter, that was locked by a call that panicked.
    fn poisoned(&self) -> CallError {
        let what = format!("{} met a defect of libslipring before: close it", self.info.name);
        CallError::new(SLIPRING_ERR_DEFECT, what)
    }

    /// Returns the port's features, MAC address, MTU and so on, as the C struct.
    pub(crate) fn facts(&self) -> SlipringPortInfo {
        let PortInfo { caps, mac, mtu, .. } = &self.info;
        SlipringPortInfo {
            size: 0,
            queues: self.queue_count(),
            can_receive: caps.rx.into(),
            can_send: caps.tx.into(),
            max_packet: caps.max_packet,
            max_slot: caps.max_slot,
            mtu: mtu.unwrap_or(0),
            has_mac: mac.is_some().into(),
            mac: mac.unwrap_or_default(),
            reserved: [0; 2],
        }
    }
}
