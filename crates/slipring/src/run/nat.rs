//! User-mode NAT: an external program carries the command's traffic over ordinary sockets of the
//! outer namespace. The program needs no privilege in that namespace.
//!
//! ```text
//!   command's namespace                  a namespace between     outer namespace
//!   eth0 --[tap]--[emulator]--[packet]-- TAP of slirp4netns ==== its sockets == ...
//! ```
//! Two programs are supported, slirp4netns and pasta. Each terminates the command's TCP connections
//! in its own stack, so that stack is one end of the traffic on the link. slirp4netns slows down
//! after losses, as TCP does. pasta assumes a lossless wire: it sends all that the window allows,
//! and sends all of it again if a queue drops packets (measured: 1.1 million frames for 6 MB at 12
//! Mbit/s). So slirp4netns is used if it is installed; otherwise pasta (of passt), with a warning.
//! The program gets the namespace for its device as its stdin, because opening it by path would
//! require rights over this process.

use std::io::{self, Read};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, configure_capability_in_ambient_set};
use slipring_cli::codes::{SR0302, SR0403};
use slipring_cli::{Diagnostic, Failure};
use slipring_core::kill_with_parent;
use slipring_core::netns::Netns;
use slipring_port::iface::Iface;
use slipring_port::netlink::{LinkEvents, Netlink};
use slipring_port::tap;

use super::addresses::{LinkAddresses, LinkAddressesV6, LinkSubnet};
use super::sandbox::{MTU, set, setup_failure};

/// How long the program may take to create its device.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Path by which the program opens the namespace for its device: its own stdin.
const STDIN_PATH: &str = "/proc/self/fd/0";
/// Capabilities that the program needs in the namespaces that the run creates.
const NAT_CAPABILITIES: [CapabilitySet; 2] = [CapabilitySet::SYS_ADMIN, CapabilitySet::NET_ADMIN];

/// The supported programs, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NatProgramKind {
    Slirp4netns,
    Pasta,
}

/// A program that is installed.
#[derive(Debug)]
pub(super) struct NatProgram {
    kind: NatProgramKind,
    path: PathBuf,
}

/// A running NAT program. It ends when this value is dropped, or when this process ends.
#[derive(Debug)]
pub(super) struct UserNat {
    child: Child,
    /// The namespace that contains the program's TAP device.
    pub(super) between: Netns,
    pub(super) subnet: LinkSubnet,
    pub(super) addresses: LinkAddresses,
    /// The name server for the command.
    pub(super) resolver: IpAddr,
}

impl NatProgramKind {
    const ALL: [Self; 2] = [Self::Slirp4netns, Self::Pasta];

    fn name(self) -> &'static str {
        match self {
            Self::Pasta => "pasta",
            Self::Slirp4netns => "slirp4netns",
        }
    }

    fn addresses(self, subnet: LinkSubnet, v6: bool) -> LinkAddresses {
        match self {
            Self::Pasta => subnet.addresses(v6.then_some(true)),
            // slirp4netns fixes the host numbers and the IPv6 network.
            Self::Slirp4netns => {
                let host = |host| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host);
                let six =
                    LinkAddressesV6 { own: host(0x100), gateway: host(2), reaches_beyond: true };
                let (own, gateway) = (subnet.v4(100), subnet.v4(2));
                LinkAddresses { own, gateway, v6: v6.then_some(six) }
            }
        }
    }

    /// Returns the program's command line arguments.
    fn arguments(self, subnet: LinkSubnet, addresses: &LinkAddresses) -> Vec<String> {
        let (link, LinkAddresses { own, gateway, v6 }) = (subnet.link(), addresses);
        let words = match self {
            Self::Pasta => {
                let six = v6.map_or("--ipv4-only".to_owned(), |v6| {
                    format!("--address {} --gateway {}", v6.own, v6.gateway)
                });
                format!(
                    "--foreground --quiet --netns-only --netns {STDIN_PATH} --ns-ifname {link} \
                     --address {own} --netmask 24 --gateway {gateway} {six} --mtu {MTU} \
                     --dns-forward {} -t none -u none -T none -U none",
                    subnet.v4(3)
                )
            }
            Self::Slirp4netns => {
                let six = if v6.is_some() { "--enable-ipv6" } else { "" };
                let network = subnet.network();
                format!(
                    "--mtu={MTU} --cidr={network}/24 {six} --netns-type=path {STDIN_PATH} {link}"
                )
            }
        };
        words.split_ascii_whitespace().map(str::to_owned).collect()
    }
}

const PASTA_WARNING: &str = "pasta does not slow TCP down for losses and full queues, so downloads get \
    less than the link's rate; install slirp4netns, which does (apt-get install slirp4netns)";

impl NatProgram {
    /// Returns the best program that is installed; `None` if there is none.
    pub(super) fn find() -> Option<Self> {
        let path = std::env::var("PATH").unwrap_or_default();
        NatProgramKind::ALL.into_iter().find_map(|kind| {
            let mut dirs = path.split(':').filter(|dir| !dir.is_empty());
            let path = dirs.find_map(|dir| {
                let path = PathBuf::from(dir).join(kind.name());
                path.is_file().then_some(path)
            })?;
            Some(Self { kind, path })
        })
    }

    /// Returns a warning for the user, if the program has a known problem.
    pub(super) fn warning(&self) -> Option<String> {
        (self.kind == NatProgramKind::Pasta).then(|| PASTA_WARNING.to_owned())
    }

