//! BPF programs between an interface and the host's stack. They detach the host from the interface,
//! or redirect the host's frames.
//!
//! ```text
//!   received   wire --> XDP --> packet sockets --> tcx ingress --> host stack
//!                        |            |            detach() drops the frame here
//!                    xdp: port    packet: port
//!
//!   sent       host stack --> tcx egress --> device queue --> wire
//!                             detach() drops      ^
//!                             the frame here      '-- frames of xdp: and packet: ports
//! ```
//!
//! Ports receive before the point at which [`detach`] drops received frames, and send after the
//! point at which it drops sent frames. Frames of `packet:` ports without
//! [`crate::OpenOptions::qdisc_bypass`] do come to that point, but have [`TO_WIRE_MARK`], so they
//! are not dropped. So a port keeps receiving and sending, while the host neither receives from the
//! interface nor sends on it.
//!
//! [`redirect`] attaches two other tcx programs. One redirects the frames that the host sends on an
//! interface to another interface, such as one end of a veth pair. The other redirects the frames
//! that arrive on that other interface to the host, as if the first interface had received them.
//!
//! BPF links keep all programs attached. The kernel detaches a program when the descriptor of its
//! link is closed, and so also when this process is killed. The programs that drop frames are
//! attached after all tcx programs that the interface already has, and run after them. So an
//! earlier tcx program that consumes frames still gets them.

use std::io;
use std::os::fd::BorrowedFd;

use slipring_bpf::insn::{
    AccessWidth, BpfHelper, BpfInsn, BpfReg, JumpIf, call, exit, load, mov_imm, store_imm,
};
use slipring_bpf::{
    Assembler, BpfAttachType, BpfCode, BpfLink, BpfLinkFlags, BpfProgram, BpfProgramFlags,
    BpfProgramKind,
};

use super::{refused, sys};
use crate::error::OpenCause;

/// `skb->mark` of a frame for the host. A detached interface lets frames with this mark through to
/// the host, and clears the mark.
pub const TO_HOST_MARK: u32 = u32::from_le_bytes(*b"slip");
/// `skb->mark` of a frame that a socket sends through the stack. A detached interface lets frames
/// with this mark out, and clears the mark.
pub const TO_WIRE_MARK: u32 = u32::from_le_bytes(*b"ring");

/// Offset of `mark` in `struct __sk_buff`.
const SKB_MARK: i16 = 8;
const TCX_NEXT: i32 = -1;
const TCX_DROP: i32 = 2;
const F_INGRESS: i32 = 1;

/// Builds a tcx program that drops every frame whose mark is not `mark`.
fn drop_unmarked(mark: u32) -> BpfCode {
    let mut program = Assembler::new();
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R1, SKB_MARK))
        .jump_if32(BpfReg::R2, JumpIf::Eq, mark as i32, "marked")
        .put_all([mov_imm(BpfReg::R0, TCX_DROP), exit()])
        .label("marked")
        .put_all([store_imm_mark(0), mov_imm(BpfReg::R0, TCX_NEXT), exit()]);
    assembled(&program)
}

fn assembled(program: &Assembler) -> BpfCode {
    program.assemble().expect("each label of these programs is defined once, close by")
}

const fn store_imm_mark(mark: u32) -> BpfInsn {
    store_imm(AccessWidth::Word, BpfReg::R1, SKB_MARK, mark as i32)
}

/// Builds a tcx program that makes every frame leave through the interface `ifindex`.
fn redirect_out(ifindex: u32) -> BpfCode {
    let mut program = Assembler::new();
    program
        .put_all([mov_imm(BpfReg::R1, ifindex as i32), mov_imm(BpfReg::R2, 0)])
        .put_all([call(BpfHelper::Redirect), exit()]);
    assembled(&program)
}

/// Builds a tcx program that makes every frame arrive on `ifindex`. The frames get the mark with
/// which a detached interface lets them through to the host.
fn redirect_in(ifindex: u32) -> BpfCode {
    let mut program = Assembler::new();
    program
        .put(store_imm_mark(TO_HOST_MARK))
        .put_all([mov_imm(BpfReg::R1, ifindex as i32), mov_imm(BpfReg::R2, F_INGRESS)])
        .put_all([call(BpfHelper::Redirect), exit()]);
    assembled(&program)
}

