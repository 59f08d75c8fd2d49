//! Two hosts and a router between them, in namespaces of their own.
//!
//! ```text
//!   left                          mid                          right
//!   e0 10.1.0.2 --- veth --- la 10.1.0.1   ra 10.3.0.1 --- veth --- e0 10.3.0.2
//!      fd01::2                   fd01::1      fd03::1                  fd03::2
//! ```
#![allow(clippy::unwrap_used, dead_code)]

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use slipring_classify::intervals::IntervalTree;
use slipring_fib::{
    Adjacency, AdjacencyIndex, FibPort, FibPortIndex, ForwardingTables, Ipv4Lookup, Ipv6Lookup,
    NextHopAddress, ReversePathMode, Target, TargetAction, TargetIndex, VlanTags, VrfIndex,
    VrfTables,
};
use slipring_route_bpf::{
    AttachOptions, BpfLimits, BpfRouter, ResidentAttachment, ResidentCounters, ResidentError,
    ResidentHash, ResidentHeartbeat, ResidentMode,
};
use slipring_simd::Simd;
use slipring_test_support::{Namespace, skip};
use slipring_wire::mac::MacAddr;

pub(crate) const LEFT: FibPortIndex = FibPortIndex(0);
pub(crate) const RIGHT: FibPortIndex = FibPortIndex(1);

/// MAC addresses of the left host, the router's two ports, and the right host.
pub(crate) const MACS: [&str; 4] =
    ["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03", "02:00:00:00:00:04"];

const LIMITS: BpfLimits = BpfLimits {
    ports: 4,
    queues: 8,
    vrfs: 1,
    targets: 16,
    adjacencies: 16,
    groups: 1,
    tail_blocks: 16,
    v6_nodes: 64,
};

#[derive(Debug)]
struct NoLookup(Option<IntervalTree>);

impl Ipv4Lookup for NoLookup {
    fn lookup(&self, _: &[u32], _: &mut [TargetIndex]) {}
}

impl Ipv6Lookup for NoLookup {
    fn lookup(&self, _: &[u128], _: &mut [TargetIndex]) {}

    fn intervals(&self) -> Option<&IntervalTree> {
        self.0.as_ref()
    }
}

/// The namespaces.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) left: Namespace,
    pub(crate) mid: Arc<Namespace>,
    pub(crate) right: Namespace,
}

impl Routed {
    /// Builds the hosts; the kernel forwards between them. The hosts can receive redirected frames.
    /// Returns `None`, and prints why, if that is not permitted.
    pub(crate) fn new() -> Option<Self> {
        Self::with("")
    }

    /// Like [`Self::new`]; `extra` is added to `ip link add` for both ends of the cables.
    pub(crate) fn with(extra: &str) -> Option<Self> {
        let (left, mid, right) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        for (host, ours, number, macs) in [(&left, "la", 1, [0, 1]), (&right, "ra", 3, [3, 2])] {
            mid.cable(ours, host, "e0", extra);
            host.ip(&format!("link set e0 address {}", MACS[macs[0]]));
            mid.ip(&format!("link set {ours} address {}", MACS[macs[1]]));
            for (namespace, ifname, last) in [(host, "e0", 2), (&mid, ours, 1)] {
                let (ifname_owned, path) = (ifname.to_owned(), "/proc/sys/net/ipv6/conf");
                namespace.run(move || {
                    std::fs::write(format!("{path}/{ifname_owned}/disable_ipv6"), "0").unwrap();
                });
                namespace.ip(&format!("addr add 10.{number}.0.{last}/24 dev {ifname}"));
                namespace.ip(&format!("addr add fd0{number}::{last}/64 dev {ifname} nodad"));
            }
            host.ip(&format!("route add default via 10.{number}.0.1"));
            host.ip(&format!("route add default via fd0{number}::1"));
            host.command("ethtool", "-K e0 gro on tx off");
        }
        mid.run(|| {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        });
        Some(Self { left, mid: Arc::new(mid), right })
    }

    pub(crate) fn ifindex(&self, ifname: &'static str) -> u32 {
        self.mid.run(move || ifindex_of(ifname))
    }

    /// Starts the router in the middle; returns `None`, and prints why, if that fails.
    pub(crate) fn start(&self, mode: ResidentMode) -> Option<Running> {
        let router = self.mid.run(move || start(mode));
        match router {
            Ok((router, attachments)) => {
                Some(Running::new(Arc::clone(&self.mid), router, attachments))
            }
            Err(error) => {
                skip!("no BPF router: {error}");
                None
            }
        }
    }

    /// Sends `count` echo requests, all of which must be answered; returns ping's output.
    #[track_caller]
    pub(crate) fn ping(&self, to: &str, count: u32) -> String {
        let output = self.left.command("ping", &format!("-c {count} -i 0.02 -W 5 {to}"));
        assert!(output.contains(&format!("{count} received")), "{output}");
        output
    }
}

