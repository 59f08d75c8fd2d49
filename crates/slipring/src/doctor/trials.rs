//! Facts that only a trial can show: unbound sockets, programs that are not attached, links in a
//! namespace that no other process sees.

use std::fs::OpenOptions;
use std::io;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use slipring_bpf::insn::{BpfInsn, BpfReg, exit, mov_imm};
use slipring_bpf::{BpfAttachType, BpfLinkFlags, BpfProgram, BpfProgramFlags, BpfProgramKind};
use slipring_core::netns::Netns;
use slipring_port::bpf::host;
use slipring_port::iface::Iface;
use slipring_port::netlink::Netlink;
use slipring_port::{OpenCause, OpenError};

use slipring_core::kinds::Finding;

/// An XDP program that lets every frame pass (`XDP_PASS`).
const XDP_PASS_ALL: [BpfInsn; 2] = [mov_imm(BpfReg::R0, 2), exit()];

pub(super) fn examine() -> Vec<Finding> {
    let mut findings = vec![xdp_socket(), program(), tun()];
    findings.extend(on_a_throwaway_link());
    findings
}

fn xdp_socket() -> Finding {
    let check = "af_xdp";
    match socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None) {
        Ok(_) => Finding::ok(check, "sockets can be made"),
        Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {
            Finding::ok(check, "in the kernel; sockets need cap_net_raw")
        }
        Err(error) => Finding::warn(
            check,
            format!("not in this kernel ({error}): netmap: falls back to packet:"),
        )
        .with_fix("use a kernel with CONFIG_XDP_SOCKETS"),
    }
}

fn load() -> Result<BpfProgram, OpenCause> {
    let flags = BpfProgramFlags::default();
    Ok(BpfProgram::load(BpfProgramKind::Xdp, "slipring_doctor", &XDP_PASS_ALL, flags)?)
}

fn program() -> Finding {
    let check = "bpf";
    match load() {
        Ok(_) => Finding::ok(check, "an XDP program was loaded"),
        Err(OpenCause::Privilege { .. }) => {
            Finding::ok(check, "in the kernel; programs need cap_bpf and cap_net_admin")
        }
        Err(error) => Finding::warn(check, format!("no XDP program can be loaded: {error}"))
            .with_fix("use a kernel with CONFIG_BPF_SYSCALL, or packet: ports with --shared"),
    }
}

fn tun() -> Finding {
    let check = "tap";
    match OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Finding::ok(check, "/dev/net/tun can be opened"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Finding::warn(check, "/dev/net/tun is missing: no tap: ports").with_fix("modprobe tun")
        }
        Err(source) => {
            let cause = OpenCause::ClosedNode { path: "/dev/net/tun", source };
            let error = OpenError::new("tap:", cause);
            let finding = Finding::warn(check, format!("{error}: no tap: ports"));
            finding.with_fix(error.help().unwrap_or_default())
        }
    }
}

/// The results of attaching programs to a temporary pair of links.
struct AttachTrial {
    native: Result<(), String>,
    tcx: Result<(), String>,
}

/// Tries to attach programs to a temporary pair of links. Returns no finding if this process lacks
/// the privileges for the trial itself.
fn on_a_throwaway_link() -> Vec<Finding> {
    // The check `program` has already reported why programs cannot be loaded.
    if load().is_err() {
        return Vec::new();
    }
    let Ok(netns) = Netns::new() else {
        return Vec::new();
    };
    let attached = match netns.run(attach) {
        Ok(attached) => attached,
        Err(error) => {
            return vec![
                Finding::warn("xdp", format!("no veth pair to try it on: {error}"))
                    .with_fix("modprobe veth"),
            ];
        }
    };
    let native = match attached.native {
        Ok(()) => Finding::ok("xdp", "attaches natively, tried on a veth pair"),
        Err(why) => Finding::warn("xdp", format!("does not attach to a veth pair: {why}"))
            .with_fix("use a newer kernel; netmap: falls back to packet:"),
    };
    let tcx = match attached.tcx {
        Ok(()) => Finding::ok("tcx", "attaches, tried on a veth pair"),
        Err(why) => Finding::warn("tcx", format!("cannot hold frames back from the host: {why}"))
            .with_fix("use Linux 6.6 or newer, or open packet: ports with --shared"),
    };
    vec![native, tcx]
}

fn attach() -> io::Result<AttachTrial> {
    let netlink = Netlink::open()?;
    netlink.add_veth("doctor0", "doctor1", None)?;
    let index = Iface::find("doctor0").map_err(io::Error::other)?.index;
    netlink.set_up(index)?;
    let program = load().map_err(io::Error::other)?;
    let native = program.attach(index, BpfAttachType::Xdp, BpfLinkFlags::XdpNative);
    Ok(AttachTrial {
        native: native.map(drop).map_err(|error| error.to_string()),
        tcx: host::detach(index).map(drop).map_err(|error| error.to_string()),
    })
}