    /// Returns the program's name.
    pub(super) fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// Starts the program in the outer namespace. It creates its device in a new namespace; this
    /// call waits for the device.
    pub(super) fn start(&self, subnet: LinkSubnet, v6: bool) -> Result<UserNat, Failure> {
        let between =
            Netns::new().map_err(|error| setup_failure("make a network namespace", &error))?;
        let quiet = || {
            // If IPv6 were on in the new namespace, its stack would send messages from a host that
            // does not exist.
            set("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
            set("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
            LinkEvents::open()
        };
        let events = between.run(quiet)?;
        let addresses = self.kind.addresses(subnet, v6);
        let child = self.spawn(&between, subnet, &addresses);
        let child =
            child.map_err(|error| setup_failure(&format!("start {}", self.name()), &error))?;
        let resolver = IpAddr::V4(subnet.v4(3));
        let mut nat = UserNat { child, between, subnet, addresses, resolver };
        self.wait_for_device(&mut nat, &events)?;
        Ok(nat)
    }

    fn spawn(
        &self,
        between: &Netns,
        subnet: LinkSubnet,
        addresses: &LinkAddresses,
    ) -> io::Result<Child> {
        let mut command = Command::new(&self.path);
        command.args(self.kind.arguments(subnet, addresses));
        if self.kind == NatProgramKind::Pasta && rustix::process::geteuid().is_root() {
            // Without this flag the program becomes `nobody`, which may not enter the namespace.
            command.args(["--runas", "0"]);
        }
        command.stdin(Stdio::from(between.as_fd().try_clone_to_owned()?));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        // The terminal's signals are for the command only. This process ends the NAT program.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        with_ambient_capabilities(|| kill_with_parent(&mut command).spawn())
    }

    fn wait_for_device(&self, nat: &mut UserNat, events: &LinkEvents) -> Result<(), Failure> {
        let start = Instant::now();
        let link = nat.subnet.link();
        while !nat.set_device_up(&link)? {
            let ended = nat.child.try_wait()?.is_some();
            if ended || start.elapsed() > START_TIMEOUT {
                return Err(self.start_failure(&mut nat.child, ended));
            }
            let tick = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            // An interrupted poll is no error: the link is checked again.
            let _ = poll(&mut [PollFd::new(events, PollFlags::IN)], Some(&tick));
            events.clear();
        }
        Ok(())
    }

    fn start_failure(&self, child: &mut Child, ended: bool) -> Failure {
        let name = self.name();
        let _ = child.kill();
        let mut errors = String::new();
        if let Some(stderr) = &mut child.stderr {
            let _ = stderr.read_to_string(&mut errors);
        }
        let errors: Vec<_> = errors.lines().filter(|line| !line.contains("syslog")).collect();
        let cause = match (ended, errors.join("\n")) {
            (true, errors) if !errors.is_empty() => errors,
            (true, _) => "it ended at once and said nothing".to_owned(),
            (false, _) => format!("it made no device within {} s", START_TIMEOUT.as_secs()),
        };
        let error =
            Diagnostic::new(SR0403, format!("{name} does not connect the command to the network"));
        // Both programs create a TAP device, so the cause may be that this is not possible here.
        let (cause, help) = match tap::probe(name) {
            Err(closed) => (format!("{cause}\n{}", closed.cause), closed.help()),
            Ok(()) => (cause, None),
        };
        let routed = "it needs a default route here; as root, the kernel can do it: --nat kernel";
        error.with_cause(cause).with_help(help.unwrap_or_else(|| routed.to_owned())).into()
    }
}

impl UserNat {
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sets the program's device `link` up. Returns false if the program has not created the device
    /// yet.
    fn set_device_up(&self, link: &str) -> io::Result<bool> {
        self.between.run(|| match Iface::find(link) {
            Ok(iface) => Netlink::open()?.set_up(iface.index).map(|()| true),
            Err(_) => Ok(false),
        })
    }
}

impl Drop for UserNat {
    fn drop(&mut self) {
        // Killing fails if the child has already ended; it only needs to be waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `start` such that the program it spawns keeps the capabilities over the new namespaces.
/// Otherwise a program that an ordinary user executes would lose them.
fn with_ambient_capabilities<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = rustix::thread::capabilities(None)?;
    let rights = NAT_CAPABILITIES.into_iter().fold(CapabilitySet::empty(), CapabilitySet::union);
    let mut passed_on = before;
    passed_on.inheritable |= rights;
    rustix::thread::set_capabilities(None, passed_on)?;
    let all = |on| {
        NAT_CAPABILITIES.iter().try_for_each(|&one| configure_capability_in_ambient_set(one, on))
    };
    let started = all(true).map_err(io::Error::from).and_then(|()| start());
    // This also ends the ambient capabilities: a capability that is no longer inheritable is no
    // longer ambient.
    rustix::thread::set_capabilities(None, before)?;
    started
}

/// Builds the error for the case that none of the programs is installed.
pub(super) fn missing() -> Failure {
    Diagnostic::new(SR0302, "neither slirp4netns nor pasta is installed")
        .with_cause("without privilege, a program of the user's carries what the command sends")
        .with_help("install one of them: apt-get install slirp4netns  (or: apt-get install passt)")
        .with_note("root needs neither: sudo slipring run ...")
        .into()
}
