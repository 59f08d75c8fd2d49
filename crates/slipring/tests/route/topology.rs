//! The links of the rig: hosts A, B and, if a check requests it, C around a router, and raw sockets
//! at the hosts' ends.
//!
//! ```text
//!   A 10.1.0.2 fd01::2 -- e0 10.1.0.1 fd01::1 |        | e1 10.3.0.1 fd03::1 -- 10.3.0.2 fd03::2 B
//!                                             | router |
//!                                             |        | e2 10.5.0.1 fd05::1 -- 10.5.0.2 fd05::2 C
//! ```
//! The hosts' kernels have no addresses: a test sends and receives every frame itself. The router
//! has permanent neighbour entries for the hosts, and for the addresses 10.3.0.3 and fd03::3 on B's
//! link.

use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use rustix::process::{getpriority_process, setpriority_process};
use slipring_test_support::{Namespace, Program, eventually};

use crate::host::{Host, Mac};
use crate::rig::Rig;

/// The binary under test.
pub(crate) const SLIPRING: &str = env!("CARGO_BIN_EXE_slipring");

/// The router of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The kernel alone.
    Kernel,
    /// `slipring route` with this value of `--io`, and the kernel as its fallback.
    Slipring(&'static str),
}

/// Addresses of one family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) a: IpAddr,
    pub(crate) b: IpAddr,
    pub(crate) c: IpAddr,
    /// The router's addresses on the links to the hosts.
    pub(crate) router_a: IpAddr,
    pub(crate) router_b: IpAddr,
}

/// Returns the addresses of the rig in each family.
pub(crate) fn families() -> [Addresses; 2] {
    [v4(), v6()]
}

pub(crate) fn v4() -> Addresses {
    let [a, b, c, router_a, router_b] =
        ["10.1.0.2", "10.3.0.2", "10.5.0.2", "10.1.0.1", "10.3.0.1"].map(ip);
    Addresses { a, b, c, router_a, router_b }
}

