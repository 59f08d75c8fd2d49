//! Providers of ports that this crate does not implement, and the request that they answer.

use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::NmreqRegister;
use slipring_ring::RingView;

use crate::memory::netmap_memory::NetmapMemory;
use crate::open::domain::Domain;
use crate::port::adapter::Adapter;
use crate::types::opener::Opener;
use crate::types::port_name::{PortKey, PortKind};
use crate::types::shape::AdapterShape;

/// Provides ports of kinds that this crate does not implement: NICs, `vhost:` ports.
pub trait Provider: Send + Sync + Debug {
    /// Finds or creates the port with this name. The port need not take any resources before
    /// [`Adapter::activate`].
    ///
    /// # Errors
    /// [`Errno::NXIO`]: no port has this name. Other errors: the port cannot be used.
    fn find(&self, wanted: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno>;

    /// Checks whether the opener may bind, create, attach or query the port with this name and
    /// kind.
    ///
    /// # Errors
    /// The error that the request gets if the provider refuses it.
    fn admit(&self, _wanted: &AdapterRequest<'_>, _kind: PortKind) -> Result<(), Errno> {
        Ok(())
    }

    /// Recreates a port that came from the provider in the previous process; `None` if that is
    /// impossible. A program that has the port bound may keep using it, even if the current access
    /// rules would refuse a new bind.
    fn resume(&self, _left: &RecoveredPort<'_>) -> Option<Arc<dyn Adapter>> {
        None
    }

    /// Receives events that no request caused.
    fn notify(&self, _news: &AdapterEvent) {}
}

/// The state of a port that the previous process left.
#[derive(Debug)]
pub struct RecoveredPort<'l> {
    /// The port's name in requests.
    pub name: &'l str,
    /// The network namespace in which the port was found, if it is still known.
    pub netns: Option<Arc<OwnedFd>>,
    /// The memory that contains the port's rings.
    pub memory: &'l Arc<NetmapMemory>,
    /// The port's numbers of rings and slots.
    pub shape: AdapterShape,
    /// The existing rings in their current state, by [`crate::TxRx`]; `None` for rings that were
    /// never created. Each tx slot in flight, and each rx slot that does not belong to the program,
    /// names a buffer that no other slot names, or buffer 0 if no buffer was free. The rings stay
    /// allocated as long as one of these views exists.
    pub rings: [Vec<Option<RingView>>; 2],
}

/// An event that no request caused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdapterEvent {
    /// An interface that was attached to a switch has vanished, and is detached from the switch.
    InterfaceGone {
        /// The user who owns the switch.
        uid: u32,
        /// The name that the interface had in the switch: `vale0:eth1`.
        port: String,
    },
}

/// The part of a request that describes the wanted port.
#[derive(Debug, Clone, Copy)]
pub struct AdapterRequest<'w> {
    /// The domain of the request.
    pub domain: &'w Arc<Domain>,
    /// The program that opened the file on which the request is made.
    pub opener: &'w Opener,
    /// The port's name, as in `nr_name`.
    pub name: &'w str,
    /// The mode, sizes and flags for a bind: those of the request, or defaults if it has none.
    pub register: &'w NmreqRegister,
    /// The memory that `nr_mem_id` names or that the program provides (option EXTMEM), if any.
    pub memory: Option<&'w Arc<NetmapMemory>>,
}

impl AdapterRequest<'_> {
    pub(crate) fn key(&self, name: &str) -> PortKey {
        (self.opener.netns, name.to_owned())
    }
}
