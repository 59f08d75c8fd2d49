//! Queries: information about a port or a memory.

use rustix::io::Errno;
use slipring_abi::*;

use crate::memory::netmap_memory::GLOBAL_MEM_ID;
use crate::open::handle::{Netmap, OpenHandle};
use crate::request::message::NetmapRequest;
use crate::types::lock::lock;
use crate::types::shape::TxRx;

impl Netmap {
    /// Handles `PORT_INFO_GET`: information about a port, or, without a name, about a memory.
    pub(super) fn port_info(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqPortInfoGet = request.read()?;
        if request.name.is_empty() {
            let memory = open.domain.memory(or_global(wish.nr_mem_id))?;
            let nr_memsize = memory.map_len();
            request.reply(&NmreqPortInfoGet { nr_memsize, nr_mem_id: memory.id(), ..wish });
            return Ok(());
        }
        let register = NmreqRegister {
            nr_mode: NR_REG_ALL_NIC,
            nr_tx_slots: wish.nr_tx_slots,
            nr_rx_slots: wish.nr_rx_slots,
            nr_tx_rings: wish.nr_tx_rings,
            nr_rx_rings: wish.nr_rx_rings,
            nr_host_tx_rings: wish.nr_host_tx_rings,
            nr_host_rx_rings: wish.nr_host_rx_rings,
            nr_mem_id: wish.nr_mem_id,
            ..NmreqRegister::default()
        };
        let port = self.find_with(open, request, &register)?;
        let shape = port.shape();
        request.reply(&NmreqPortInfoGet {
            nr_memsize: port.memory().map_len(),
            nr_tx_slots: shape.slots[0],
            nr_rx_slots: shape.slots[1],
            nr_tx_rings: shape.rings[0],
            nr_rx_rings: shape.rings[1],
            nr_host_tx_rings: shape.shown_host_rings(TxRx::Tx),
            nr_host_rx_rings: shape.shown_host_rings(TxRx::Rx),
            nr_mem_id: port.memory().id(),
            ..wish
        });
        Ok(())
    }

    /// Handles `POOLS_INFO_GET`: the numbers and sizes of the interface records, rings and buffers
    /// in a memory.
    pub(super) fn pools_info(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqPoolsInfo = request.read()?;
        let register = NmreqRegister {
            nr_mode: NR_REG_ALL_NIC,
            nr_mem_id: wish.nr_mem_id,
            ..NmreqRegister::default()
        };
        let port = self.find_with(open, request, &register)?;
        request.reply(&port.memory().pools());
        Ok(())
    }

    /// Handles `PORT_HDR_GET`: the length of a port's virtio-net header.
    pub(super) fn port_header(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let port = self.find_existing(open, request)?;
        let wish: NmreqPortHdr = request.read()?;
        request.reply(&NmreqPortHdr { nr_hdr_len: port.vnet_header(), ..wish });
        Ok(())
    }

    /// Handles `PORT_HDR_SET`: sets the length of a switch port's virtio-net header.
    pub(super) fn set_port_header(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
    ) -> Result<(), Errno> {
        let wish: NmreqPortHdr = request.read()?;
        let port = self.find_existing(open, request)?;
        let names = lock(&open.domain.names);
        // In a port that connects two switches, frames must have no virtio-net header.
        if names.switches.patched_bridge(&*port).is_some() {
            return Err(Errno::BUSY);
        }
        port.set_vnet_header(wish.nr_hdr_len)
    }
}

fn or_global(id: u16) -> u16 {
    if id == 0 { GLOBAL_MEM_ID } else { id }
}
