//! The parts of a run: the command's namespace, the two ports of the link, and the address
//! translation on the outer side of the link.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;
use slipring_cli::codes::{SR0199, SR0301};
use slipring_cli::{Diagnostic, Failure};
use slipring_core::Host;
use slipring_core::netns::{self, Netns};
use slipring_port::iface::Iface;
use slipring_port::netlink::Netlink;
use slipring_port::{OpenOptions, Port};

use super::addresses::{LinkAddresses, LinkSubnet, PREFIX_V4, PREFIX_V6};
use super::masquerade::Masquerade;
use super::nat::{self, UserNat};
use super::outer::OuterNamespace;

/// The longest packet on the link, in bytes.
pub(super) const MTU: u32 = 1500;
/// Name of the interface at the command's end of the link.
const INNER_IFNAME: &str = "eth0";
/// Interface index of loopback, the same in every namespace.
const LOOPBACK_IFINDEX: u32 = 1;
/// Slots per ring. They hold the frames of a quarter of a second at 100 Mbit/s, in case the
/// emulator is not scheduled for that long.
const SLOTS_PER_RING: u32 = 2048;

/// The requested address translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NatChoice {
    /// The kernel's address translation if possible, else a user-mode program.
    Best,
    /// The kernel's address translation, or an error.
    Kernel,
    /// A user-mode program, even if the kernel could translate.
    User,
}

/// All parts of the sandbox except the ports, which the emulator takes.
#[derive(Debug)]
pub(super) struct RunSandbox {
    /// The command's namespace.
    pub(super) inside: Netns,
    pub(super) addresses: LinkAddresses,
    /// The environment variable that passes the subnets in use to nested runs, and its value.
    pub(super) nested_variable: (&'static str, String),
    /// Name of the interface at the link's outer end.
    pub(super) link: String,
    /// Contents of the command's `/etc/resolv.conf`, if they differ from those of the outer
    /// namespace.
    pub(super) resolv_conf: Option<String>,
    /// A name server that answers only in the outer namespace, so that the command reaches it
    /// through a relay. `None` if no relay is needed.
    pub(super) name_server: Option<IpAddr>,
    pub(super) translator: RunTranslator,
    /// A warning to print for the user; `None` if there is nothing to warn of.
    pub(super) warning: Option<String>,
}

/// The address translation on the outer side of the link. It ends with the sandbox.
#[derive(Debug)]
pub(super) enum RunTranslator {
    /// The kernel, for IPv4 and, if supported, IPv6.
    Kernel { _v4: Masquerade, _v6: Option<Masquerade> },
    /// A user-mode program.
    User { nat: UserNat, name: &'static str },
}

impl RunSandbox {
    /// Describes the translation, for the head of the report.
    pub(super) fn translator_text(&self) -> String {
        let LinkAddresses { own, gateway, .. } = self.addresses;
        let user = match &self.translator {
            RunTranslator::Kernel { .. } => format!("the kernel translates, behind {}", self.link),
            RunTranslator::User { name, .. } => format!("{name} translates"),
        };
        format!("the command has {own}, this host is {gateway}; {user}")
    }

    /// Builds the sandbox. Must be called before the process has threads.
    pub(super) fn build(wish: NatChoice) -> Result<(Self, [Port; 2]), Failure> {
        let outer = OuterNamespace::read_current()
            .map_err(|error| setup_failure("look at the network here", &error))?;
        let program = nat::NatProgram::find();
        let (forwards, has_program) = (outer.forwards_v4, program.is_some());
        if wish == NatChoice::Kernel || wish == NatChoice::Best && (forwards || !has_program) {
            match Self::by_kernel(&outer) {
                Err(KernelNatError::Lacking(_)) if wish == NatChoice::Best => {}
                Err(KernelNatError::Lacking(error)) => {
                    return Err(setup_failure(TRANSLATE_TASK, &error));
                }
                Err(KernelNatError::Failed(failure)) => return Err(failure),
                Ok(built) => return Ok(built),
            }
        }
        let program = program.ok_or_else(nat::missing)?;
        Self::by_program(&outer, &program)
    }

    /// Returns the process id of the user-mode NAT program, if one is used.
    pub(super) fn helper(&self) -> Option<Pid> {
        match &self.translator {
            RunTranslator::User { nat, .. } => Some(nat.pid()),
            RunTranslator::Kernel { .. } => None,
        }
    }

