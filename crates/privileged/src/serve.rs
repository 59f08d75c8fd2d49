//! The helper process.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use slipring_bpf::{BpfAttachType, BpfLinkFlags, BpfProgram};
use slipring_confine::{confine, effective};
use slipring_port::netlink::Netlink;
use slipring_port::packet::open_bound_socket;
use slipring_port::{iface, inherited};

use crate::message::{HelperRequest, MAX_REQUESTS, REQUEST_LEN};
use crate::policy::HelperPolicy;
use crate::run_files::{OpenRunFiles, RunFiles};
use crate::transfer::{receive, send};

/// `argv[0]` of the helper.
pub(crate) const ROLE: &str = "slipring-privileged";

/// The helper's name for `ps`, `top` and `pkill`, which show 15 bytes.
const COMM: &CStr = c"slipring-privil";

/// The files that list the tables of iptables-legacy and ip6tables-legacy in the helper's network
/// namespace.
const LEGACY_TABLES: &str = "/proc/thread-self/net/ip_tables_names";
const LEGACY_TABLES6: &str = "/proc/thread-self/net/ip6_tables_names";

/// Whether this executable's `main` calls [`serve_if_started_as_helper`].
static CAN_SERVE: AtomicBool = AtomicBool::new(false);

pub(crate) fn can_serve() -> bool {
    CAN_SERVE.load(Ordering::Relaxed)
}

/// Must be called first in `main`. If this process was started as a helper, serves requests, and
/// then returns the helper's exit code. Without this call, helpers cannot be started.
#[must_use]
pub fn serve_if_started_as_helper() -> Option<ExitCode> {
    CAN_SERVE.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os();
    if args.next()? != ROLE {
        return None;
    }
    let args: Vec<String> = args.filter_map(|arg| arg.into_string().ok()).collect();
    Some(match HelperPolicy::from_args(&args).map(|policy| run(&policy)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn run(policy: &HelperPolicy) -> io::Result<()> {
    // The program may have been started with open descriptors, which the helper has inherited.
    inherited::close_all()?;
    ignore_stop_signals()?;
    rustix::thread::set_name(COMM)?;
    // The directories are opened before this process gives up privileges, and before the program
    // becomes another user.
    let mut files = policy.run_files.as_ref().map(RunFiles::open).transpose()?;
    let needed = policy.capabilities();
    if !effective().contains(needed) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let not_dropped = confine(needed, &[&policy.forbidden_calls()]);
    if !not_dropped.is_empty() {
        return Err(io::Error::other(not_dropped.join("; ")));
    }
    let socket = io::stdin();
    answer(socket.as_fd(), 0, None)?;
    let served = serve(socket.as_fd(), policy, &mut files);
    // A program that was killed has not asked for the removal of its files.
    files.iter().for_each(|files| files.remove(policy.program));
    served
}

/// Makes the helper ignore the signals with which a service manager stops both processes. The
/// program still needs the helper to restore settings at its own end.
fn ignore_stop_signals() -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

/// Answers requests until the program ends or violates the protocol.
fn serve(
    socket: BorrowedFd<'_>,
    policy: &HelperPolicy,
    files: &mut Option<OpenRunFiles>,
) -> io::Result<()> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let mut counted = 0;
    while counted < MAX_REQUESTS {
        let mut bytes = [0; REQUEST_LEN];
        let got = receive(socket, &mut bytes)?;
        if got.len == 0 {
            return Ok(());
        }
        if got.truncated {
            return Err(broken());
        }
        let request = HelperRequest::parse(&bytes[..got.len]).map_err(|_| broken())?;
        counted += u32::from(!request.is_unlimited());
        let takes_descriptor = matches!(request, HelperRequest::AttachXdp { .. });
        if takes_descriptor != got.descriptor.is_some() {
            return Err(broken());
        }
        match policy.allows(&request) {
            true => match perform(request, got.descriptor, policy.program, files) {
                Ok(made) => answer(socket, 0, made.as_ref().map(AsFd::as_fd))?,
                Err(error) => answer(socket, errno_of(&error), None)?,
            },
            false => answer(socket, Errno::PERM.raw_os_error(), None)?,
        }
    }
    Err(broken())
}

fn answer(
    socket: BorrowedFd<'_>,
    errno: i32,
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    send(socket, &errno.to_ne_bytes(), descriptor)
}

fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
}

/// Performs a request; returns the descriptor that the request created, if any.
fn perform(
    request: HelperRequest,
    descriptor: Option<OwnedFd>,
    program: u32,
    files: &mut Option<OpenRunFiles>,
) -> io::Result<Option<OwnedFd>> {
    let netlink = Netlink::open()?;
    match request {
        HelperRequest::SetFeature { ifindex, feature, on } => {
            iface::set_feature_by_index(ifindex, feature, on)?;
        }
        HelperRequest::RemoveHiddenLink { ifindex } => {
            slipring_port::host::remove_of(program, ifindex)?;
        }
        HelperRequest::SetUp { ifindex } => netlink.set_up(ifindex)?,
        HelperRequest::AddAddress { ifindex, address, prefix_len } => {
            netlink.add_address(ifindex, address, prefix_len)?;
        }
        HelperRequest::RemoveAddress { ifindex, address, prefix_len } => {
            netlink.remove_address(ifindex, address, prefix_len)?;
        }
        HelperRequest::UseNeighbour { ifindex, address } => {
            netlink.use_neighbour(ifindex, address)?;
        }
        HelperRequest::AddRoute { ifindex, destination, prefix_len, gateway } => {
            netlink.add_route(ifindex, (destination, prefix_len), specified(gateway))?;
        }
        HelperRequest::RemoveRoute { ifindex, destination, prefix_len, gateway } => {
            netlink.remove_route(ifindex, (destination, prefix_len), specified(gateway))?;
        }
        HelperRequest::RemoveNeighbour { ifindex, address } => {
            netlink.remove_neighbour(ifindex, address)?;
        }
        HelperRequest::TakeName => {
            // After its files were removed, a run can no longer get a name.
            files.as_ref().ok_or(Errno::PERM)?.take_name(program)?;
        }
        HelperRequest::RemoveRunFiles => {
            files.take().iter().for_each(|files| files.remove(program));
        }
        HelperRequest::OpenLegacyTables => return Ok(Some(File::open(LEGACY_TABLES)?.into())),
        HelperRequest::OpenLegacyTables6 => return Ok(Some(File::open(LEGACY_TABLES6)?.into())),
        HelperRequest::OpenPacketSocket { ifindex } => {
            return Ok(Some(open_bound_socket(ifindex)?));
        }
        HelperRequest::AttachXdp { ifindex, native } => {
            let program = BpfProgram::from(descriptor.ok_or(io::ErrorKind::InvalidInput)?);
            let mode = if native { BpfLinkFlags::XdpNative } else { BpfLinkFlags::XdpGeneric };
            return Ok(Some(program.attach(ifindex, BpfAttachType::Xdp, mode)?.into()));
        }
    }
    Ok(None)
}

fn specified(gateway: Ipv4Addr) -> Option<Ipv4Addr> {
    (!gateway.is_unspecified()).then_some(gateway)
}
