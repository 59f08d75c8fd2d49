//! What a run is built of: the command's namespace, the two ports of the link, and what is behind
//! the link.

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

use super::addresses::{Addresses, PREFIX_V4, PREFIX_V6, Subnet};
use super::masquerade::Masquerade;
use super::nat::{self, Nat};
use super::outer::Outer;

/// The longest packet on the link, in bytes.
pub(super) const MTU: u32 = 1500;
/// The command's end of the link.
const INSIDE: &str = "eth0";
/// Loopback has this number in every namespace.
const LOOPBACK: u32 = 1;
/// Slots per ring: a quarter of a second at 100 Mbit/s, should the emulator not be scheduled.
const SLOTS: u32 = 2048;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// The kernel's where it can, else a program of the user's.
    Best,
    /// The kernel's or nothing.
    Kernel,
    /// A program of the user's, also for root.
    User,
}

/// All that was built. The ports are apart: the emulator takes them.
#[derive(Debug)]
pub(super) struct Site {
    /// The command's namespace.
    pub(super) inside: Netns,
    pub(super) addresses: Addresses,
    /// A variable for the command, and its value: for runs inside.
    pub(super) around: (&'static str, String),
    /// Name of the link's outer end.
    pub(super) link: String,
    /// What the command's `/etc/resolv.conf` says, where it must differ.
    pub(super) resolv_conf: Option<String>,
    /// A name server that answers only here, so that the command needs somebody to ask it.
    pub(super) name_server: Option<IpAddr>,
    pub(super) behind: Behind,
    /// What the user should know.
    pub(super) warning: Option<String>,
}

/// Who translates addresses behind the link. Ends with the site.
#[derive(Debug)]
pub(super) enum Behind {
    /// The kernel, for IPv4 and, where it has it, IPv6.
    Kernel { _v4: Masquerade, _v6: Option<Masquerade> },
    /// A program.
    User { nat: Nat, name: &'static str },
}

impl Site {
    /// Who is behind the link, for the head of the report.
    pub(super) fn behind_in_words(&self) -> String {
        let Addresses { own, gateway, .. } = self.addresses;
        let who = match &self.behind {
            Behind::Kernel { .. } => format!("the kernel translates, behind {}", self.link),
            Behind::User { name, .. } => format!("{name} translates"),
        };
        format!("the command has {own}, this host is {gateway}; {who}")
    }

    /// Builds it. Must be called before there are threads.
    pub(super) fn build(wish: Wish) -> Result<(Self, [Port; 2]), Failure> {
        let outer = Outer::look().map_err(|error| cannot("look at the network here", &error))?;
        let program = nat::Program::find();
        let (forwards, has_program) = (outer.forwards_v4, program.is_some());
        if wish == Wish::Kernel || wish == Wish::Best && (forwards || !has_program) {
            match Self::by_kernel(&outer) {
                Err(Refusal::Lacking(_)) if wish == Wish::Best => {}
                Err(Refusal::Lacking(error)) => return Err(cannot(TRANSLATE, &error)),
                Err(Refusal::Failed(failure)) => return Err(failure),
                Ok(built) => return Ok(built),
            }
        }
        let program = program.ok_or_else(nat::missing)?;
        Self::by_program(&outer, &program)
    }

    /// A process that this one started for the site.
    pub(super) fn helper(&self) -> Option<Pid> {
        match &self.behind {
            Behind::User { nat, .. } => Some(nat.pid()),
            Behind::Kernel { .. } => None,
        }
    }

    fn by_kernel(outer: &Outer) -> Result<(Self, [Port; 2]), Refusal> {
        let mut next = Some(0);
        while let Some(subnet) = next.and_then(|first| outer.free_subnet(first)) {
            match by_kernel(outer, subnet) {
                // Another run has taken it in between.
                Err(Refusal::Lacking(error)) if error.kind() == io::ErrorKind::AlreadyExists => {
                    next = subnet.next();
                }
                built => return built,
            }
        }
        Err(Refusal::Failed(no_subnet()))
    }

