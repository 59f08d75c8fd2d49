//! REGISTER: binds an open file to rings of a port.

use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::{
    NETMAP_REQ_OPT_CSB, NETMAP_REQ_OPT_EXTMEM, NETMAP_REQ_OPT_OFFSETS, NR_ACCEPT_VNET_HDR,
    NmreqOptCsb, NmreqOptExtmem, NmreqOptOffsets, NmreqRegister,
};

use crate::memory::caller::CallerMemory;
use crate::memory::external::{ExtmemLayout, granted};
use crate::memory::netmap_memory::NetmapMemory;
use crate::open::csb::Csb;
use crate::open::handle::{Netmap, OpenHandle};
use crate::port::adapter::Adapter;
use crate::port::binding::Binding;
use crate::port::offsets::OffsetsRequest;
use crate::request::message::NetmapRequest;
use crate::types::lock::lock;
use crate::types::shape::{AdapterShape, TxRx};

impl Netmap {
    pub(super) fn register(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
        caller: &mut dyn CallerMemory,
    ) -> Result<(), Errno> {
        let _one_at_a_time = lock(&open.binding);
        if open.bound.get().is_some() {
            return Err(Errno::BUSY);
        }
        let wish: NmreqRegister = request.read()?;
        let brought = request.options.take::<NmreqOptExtmem>(NETMAP_REQ_OPT_EXTMEM);
        let port = match &brought {
            Some(option) => {
                let memory = external(open, option, caller);
                let memory = request.options.record_result(NETMAP_REQ_OPT_EXTMEM, memory)?;
                self.find_in(open, request, &wish, Some(&memory))?
            }
            None => self.find_with(open, request, &wish)?,
        };
        // A port in external memory can only be bound by a program that provides the memory or
        // names its number. No other program has mapped it.
        if port.memory().is_external() && brought.is_none() && wish.nr_mem_id == 0 {
            return Err(Errno::OPNOTSUPP);
        }
        if port.vnet_header() > 0 && wish.nr_flags & NR_ACCEPT_VNET_HDR == 0 {
            return Err(Errno::IO);
        }
        if port.memory().map_len() > request.map_limit {
            return Err(Errno::NOMEM);
        }
        let blocks = request.options.take::<NmreqOptCsb>(NETMAP_REQ_OPT_CSB);
        let mut binding = bind(request, port, &wish, open)?;
        binding.set_parameters(open.domain.parameters());
        let blocks = blocks.map(|option| Csb::new(&binding, &option, caller)).transpose();
        let blocks = request.options.record_result(NETMAP_REQ_OPT_CSB, blocks)?;
        if let Some(option) = brought {
            let option = granted(&option, binding.port.memory().pools());
            request.options.put(NETMAP_REQ_OPT_EXTMEM, &option);
        }
        let answer = answer(&wish, &binding);
        request.reply(&answer);
        // The bind's lock is held and the fields were empty, so no other thread can have set them.
        let _ = blocks.map(|blocks| open.csb.set(blocks));
        let _ = open.bound.set(binding);
        Ok(())
    }
}

/// Returns the memory in the pages that an option names.
fn external(
    open: &OpenHandle,
    option: &NmreqOptExtmem,
    caller: &mut dyn CallerMemory,
) -> Result<Arc<NetmapMemory>, Errno> {
    let split = ExtmemLayout::from_option(option, open.domain.parameters())?;
    let pages = caller.shared(option.nro_usrptr, split.len)?;
    open.domain.external_memory(&pages, &split)
}

/// Binds with the options of the request.
fn bind(
    request: &mut NetmapRequest,
    port: Arc<dyn Adapter>,
    wish: &NmreqRegister,
    open: &OpenHandle,
) -> Result<Binding, Errno> {
    let buf_size = port.memory().region().buf_size();
    let asked = request.options.take::<NmreqOptOffsets>(NETMAP_REQ_OPT_OFFSETS);
    request.options.all_used()?;
    let Some(asked) = asked else { return Binding::new(port, wish, None, &open.waker) };
    let can = if port.offset_limits().is_some() { Ok(()) } else { Err(Errno::OPNOTSUPP) };
    let offsets = can.and_then(|()| OffsetsRequest::from_option(&asked, buf_size));
    let mut offsets = request.options.record_result(NETMAP_REQ_OPT_OFFSETS, offsets)?;
    let binding = Binding::new(port, wish, Some(&mut offsets), &open.waker);
    // The bind may have failed for a reason that has nothing to do with offsets. The option does
    // not record such a reason.
    let granted = request.options.record_result(NETMAP_REQ_OPT_OFFSETS, offsets.granted(&asked))?;
    let binding = binding?;
    request.options.put(NETMAP_REQ_OPT_OFFSETS, &granted);
    Ok(binding)
}

fn answer(wish: &NmreqRegister, binding: &Binding) -> NmreqRegister {
    let (port, memory) = (&binding.port, binding.port.memory());
    let shape: AdapterShape = port.shape();
    let [nr_tx_rings, nr_rx_rings] = shape.rings;
    let [nr_tx_slots, nr_rx_slots] = shape.slots;
    let [nr_host_tx_rings, nr_host_rx_rings] = TxRx::BOTH.map(|dir| shape.shown_host_rings(dir));
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
        nr_extra_bufs: binding.alloc_extra(wish.nr_extra_bufs),
        ..*wish
    }
}