    fn by_kernel(outer: &OuterNamespace) -> Result<(Self, [Port; 2]), KernelNatError> {
        let mut next = Some(0);
        while let Some(subnet) = next.and_then(|first| outer.free_subnet(first)) {
            match by_kernel(outer, subnet) {
                // `Lacking` may also mean that another run has taken the subnet since it was found
                // free. Then the next free subnet is tried.
                Err(KernelNatError::Lacking(error))
                    if error.kind() == io::ErrorKind::AlreadyExists =>
                {
                    next = subnet.next();
                }
                built => return built,
            }
        }
        Err(KernelNatError::Failed(no_subnet()))
    }

    fn by_program(
        outer: &OuterNamespace,
        program: &nat::NatProgram,
    ) -> Result<(Self, [Port; 2]), Failure> {
        let subnet = outer.free_subnet(0).ok_or_else(no_subnet)?;
        if Netns::new().is_err() {
            become_own_user().map_err(|error| no_user_namespace(&error))?;
        }
        let nat = program.start(subnet, outer.reaches_v6)?;
        let options = OpenOptions { shared: true, ..options() };
        let names = [format!("tap:{INNER_IFNAME}"), format!("packet:{}", subnet.link())];
        let ports = nat.between.run(|| Ok(open(&names, &options)))??;
        let inside = make_inner_namespace(&nat.between, &nat.addresses)
            .map_err(|error| setup_failure(CONFIGURE_TASK, &error))?;
        let site = Self {
            inside,
            addresses: nat.addresses,
            nested_variable: outer.nested_variable(subnet),
            link: subnet.link(),
            resolv_conf: Some(outer.resolvers.with_server(nat.resolver)),
            name_server: None,
            translator: RunTranslator::User { nat, name: program.name() },
            warning: program.warning(),
        };
        Ok((site, ports))
    }
}

const CONFIGURE_TASK: &str = "give the command its end of the link";
const TRANSLATE_TASK: &str = "translate addresses in the kernel";

/// How long to try to enter a user namespace. A thread that was joined may count as a thread of
/// this process for a moment longer.
const THREAD_EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Moves this process into a new user namespace. The kernel refuses this to a process with several
/// threads, and it counts threads that have just ended.
fn become_own_user() -> io::Result<()> {
    let start = Instant::now();
    loop {
        match netns::become_own_user() {
            Err(error)
                if error.kind() == io::ErrorKind::InvalidInput
                    && start.elapsed() < THREAD_EXIT_TIMEOUT =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Why the kernel cannot translate.
enum KernelNatError {
    /// A privilege or a part of the kernel is missing, or a name is taken.
    Lacking(io::Error),
    /// Another error, which user-mode NAT would not avoid.
    Failed(Failure),
}

impl From<io::Error> for KernelNatError {
    fn from(error: io::Error) -> Self {
        Self::Lacking(error)
    }
}

/// Builds the variant with kernel NAT: the link's outer end is a device in the outer namespace.
fn by_kernel(
    outer: &OuterNamespace,
    subnet: LinkSubnet,
) -> Result<(RunSandbox, [Port; 2]), KernelNatError> {
    let v6 = Some(outer.forwards_v6 && outer.reaches_v6);
    let addresses = subnet.addresses(v6);
    let (link, here) = (subnet.link(), Netns::current()?);
    let v4 = Masquerade::install(&link, addresses.own.into())?;
    let v6 = addresses.v6.and_then(|v6| Masquerade::install(&link, v6.own.into()).ok());
    let between = Netns::new()?;
    let names = [format!("tap:{INNER_IFNAME}"), format!("tap:{link}")];
    let ports = between.run(|| Ok(open(&names, &options())))?.map_err(KernelNatError::Failed)?;
    between.run(|| Netlink::open()?.set_netns(index(&link)?, here.as_fd()))?;
    assign_addresses(&link, subnet)?;
    let inside = make_inner_namespace(&between, &addresses)?;
    let local = outer.resolvers.are_local();
    let site = RunSandbox {
        inside,
        addresses,
        nested_variable: outer.nested_variable(subnet),
        resolv_conf: local.then(|| outer.resolvers.with_server(addresses.gateway.into())),
        name_server: local.then(|| outer.resolvers.first()),
        translator: RunTranslator::Kernel { _v4: v4, _v6: v6 },
        warning: (!outer.forwards_v4).then(|| NO_FORWARDING.to_owned()),
        link,
    };
    Ok((site, ports))
}

const NO_FORWARDING: &str = "net.ipv4.ip_forward is 0 here, so the command reaches this host's own \
    addresses only; switch it on (sysctl -w net.ipv4.ip_forward=1), or install slirp4netns, \
    which does without (apt-get install slirp4netns)";

/// Assigns the addresses of the outer end.
fn assign_addresses(link: &str, subnet: LinkSubnet) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let index = index(link)?;
    netlink.disable_ipv6_autoconf(link)?;
    set(&format!("/proc/sys/net/ipv6/conf/{link}/accept_dad"), "0");
    netlink.add_address(index, IpAddr::V4(subnet.v4(1)), PREFIX_V4)?;
    // If IPv6 is switched off, the link has no IPv6.
    let _ = netlink.add_address(index, IpAddr::V6(subnet.v6(1)), PREFIX_V6);
    netlink.set_up(index)
}

/// Creates the command's namespace and moves its end of the link there.
fn make_inner_namespace(between: &Netns, addresses: &LinkAddresses) -> io::Result<Netns> {
    let inside = Netns::new()?;
    between.run(|| Netlink::open()?.set_netns(index(INNER_IFNAME)?, inside.as_fd()))?;
    inside.run(|| configure_inner(addresses))?;
    Ok(inside)
}

/// Configures the command's namespace: addresses, routes, and settings for nested runs and ping.
fn configure_inner(addresses: &LinkAddresses) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let index = index(INNER_IFNAME)?;
    netlink.disable_ipv6_autoconf(INNER_IFNAME)?;
    netlink.set_up(LOOPBACK_IFINDEX)?;
    set("/proc/sys/net/ipv4/ip_forward", "1");
    set("/proc/sys/net/ipv6/conf/all/forwarding", "1");
    set(&format!("/proc/sys/net/ipv6/conf/{INNER_IFNAME}/accept_dad"), "0");
    let group = rustix::process::getegid().as_raw();
    set("/proc/sys/net/ipv4/ping_group_range", &format!("{group} {group}"));
    for (address, prefix_len) in addresses.own() {
        match netlink.add_address(index, address, prefix_len) {
            Err(error) if address.is_ipv4() => return Err(error),
            _ => {}
        }
    }
    netlink.set_up(index)?;
    for gateway in addresses.gateways() {
        match netlink.add_default_route(index, gateway) {
            Err(error) if gateway.is_ipv4() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Writes a setting of the calling thread's namespace. If `/proc/sys` is read-only, as in some
/// containers, the kernel's default remains.
pub(super) fn set(path: &str, value: &str) {
    let _ = fs::write(path, value);
}

fn options() -> OpenOptions {
    OpenOptions { slots: SLOTS_PER_RING, ..OpenOptions::default() }
}

/// Opens both ends of the link as ports in one memory region, the command's end first.
fn open(names: &[String; 2], options: &OpenOptions) -> Result<[Port; 2], Failure> {
    let [inside, outside] = names;
    let parsed = [slipring_core::parse(inside)?, slipring_core::parse(outside)?];
    let ports = Host::global().open_all(&parsed, options)?;
    Ok(<[Port; 2]>::try_from(ports).expect("one port per name"))
}

fn index(name: &str) -> io::Result<u32> {
    Iface::find(name).map(|iface| iface.index).map_err(io::Error::other)
}

pub(super) fn setup_failure(what: &str, error: &io::Error) -> Failure {
    Diagnostic::new(SR0199, format!("cannot {what}"))
        .with_cause(error.to_string())
        .with_help("see what this machine has: slipring doctor")
        .into()
}

fn no_user_namespace(error: &io::Error) -> Failure {
    Diagnostic::new(SR0301, "cannot make a user namespace")
        .with_cause(error.to_string())
        .with_help("run it as root: sudo slipring run ...")
        .with_note("`slipring doctor` says which setting forbids it")
        .into()
}

fn no_subnet() -> Failure {
    Diagnostic::new(SR0199, "no subnet is left for the link")
        .with_cause("all of 100.64.0.0 to 100.64.255.0 are routed here")
        .with_help("see who has them: ip -4 route")
        .into()
}
