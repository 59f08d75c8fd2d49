//! All rows, in the order of the table.

use slipring_port::WaitStrategy;

use super::pipe::{self, PipeLayout};
use super::pipe_ends::ReadMode;
use super::row::BenchRow;
use super::veth::{self, InterfacePath, VethJob};
use super::xsk::XskBaseline;
use super::{
    child, emulate, firewall, footprint, latency, memory, native, netmap, nic, null, raw, route,
    vale,
};

/// Returns all rows. If `full` is true, includes rows that only repeat other rows with another
/// size, and rows with full routing tables in the kernel.
pub(crate) fn all(full: bool) -> Vec<BenchRow> {
    let mut rows = vec![memory::row::<64>(), memory::row::<1500>()];
    for parties in [PipeLayout::OneThread, PipeLayout::TwoThreads, PipeLayout::TwoProcesses] {
        for mode in [ReadMode::Swap, ReadMode::Copy] {
            rows.push(pipe::row::<64>(parties, mode, 32));
            if full || mode == ReadMode::Swap {
                rows.push(pipe::row::<64>(parties, mode, 256));
            }
            rows.push(pipe::row::<1500>(parties, mode, 32));
            if full {
                rows.push(pipe::row::<1500>(parties, mode, 256));
            }
        }
    }
    rows.extend([32, 256].map(raw::row));
    rows.push(null::row(256));
    let yardstick = XskBaseline::default();
    let lens: &[usize] = if full { &[64, 1500] } else { &[64] };
    for path in
        [InterfacePath::Native, InterfacePath::Generic, InterfacePath::Packet, InterfacePath::Tap]
    {
        for job in [VethJob::Tx, VethJob::Rx, VethJob::Forward] {
            rows.extend(lens.iter().map(|&len| veth::row(path, job, len, &yardstick)));
        }
    }
    rows.extend([latency::row(WaitStrategy::Spin), latency::row(WaitStrategy::Sleep)]);
    rows.push(child::idle_bridge());
    rows.extend([10_000, 1_000_000].map(child::pacing));
    rows.extend([InterfacePath::Native, InterfacePath::Packet].map(veth::generator_row));
    rows.push(footprint::row(InterfacePath::Native, "xdp"));
    rows.push(footprint::row(InterfacePath::Packet, "packet"));
    rows.extend(netmap::rows());
    rows.push(native::row());
    rows.extend(nic::rows(full));
    rows.extend(vale::rows());
    rows.extend(emulate::rows());
    rows.extend(firewall::rows());
    rows.extend(route::rows(full));
    rows
}
