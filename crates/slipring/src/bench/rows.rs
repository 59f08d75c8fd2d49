//! All rows, in the order of the table.

use slipring_port::Patience;

use super::pipe::{self, Parties, Way};
use super::row::Row;
use super::veth::{self, Job, Path};
use super::xsk::Yardstick;
use super::{
    child, emulate, firewall, footprint, latency, memory, native, netmap, null, raw, vale,
};

/// Every row; with `full` those that repeat others at another size, too.
pub(crate) fn all(full: bool) -> Vec<Row> {
    let mut rows = vec![memory::row::<64>(), memory::row::<1500>()];
    for parties in [Parties::OneThread, Parties::TwoThreads, Parties::TwoProcesses] {
        for way in [Way::Swap, Way::Copy] {
            rows.push(pipe::row::<64>(parties, way, 32));
            if full || way == Way::Swap {
                rows.push(pipe::row::<64>(parties, way, 256));
            }
            rows.push(pipe::row::<1500>(parties, way, 32));
            if full {
                rows.push(pipe::row::<1500>(parties, way, 256));
            }
        }
    }
    rows.extend([32, 256].map(raw::row));
    rows.push(null::row(256));
    let yardstick = Yardstick::default();
    let lens: &[usize] = if full { &[64, 1500] } else { &[64] };
    for path in [Path::Native, Path::Generic, Path::Packet, Path::Tap] {
        for job in [Job::Tx, Job::Rx, Job::Forward] {
            rows.extend(lens.iter().map(|&len| veth::row(path, job, len, &yardstick)));
        }
    }
    rows.extend([latency::row(Patience::Spin), latency::row(Patience::Sleep)]);
    rows.push(child::idle_bridge());
    rows.extend([10_000, 1_000_000].map(child::pacing));
    rows.extend([Path::Native, Path::Packet].map(veth::generator_row));
    rows.push(footprint::row(Path::Native, "xdp"));
    rows.push(footprint::row(Path::Packet, "packet"));
    rows.extend(netmap::rows());
    rows.push(native::row());
    rows.extend(vale::rows());
    rows.extend(emulate::rows());
    rows.extend(firewall::rows());
    rows
}