fn attach(
    name: &str,
    code: &BpfCode,
    ifindex: u32,
    at: BpfAttachType,
    order: BpfLinkFlags,
) -> Result<BpfLink, OpenCause> {
    let insns = code.bind(|_| None).expect("these programs use no maps");
    let program =
        BpfProgram::load(BpfProgramKind::Classifier, name, &insns, BpfProgramFlags::default())?;
    program.attach(ifindex, at, order).map_err(|source| match source.raw_os_error() {
        // A kernel without tcx (before Linux 6.6) does not know the attach type.
        Some(libc::EINVAL) => OpenCause::Unsupported {
            what: "taking an interface from the host".into(),
            needs: "tcx, Linux 6.6",
        },
        _ => refused("attach a BPF program", source),
    })
}

/// Allows a socket that sends through the stack to use a detached interface.
///
/// # Errors
/// The kernel's error, usually because the process has neither CAP_NET_RAW nor CAP_NET_ADMIN.
pub fn mark_for_wire(socket: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_mark(socket, TO_WIRE_MARK)
}

/// An interface that is detached from the host until this is dropped.
#[derive(Debug)]
pub struct HostDetached {
    _links: [BpfLink; 2],
}

/// Detaches the host from an interface. Frames marked [`TO_HOST_MARK`] still reach the host, frames
/// marked [`TO_WIRE_MARK`] still leave.
///
/// # Errors
/// [`OpenCause::Privilege`] if a capability is missing, [`OpenCause::Unsupported`] without bpf(2)
/// or tcx (before Linux 6.6), [`OpenCause::System`] for other errors.
pub fn detach(ifindex: u32) -> Result<HostDetached, OpenCause> {
    // Attached after the programs that are there already, so that a program that redirects frames
    // to a host ring gets its frames first.
    let order = BpfLinkFlags::Last;
    let (ingress, egress) = (drop_unmarked(TO_HOST_MARK), drop_unmarked(TO_WIRE_MARK));
    let ingress = attach("slipring_drop_i", &ingress, ifindex, BpfAttachType::TcxIngress, order)?;
    let egress = attach("slipring_drop_o", &egress, ifindex, BpfAttachType::TcxEgress, order)?;
    Ok(HostDetached { _links: [ingress, egress] })
}

/// The host's side of an interface, redirected to another interface until this is dropped.
#[derive(Debug)]
pub struct HostRedirected {
    _links: [BpfLink; 2],
}

/// Redirects the host's side of `ifindex` to `to`. Frames that the host sends on `ifindex` leave
/// through `to` instead. Frames that arrive on `to` reach the host as if they had arrived on
/// `ifindex`.
///
/// If `to` is one end of a veth pair, the other end then acts as the host's side of `ifindex`.
///
/// # Errors
/// Same as [`detach`].
pub fn redirect(ifindex: u32, to: u32) -> Result<HostRedirected, OpenCause> {
    let order = BpfLinkFlags::First;
    let (out, back) = (redirect_out(to), redirect_in(ifindex));
    let egress = attach("slipring_redir_o", &out, ifindex, BpfAttachType::TcxEgress, order)?;
    let ingress = attach("slipring_redir_i", &back, to, BpfAttachType::TcxIngress, order)?;
    Ok(HostRedirected { _links: [egress, ingress] })
}

#[cfg(test)]
mod tests {
    use slipring_bpf::{BpfRedirect, Interpreter};

    use super::*;

    /// Runs a program on a socket buffer with this mark. Returns the program's result, its redirect
    /// and the final mark.
    fn run(code: &BpfCode, mark: u32) -> (i32, Option<BpfRedirect>, u32) {
        let mut skb = vec![0; 32];
        skb[8..12].copy_from_slice(&mark.to_ne_bytes());
        let (result, redirect) = Interpreter::new().run_on_context(code, &mut skb).unwrap();
        (result as i32, redirect, u32::from_ne_bytes(skb[8..12].try_into().unwrap()))
    }

    #[test]
    fn only_marked_frames_go_on_and_lose_their_mark() {
        let code = drop_unmarked(TO_HOST_MARK);
        assert_eq!(run(&code, 0), (TCX_DROP, None, 0));
        assert_eq!(run(&code, TO_WIRE_MARK), (TCX_DROP, None, TO_WIRE_MARK));
        assert_eq!(run(&code, TO_HOST_MARK), (TCX_NEXT, None, 0));
    }

    #[test]
    fn redirected_frames_carry_the_mark_only_towards_the_host() {
        const TC_ACT_REDIRECT: i32 = 7;
        let to = Some(BpfRedirect::Interface(9));
        assert_eq!(run(&redirect_out(9), 5), (TC_ACT_REDIRECT, to, 5));
        assert_eq!(run(&redirect_in(9), 5), (TC_ACT_REDIRECT, to, TO_HOST_MARK));
    }
}