    fn by_program(outer: &Outer, program: &nat::Program) -> Result<(Self, [Port; 2]), Failure> {
        let subnet = outer.free_subnet(0).ok_or_else(no_subnet)?;
        if Netns::new().is_err() {
            become_own_user().map_err(|error| no_user_namespace(&error))?;
        }
        let nat = program.start(subnet, outer.reaches_v6)?;
        let options = OpenOptions { shared: true, ..options() };
        let names = [format!("tap:{INSIDE}"), format!("packet:{}", subnet.link())];
        let ports = nat.between.run(|| Ok(open(&names, &options)))??;
        let inside =
            settle(&nat.between, &nat.addresses).map_err(|error| cannot(SETTLE, &error))?;
        let site = Self {
            inside,
            addresses: nat.addresses,
            around: outer.told_inside(subnet),
            link: subnet.link(),
            resolv_conf: Some(outer.resolvers.with_server(nat.resolver)),
            name_server: None,
            behind: Behind::User { nat, name: program.name() },
            warning: program.warning(),
        };
        Ok((site, ports))
    }
}

const SETTLE: &str = "give the command its end of the link";
const TRANSLATE: &str = "translate addresses in the kernel";

/// How long a thread that was joined may still count as one of this process.
const LINGER: Duration = Duration::from_millis(200);

/// The kernel refuses a process with several threads, among which it still counts those that have
/// just ended.
fn become_own_user() -> io::Result<()> {
    let start = Instant::now();
    loop {
        match netns::become_own_user() {
            Err(error)
                if error.kind() == io::ErrorKind::InvalidInput && start.elapsed() < LINGER =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Why the kernel does not translate.
enum Refusal {
    /// A privilege or a part of the kernel is missing, or a name is taken.
    Lacking(io::Error),
    /// Anything else.
    Failed(Failure),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Lacking(error)
    }
}

/// The link's outer end is a device in the namespace that the command was called in.
fn by_kernel(outer: &Outer, subnet: Subnet) -> Result<(Site, [Port; 2]), Refusal> {
    let v6 = Some(outer.forwards_v6 && outer.reaches_v6);
    let addresses = subnet.addresses(v6);
    let (link, here) = (subnet.link(), Netns::current()?);
    let v4 = Masquerade::install(&link, addresses.own.into())?;
    let v6 = addresses.v6.and_then(|v6| Masquerade::install(&link, v6.own.into()).ok());
    let between = Netns::new()?;
    let names = [format!("tap:{INSIDE}"), format!("tap:{link}")];
    let ports = between.run(|| Ok(open(&names, &options())))?.map_err(Refusal::Failed)?;
    between.run(|| Netlink::open()?.set_netns(index(&link)?, here.as_fd()))?;
    inhabit(&link, subnet)?;
    let inside = settle(&between, &addresses)?;
    let local = outer.resolvers.are_local();
    let site = Site {
        inside,
        addresses,
        around: outer.told_inside(subnet),
        resolv_conf: local.then(|| outer.resolvers.with_server(addresses.gateway.into())),
        name_server: local.then(|| outer.resolvers.first()),
        behind: Behind::Kernel { _v4: v4, _v6: v6 },
        warning: (!outer.forwards_v4).then(|| NO_FORWARDING.to_owned()),
        link,
    };
    Ok((site, ports))
}

const NO_FORWARDING: &str = "net.ipv4.ip_forward is 0 here, so the command reaches this host's own \
    addresses only; switch it on (sysctl -w net.ipv4.ip_forward=1), or install slirp4netns, \
    which does without (apt-get install slirp4netns)";

/// Gives the outer end its addresses.
fn inhabit(link: &str, subnet: Subnet) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let index = index(link)?;
    netlink.silence(link)?;
    set(&format!("/proc/sys/net/ipv6/conf/{link}/accept_dad"), "0");
    netlink.add_address(index, IpAddr::V4(subnet.v4(1)), PREFIX_V4)?;
    // Where IPv6 is switched off, the link is without.
    let _ = netlink.add_address(index, IpAddr::V6(subnet.v6(1)), PREFIX_V6);
    netlink.set_up(index)
}

/// Makes the command's namespace and moves its end of the link there.
fn settle(between: &Netns, addresses: &Addresses) -> io::Result<Netns> {
    let inside = Netns::new()?;
    between.run(|| Netlink::open()?.set_netns(index(INSIDE)?, inside.as_fd()))?;
    inside.run(|| furnish(addresses))?;
    Ok(inside)
}

/// In the command's namespace: addresses, routes, and what a nested run or ping will need.
fn furnish(addresses: &Addresses) -> io::Result<()> {
    let netlink = Netlink::open()?;
    let index = index(INSIDE)?;
    netlink.silence(INSIDE)?;
    netlink.set_up(LOOPBACK)?;
    set("/proc/sys/net/ipv4/ip_forward", "1");
    set("/proc/sys/net/ipv6/conf/all/forwarding", "1");
    set(&format!("/proc/sys/net/ipv6/conf/{INSIDE}/accept_dad"), "0");
    let group = rustix::process::getegid().as_raw();
    set("/proc/sys/net/ipv4/ping_group_range", &format!("{group} {group}"));
    for (address, prefix_len) in addresses.own() {
        match netlink.add_address(index, address, prefix_len) {
            Err(error) if address.is_ipv4() => return Err(error),
            _ => {}
        }
    }
    netlink.set_up(index)?;
    for gateway in addresses.ways_out() {
        match netlink.add_default_route(index, gateway) {
            Err(error) if gateway.is_ipv4() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Writes a setting of the calling thread's namespace. Where `/proc/sys` may not be written, as in
/// some containers, the kernel's default has to do.
pub(super) fn set(path: &str, value: &str) {
    let _ = fs::write(path, value);
}

fn options() -> OpenOptions {
    OpenOptions { slots: SLOTS, ..OpenOptions::default() }
}

/// Opens both ends in one region: the command's first.
fn open(names: &[String; 2], options: &OpenOptions) -> Result<[Port; 2], Failure> {
    let [inside, outside] = names;
    let parsed = [slipring_core::parse(inside)?, slipring_core::parse(outside)?];
    let ports = Host::global().open_all(&parsed, options)?;
    Ok(<[Port; 2]>::try_from(ports).expect("one port per name"))
}

fn index(name: &str) -> io::Result<u32> {
    Iface::find(name).map(|iface| iface.index).map_err(io::Error::other)
}

pub(super) fn cannot(what: &str, error: &io::Error) -> Failure {
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
