//! Finds packets whose route leads to the kernel: packets for this machine, and packets whose route
//! the tables cannot represent. On interfaces with a program, the program does this.

use slipring_fib::{ForwardingTables, Target, TargetAction, TargetIndex, VrfIndex};
use slipring_wire::assigned::EtherType;

use crate::subinterface::tags;

/// Whether the route of the packet in a frame leads to the kernel.
pub(super) fn is_of_kernel(tables: &ForwardingTables, vrf: VrfIndex, frame: &[u8]) -> bool {
    let Some(target) = target_of(tables, vrf, frame) else { return false };
    let target = tables.targets.get(usize::from(target.0));
    // A target index beyond the table also leads to the kernel.
    target.is_none_or(|target: &Target| target.action == TargetAction::Kernel)
}

/// Returns the target of the packet's destination; `None` if the frame has no complete IP address,
/// or if there is no such VRF.
fn target_of(tables: &ForwardingTables, vrf: VrfIndex, frame: &[u8]) -> Option<TargetIndex> {
    const V4_DESTINATION: usize = 16;
    const V6_DESTINATION: usize = 24;
    let tables = tables.vrfs.get(usize::from(vrf.0))?;
    let (_, header_len) = tags::parse(frame)?;
    let ethertype = frame[..header_len].last_chunk().map(|bytes| u16::from_be_bytes(*bytes))?;
    let packet = frame.get(header_len..)?;
    let mut target = [TargetIndex::NO_ROUTE];
    match EtherType(ethertype) {
        EtherType::IPV4 => {
            let destination = packet.get(V4_DESTINATION..)?.first_chunk()?;
            tables.v4.lookup(&[u32::from_be_bytes(*destination)], &mut target);
        }
        EtherType::IPV6 => {
            let destination = packet.get(V6_DESTINATION..)?.first_chunk()?;
            tables.v6.lookup(&[u128::from_be_bytes(*destination)], &mut target);
        }
        _ => return None,
    }
    Some(target[0])
}
