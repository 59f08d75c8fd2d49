//! REGISTER: binds an open file to rings of a port.

use rustix::io::Errno;
use slipring_abi::{NR_ACCEPT_VNET_HDR, NmreqRegister};

use crate::adapter::{Dir, Shape};
use crate::binding::Binding;
use crate::domain::lock;
use crate::open::{Netmap, Open};
use crate::request::Request;

impl Netmap {
    pub(super) fn register(&self, open: &Open, request: &mut Request) -> Result<(), Errno> {
        let _one_at_a_time = lock(&open.binding);
        if open.bound.get().is_some() {
            return Err(Errno::BUSY);
        }
        let wish: NmreqRegister = request.read()?;
        let port = self.find_with(open, request, &wish)?;
        if port.vnet_header() > 0 && wish.nr_flags & NR_ACCEPT_VNET_HDR == 0 {
            return Err(Errno::IO);
        }
        if port.memory().map_len() > request.map_limit {
            return Err(Errno::NOMEM);
        }
        request.options.all_used()?;
        let binding = Binding::new(port, &wish, &open.waker)?;
        let answer = answer(&wish, &binding);
        request.reply(&answer);
        // The lock is held and it was empty: nobody else can have set it.
        let _ = open.bound.set(binding);
        Ok(())
    }
}

fn answer(wish: &NmreqRegister, binding: &Binding) -> NmreqRegister {
    let (port, memory) = (&binding.port, binding.port.memory());
    let shape: Shape = port.shape();
    let [nr_tx_rings, nr_rx_rings] = shape.rings;
    let [nr_tx_slots, nr_rx_slots] = shape.slots;
    let [nr_host_tx_rings, nr_host_rx_rings] = Dir::BOTH.map(|dir| shape.shown_host_rings(dir));
    NmreqRegister {
        nr_offset: binding.offset(),
        nr_memsize: memory.map_len(),
        nr_tx_slots,
        nr_rx_slots,
        nr_tx_rings,
        nr_rx_rings,
        nr_host_tx_rings,
        nr_host_rx_rings,
        nr_mem_id: memory.id(),
        nr_extra_bufs: binding.take_extra(wish.nr_extra_bufs),
        ..*wish
    }
}
