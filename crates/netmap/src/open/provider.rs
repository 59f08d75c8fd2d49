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

/// Ports of kinds that this crate does not know: NICs, switches.
pub trait Provider: Send + Sync + Debug {
    /// Finds or makes the port of this name. It need not take anything before
    /// [`Adapter::activate`].
    ///
    /// # Errors
    /// [`Errno::NXIO`]: there is none of this name.
    fn find(&self, wanted: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno>;

    /// Whether the opener may bind, or make, what it names, which is of this kind.
    ///
    /// # Errors
    /// Why not.
    fn admit(&self, _wanted: &AdapterRequest<'_>, _kind: PortKind) -> Result<(), Errno> {
        Ok(())
    }

    /// Makes a port again that a process which is no more had from its provider; `None` if that
    /// cannot be. Whoever has it bound may go on with it, whatever rules there are by now.
    fn resume(&self, _left: &RecoveredPort<'_>) -> Option<Arc<dyn Adapter>> {
        None
    }

    /// Hears of what happened without anybody having asked for it.
    fn notify(&self, _news: &AdapterEvent) {}
}

/// What a process that is no more left of a port.
#[derive(Debug)]
pub struct RecoveredPort<'l> {
    /// The name that requests had for it.
    pub name: &'l str,
    /// The network namespace that it was found in, if that is known still.
    pub netns: Option<Arc<OwnedFd>>,
    /// Where its rings lie.
    pub memory: &'l Arc<NetmapMemory>,
    /// All its rings.
    pub shape: AdapterShape,
    /// Those that there were, as they stand, by [`crate::Dir`]; the slots that are not the
    /// program's name a buffer each. They last as long as one of these does.
    pub rings: [Vec<Option<RingView>>; 2],
}

/// What happened by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdapterEvent {
    /// An interface in a switch is no more, and so has left the switch.
    InterfaceGone {
        /// Whose switch.
        uid: u32,
        /// The name that the interface had there: `vale0:eth1`.
        port: String,
    },
}

/// What a request says of the port that it wants.
#[derive(Debug, Clone, Copy)]
pub struct AdapterRequest<'w> {
    /// Whose memory and names.
    pub domain: &'w Arc<Domain>,
    /// Who asks.
    pub opener: &'w Opener,
    /// The name, as `nr_name` has it.
    pub name: &'w str,
    /// Wishes.
    pub register: &'w NmreqRegister,
    /// The memory that `nr_mem_id` names, if it names one.
    pub memory: Option<&'w Arc<NetmapMemory>>,
}

impl AdapterRequest<'_> {
    pub(crate) fn key(&self, name: &str) -> PortKey {
        (self.opener.netns, name.to_owned())
    }
}