/// The index of an interface of this thread's namespace.
pub(crate) fn ifindex_of(ifname: &str) -> u32 {
    let mut command = std::process::Command::new("ip");
    let output = command.args(["-o", "link", "show", "dev", ifname]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split(':').next().unwrap().parse().unwrap()
}

/// The IPv6 destinations: the hosts' networks, without the router's addresses.
fn tree() -> IntervalTree {
    let net = |number: u128| 0xfd00_u128 << 112 | number << 112;
    let mut starts = vec![(0, 0)];
    for (number, target) in [(1, 2), (3, 3)] {
        starts.push((net(number), target));
        starts.push((net(number) + 1, 1));
        starts.push((net(number) + 2, target));
        starts.push((net(number) + (1 << 64), 0));
    }
    IntervalTree::build(&starts, Simd::detect())
}

/// The forwarding tables of the router in the picture.
pub(crate) fn tables(ifindices: [u32; 2]) -> ForwardingTables {
    let mac = |text: &str| {
        let mut bytes = [0; 6];
        for (byte, part) in bytes.iter_mut().zip(text.split(':')) {
            *byte = u8::from_str_radix(part, 16).unwrap();
        }
        MacAddr(bytes)
    };
    let port = |ifindex, name: &str, at: usize| FibPort {
        ifindex,
        name: name.to_owned(),
        mac: mac(MACS[at]),
        mtu: 1500,
        is_up: true,
        vrf: VrfIndex(0),
        reverse_path: ReversePathMode::Off,
        reverse_path_v6: ReversePathMode::Off,
        tags: VlanTags::default(),
        addresses: Vec::new(),
    };
    let hop = |port, at: usize| Adjacency {
        port,
        next_hop: NextHopAddress::OnLink,
        mac: Some(mac(MACS[at])),
    };
    let target = |action| Target { action, mtu: 0 };
    ForwardingTables {
        generation: 1,
        ports: [port(ifindices[0], "la", 1), port(ifindices[1], "ra", 2)].into(),
        vrfs: [VrfTables { v4: Arc::new(NoLookup(None)), v6: Arc::new(NoLookup(Some(tree()))) }]
            .into(),
        targets: [
            target(TargetAction::NoRoute),
            target(TargetAction::Kernel),
            target(TargetAction::Forward(AdjacencyIndex(0))),
            target(TargetAction::Forward(AdjacencyIndex(1))),
        ]
        .into(),
        adjacencies: [hop(LEFT, 0), hop(RIGHT, 3)].into(),
        buckets: [].into(),
    }
}

/// Makes the router with the interfaces of this thread's namespace. Returns their indices as well.
pub(crate) fn router() -> Result<(BpfRouter, [u32; 2]), ResidentError> {
    let mut router = BpfRouter::create(LIMITS, ResidentHash::default())?;
    let ifindices = ["la", "ra"].map(ifindex_of);
    router.apply(&tables(ifindices)).unwrap();
    let local = ["10.1.0.1", "10.3.0.1", "fd01::1", "fd03::1"];
    let local = local.map(|text| text.parse::<IpAddr>().unwrap());
    router.set_local(&local.map(|address| (address, if address.is_ipv4() { 32 } else { 128 })));
    let mut table = router.ipv4_table(VrfIndex(0))?;
    for (net, number) in [(1_u32, 2), (3, 3)] {
        // The router's own address is local.
        let first = 10 << 24 | net << 16;
        table
            .set(first, first | 0xff, &[(first, number), (first + 1, 1), (first + 2, number)])
            .unwrap();
    }
    Ok((router, ifindices))
}

/// Makes the router and attaches its programs to both interfaces of this thread's namespace.
pub(crate) fn start(
    mode: ResidentMode,
) -> Result<(BpfRouter, Vec<ResidentAttachment>), ResidentError> {
    let (router, ifindices) = router()?;
    // veth reports removed tags to programs; generic XDP does not.
    let checks_stripped_tags = mode == ResidentMode::Native;
    let options = AttachOptions {
        mode,
        is_software: true,
        checks_stripped_tags,
        socket_queues: 0,
        takes_options: false,
    };
    let attachments = [(ifindices[0], LEFT), (ifindices[1], RIGHT)]
        .into_iter()
        .map(|(ifindex, port)| router.attach(ifindex, port, options))
        .collect::<Result<_, _>>()?;
    router.enable();
    Ok((router, attachments))
}

/// Writes heartbeats that are almost as far ahead of the clock as programs accept, because other
/// tests may keep this machine busy.
pub(crate) fn beat_ahead(heartbeat: &ResidentHeartbeat) {
    const AHEAD_NS: u64 = 90_000_000;
    heartbeat.beat_all(ResidentHeartbeat::now() + AHEAD_NS);
}

/// Gives the calling thread a high priority, if that is permitted. On a busy machine, heartbeats
/// would otherwise be late, and the kernel would forward.
pub(crate) fn prioritize() {
    let _ = rustix::process::setpriority_process(None, -20);
}

/// A thread that writes heartbeats every few milliseconds.
#[derive(Debug)]
pub(crate) struct Beating {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Beating {
    pub(crate) fn start(heartbeat: ResidentHeartbeat) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        beat_ahead(&heartbeat);
        let thread = std::thread::spawn(move || {
            prioritize();
            while !stopped.load(Ordering::Relaxed) {
                beat_ahead(&heartbeat);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A router that runs.
#[derive(Debug)]
pub(crate) struct Running {
    mid: Arc<Namespace>,
    pub(crate) router: Arc<Mutex<BpfRouter>>,
    pub(crate) attachments: Vec<ResidentAttachment>,
    pub(crate) beating: Option<Beating>,
}

impl Running {
    fn new(mid: Arc<Namespace>, router: BpfRouter, attachments: Vec<ResidentAttachment>) -> Self {
        let beating = Some(Beating::start(router.heartbeat()));
        Self { mid, router: Arc::new(Mutex::new(router)), attachments, beating }
    }

    pub(crate) fn counters(&self, port: FibPortIndex) -> ResidentCounters {
        self.router.lock().unwrap().counters(port).unwrap()
    }

    pub(crate) fn beat_again(&mut self) {
        let heartbeat = self.router.lock().unwrap().heartbeat();
        self.beating = Some(Beating::start(heartbeat));
    }

    /// Runs `change` on the router in the namespace of its interfaces. Returns its result.
    pub(crate) fn change<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BpfRouter) -> R + Send + 'static,
    ) -> R {
        let router = Arc::clone(&self.router);
        self.mid.run(move || change(&mut router.lock().unwrap()))
    }
}
