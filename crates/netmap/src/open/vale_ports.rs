//! Creates the switch ports that a request names.

use std::sync::Arc;

use rustix::io::Errno;

use crate::memory::netmap_memory::{MemoryNeeds, NetmapMemory};
use crate::open::domain::Domain;
use crate::open::names::AdapterNames;
use crate::open::provider::AdapterRequest;
use crate::port::adapter::Adapter;
use crate::port::vale::bridge::Bridge;
use crate::port::vale::port::ValePort;
use crate::types::port_name::split;
use crate::types::shape::AdapterShape;

/// The maximum number of rings per direction of a port.
const MAX_RINGS: u16 = 16;
/// The minimum number of spare buffers in a port's memory. Pipes and monitors with `NR_ZCOPY_MON`
/// that come later use them.
const SPARE_BUFS: u32 = 2048;
/// The maximum number of extra buffers by which a new memory is enlarged; a request may be granted
/// fewer than it asks for.
const MAX_EXTRA_BUFS: u32 = 500_000;
/// Bytes of a port's memory that are reserved for interface records and for the rings of later
/// pipes and monitors with `NR_ZCOPY_MON`.
const SPARE_RING_BYTES: u64 = 256 << 10;
/// Bytes of ring memory that are reserved for each spare buffer: a pipe has, at either end, a slot
/// for the buffer.
const RING_BYTES_PER_BUF: u64 = 40;
impl AdapterRequest<'_> {
    /// Creates a switch port, and its switch if that does not exist. The port is attached to the
    /// switch at its first bind.
    pub(crate) fn vale(&self, names: &mut AdapterNames) -> Result<Arc<dyn Adapter>, Errno> {
        let (switch, _) = split(self.name)?;
        let hub = names.switches.get_or_create(self.opener.netns, switch);
        Ok(self.vale_port(self.name, Some(hub))?)
    }

    /// Creates an unused port with the sizes that the request asks for, within limits.
    pub(crate) fn vale_port(
        &self,
        name: &str,
        home: Option<Arc<Bridge>>,
    ) -> Result<Arc<ValePort>, Errno> {
        let (wish, params) = (self.register, self.domain.params());
        let rings = |count: u16| count.clamp(1, MAX_RINGS);
        let shape = AdapterShape {
            rings: [rings(wish.nr_tx_rings), rings(wish.nr_rx_rings)],
            host_rings: [0; 2],
            slots: [params.slots(wish.nr_tx_slots), params.slots(wish.nr_rx_slots)],
        };
        let memory = match self.memory {
            Some(memory) => memory.clone(),
            None => {
                self.domain.private_memory(memory_needs(&shape, self.domain, wish.nr_extra_bufs))?
            }
        };
        let cells = self.domain.ledger.words_region().clone();
        Ok(ValePort::new(name.to_owned(), shape, memory, cells, home))
    }
}

/// Computes the memory that one port needs.
fn memory_needs(shape: &AdapterShape, domain: &Domain, extra: u32) -> MemoryNeeds {
    let spare = domain.spare_bufs(RING_BYTES_PER_BUF).max(SPARE_BUFS);
    let ring_bytes = SPARE_RING_BYTES + u64::from(spare) * RING_BYTES_PER_BUF;
    let spare = MemoryNeeds { ring_bytes, bufs: spare + extra.min(MAX_EXTRA_BUFS) };
    (0..2).fold(spare, |room, dir| {
        room + MemoryNeeds::rings(shape.rings[dir].into(), shape.slots[dir], true)
    })
}

/// Finds the memory that a request names by number. Number 0 names none: the result is `None`.
pub(crate) fn memory_of(domain: &Arc<Domain>, id: u16) -> Result<Option<Arc<NetmapMemory>>, Errno> {
    if id == 0 { Ok(None) } else { domain.memory(id).map(Some) }
}
