//! BPF programs at the tcx hooks of the router's interfaces, which tc does not list.

use std::io;

use rustix::io::Errno;
use slipring_bpf::{BpfAttachType, attached_programs};

use super::obstacle::{CheckedInterface, Obstacle, ObstacleKind};

/// Finds programs at ingress, without the router's own, and programs at egress.
///
/// # Errors
/// The kernel's error.
pub(super) fn find(interfaces: &[CheckedInterface]) -> io::Result<Vec<Obstacle>> {
    let mut found = Vec::new();
    for interface in interfaces {
        for (hook, side, own) in [
            (BpfAttachType::TcxIngress, "ingress", interface.own_programs),
            (BpfAttachType::TcxEgress, "egress", 0),
        ] {
            if count(interface.ifindex, hook)? > own {
                found.push(obstacle(&interface.name, side));
            }
        }
    }
    Ok(found)
}

/// Returns the number of programs at a hook; 0 if the kernel has no tcx, or the interface no longer
/// exists.
fn count(ifindex: u32, hook: BpfAttachType) -> io::Result<u32> {
    attached_programs(ifindex, hook).or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::NODEV) => Ok(0),
        _ => Err(error),
    })
}

fn obstacle(name: &str, side: &str) -> Obstacle {
    Obstacle {
        kind: ObstacleKind::Bypass,
        interface: Some(name.to_owned()),
        what: format!("{name} has BPF programs at tcx {side}"),
        show: format!("bpftool net show dev {name}"),
    }
}

/// A program that leaves packets to the next one (`TCX_NEXT`).
#[cfg(test)]
pub(crate) fn accept_all() -> slipring_bpf::BpfProgram {
    use slipring_bpf::insn::{BpfReg, exit, mov_imm};
    use slipring_bpf::{BpfProgram, BpfProgramFlags, BpfProgramKind};
    let insns = [mov_imm(BpfReg::R0, -1), exit()];
    let flags = BpfProgramFlags::default();
    BpfProgram::load(BpfProgramKind::Classifier, "test", &insns, flags).unwrap()
}