pub(crate) fn v6() -> Addresses {
    let [a, b, c, router_a, router_b] =
        ["fd01::2", "fd03::2", "fd05::2", "fd01::1", "fd03::1"].map(ip);
    Addresses { a, b, c, router_a, router_b }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The router's MAC address on link 1, 3 or 5.
pub(crate) const fn router_mac(link: u8) -> Mac {
    [2, 0, 0, 0, link, 1]
}

/// The MAC address of the neighbour whose addresses end with `host`, on link 1, 3 or 5.
pub(crate) const fn host_mac(link: u8, host: u8) -> Mac {
    [2, 0, 0, 0, link, host]
}

pub(crate) fn words(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Settings of every router before its links exist: forwarding, no check of sources, no rate limit
/// for ICMP errors, no duplicate address detection, no router solicitations, and the multipath hash
/// over ports.
const SETTINGS: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/icmp_ratemask", "0"),
    ("ipv4/fib_multipath_hash_policy", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/default/router_solicitations", "0"),
    ("ipv6/icmp/ratelimit", "0"),
    ("ipv6/fib_multipath_hash_policy", "1"),
];

/// The rig before its router starts.
pub(crate) struct Setup {
    pub(crate) subject: Subject,
    pub(crate) router: Namespace,
    pub(crate) a: Host,
    pub(crate) b: Host,
    pub(crate) c: Option<Host>,
    pub(crate) has_ipv6: bool,
    pub(crate) flags: String,
}

impl Setup {
    /// Builds the links of A and B; returns `None`, and prints why, if that is not permitted.
    pub(crate) fn new(subject: Subject) -> Option<Self> {
        Self::with_queues(subject, 1)
    }

    /// Like [`Self::new`], but each link has `queues` queues.
    pub(crate) fn with_queues(subject: Subject, queues: u8) -> Option<Self> {
        let router = Namespace::new()?;
        for (name, value) in SETTINGS {
            set(&router, name, value);
        }
        let (a, b) = (link(&router, "e0", 1, queues)?, link(&router, "e1", 3, queues)?);
        router.ip_batch(&format!(
            "neigh add 10.3.0.3 lladdr {mac} dev e1 nud permanent
             neigh add fd03::3 lladdr {mac} dev e1 nud permanent",
            mac = words(host_mac(3, 3))
        ));
        let (c, has_ipv6, flags) = (None, true, String::new());
        Some(Self { subject, router, a, b, c, has_ipv6, flags })
    }

    /// Adds the link of C.
    pub(crate) fn with_c(mut self) -> Self {
        self.c = link(&self.router, "e2", 5, 1);
        // The start of the rig waits until packets cross the links of A and B. The carrier of C's
        // link is waited for here.
        self.router.wait_for_carrier("e2");
        self.c.iter().for_each(|c| c.namespace.wait_for_carrier("e0"));
        self
    }

    /// Runs lines of `ip` in the router's namespace.
    pub(crate) fn ip(self, lines: &str) -> Self {
        self.router.ip_batch(lines);
        self
    }

    /// Runs a line of `ip -6` in the router's namespace, for objects whose words do not show the
    /// family.
    pub(crate) fn ip6(self, line: &str) -> Self {
        self.router.ip(&format!("-6 {line}"));
        self
    }

    /// Expects only IPv4 packets to cross the router: the kernel has no IPv6 on links with an MTU
    /// below 1280.
    pub(crate) fn without_ipv6(mut self) -> Self {
        self.has_ipv6 = false;
        self
    }

    /// Sets the flags with which the program will start, separated by spaces, in place of earlier
    /// flags.
    pub(crate) fn with_flags(mut self, flags: &str) -> Self {
        self.flags = flags.to_owned();
        self
    }

    /// Makes the workers, if there are any, forward the packets from A. With `packet`, the BPF
    /// programs forward packets that need only a lookup, and leave packets that meet a policer to
    /// the workers, so this adds a policer, which never drops.
    pub(crate) fn by_workers(self) -> Self {
        let Subject::Slipring("packet") = self.subject else { return self };
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let path = dir.join("route-by-workers.toml");
        let policer = "[[policer]]\ninterface = 'e0'\nrate = '100Gbit'\nburst = '1GB'\n";
        // Other tests may read the file at the same time, so it is replaced as a whole.
        let mut file = tempfile::NamedTempFile::new_in(dir).unwrap();
        file.write_all(policer.as_bytes()).unwrap();
        file.persist(&path).unwrap();
        self.with_flags(&format!("--config {}", path.display()))
    }

    /// The namespace of the router.
    pub(crate) fn router(&self) -> &Namespace {
        &self.router
    }

    /// Sets a value in the router's `/proc/sys/net`.
    pub(crate) fn set(self, name: &str, value: &str) -> Self {
        set(&self.router, name, value);
        self
    }

    /// Starts the router and waits until packets cross it both ways, of both families unless the
    /// setup is [`Self::without_ipv6`].
    pub(crate) fn start(self) -> Rig {
        self.wait_until_settled();
        Rig::start(self)
    }

    /// Waits until the kernel can send on A's and B's links, and has their link-local addresses.
    pub(crate) fn wait_until_settled(&self) {
        let with_ipv6: &[_] = if self.has_ipv6 { &["e0", "e1"] } else { &["e0"] };
        wait_for_addresses(&self.router, with_ipv6);
        if !self.has_ipv6 {
            self.router.wait_for_carrier("e1");
        }
    }
}

/// Connects a new host with the router, and returns the host; `None` if namespaces are not
/// permitted.
fn link(router: &Namespace, ifname: &str, number: u8, queues: u8) -> Option<Host> {
    let namespace = Namespace::new()?;
    let (mac, router_mac) = (host_mac(number, 2), router_mac(number));
    let options = match queues {
        1 => String::new(),
        queues => format!("numtxqueues {queues} numrxqueues {queues}"),
    };
    namespace.veth("e0", router, ifname, &options);
    namespace.ip_batch(&format!("link set e0 address {}", words(mac)));
    // The router's XDP programs can redirect frames to its end of the cable only if the host's end
    // polls its ring (NAPI), which GRO turns on.
    namespace.attempt("ethtool", "-K e0 gro on");
    router.ip_batch(&format!(
        "link set {ifname} address {own} up
         addr add 10.{number}.0.1/24 dev {ifname}
         addr add fd0{number}::1/64 dev {ifname} nodad
         neigh add 10.{number}.0.2 lladdr {mac} dev {ifname} nud permanent
         neigh add fd0{number}::2 lladdr {mac} dev {ifname} nud permanent",
        own = words(router_mac),
        mac = words(mac)
    ));
    Some(Host::open(namespace, mac, router_mac))
}

/// Waits until the kernel uses its IPv6 addresses. Even without duplicate address detection, this
/// is a moment after it has listed them.
pub(crate) fn wait_for_own_addresses(router: &Namespace) {
    wait_for_addresses(router, &[]);
}

/// Like [`wait_for_own_addresses`], but also waits until these interfaces have link-local
/// addresses. An interface gets them a moment after it has come up, when the kernel can send on it.
fn wait_for_addresses(router: &Namespace, with_link_local: &[&str]) {
    eventually("the router's addresses to be local", || {
        let listed = router.ip("-6 -o addr show");
        let local = router.ip("-6 route show table local");
        let address = |line: &str| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (ifname, address) = (words.next()?, words.nth(1)?.split('/').next()?);
            Some((ifname.to_owned(), address.to_owned()))
        };
        let addresses: Vec<_> = listed.lines().filter_map(address).collect();
        let is_local =
            |address: &(String, String)| local.contains(&format!("local {} ", address.1));
        let has_link_local = |ifname: &&str| {
            addresses.iter().any(|(of, address)| of == ifname && address.starts_with("fe80:"))
        };
        (addresses.iter().all(is_local) && with_link_local.iter().all(has_link_local)).then_some(())
    });
}

/// Sets a value in `/proc/sys/net` of a namespace.
pub(crate) fn set(namespace: &Namespace, name: &str, value: &str) {
    let (path, value) = (format!("/proc/sys/net/{name}"), value.to_owned());
    namespace.run(move || std::fs::write(&path, value).unwrap_or_else(|e| panic!("{path}: {e}")));
}

/// Starts `slipring route` on interfaces, unless the subject is the kernel, and waits until it
/// forwards. `words` are the interfaces and further flags.
pub(crate) fn launch(
    router: &Namespace,
    subject: Subject,
    words: &str,
    run_dir: &Path,
) -> Option<Program> {
    let program = start(router, subject, words, run_dir)?;
    program.wait_for_text("forwarding");
    crate::lapses::note_router(run_dir);
    Some(program)
}

/// Like [`launch`], but does not wait.
pub(crate) fn start(
    router: &Namespace,
    subject: Subject,
    words: &str,
    run_dir: &Path,
) -> Option<Program> {
    let Subject::Slipring(io) = subject else { return None };
    let mut command = Command::new(SLIPRING);
    command.arg("route").args(words.split_ascii_whitespace()).args(["--io", io]);
    command.env("SLIPRING_RUN", run_dir);
    Some(with_priority(router, || Program::launch(router, command)))
}

/// Calls `start`, which starts a process in the namespace, and gives the started process a high
/// priority if that is permitted. The reason is that a router that does not run for 100 ms on a
/// busy machine leaves its packets to the kernel.
fn with_priority<T>(namespace: &Namespace, start: impl FnOnce() -> T) -> T {
    // Without permission for this, more checks have to be repeated.
    let set = |nice| namespace.run(move || setpriority_process(None, nice)).unwrap_or_default();
    let usual = namespace.run(|| getpriority_process(None));
    set(-20);
    let started = start();
    set(usual.unwrap_or_default());
    started
}
