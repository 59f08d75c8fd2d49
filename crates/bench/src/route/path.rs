//! Paths from the source to the place where frames end, each in its own namespace.
//!
//! ```text
//!   source: live frames of XDP,    router                              XDP drop
//!   or a packet socket
//!   srbench0a -- veth -- srbench0b 10.66.0.1   srbench1a 10.66.1.1 -- veth -- srbench1b
//!                        fd66:0::1             fd66:1::1              gateways .2 to .201,
//!                                                                     permanent neighbours
//! ```
//! Everything runs in the sender's system calls on one CPU, as softirqs: the router's program or
//! the kernel's forwarding, and the sink. Only a router with packet sockets forwards on another
//! CPU.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use slipring_bpf::BpfLink;
use slipring_port::netlink::Netlink;
use slipring_rtnetlink::RouteFamily;
use slipring_wire::MacAddr;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec};

use super::install;
use super::pace::FramePace;
use super::running::RunningRouter;
use super::socket_source::{FRAMES_PER_CALL, SocketSource};
use super::source::{RoutedSource, SourceBreak, SourceTally};
use super::table::{BenchTable, NUM_DESTINATIONS, NUM_GATEWAYS};
use crate::kernel::packets_sent;
use crate::lab::{self, BenchLab, INPUT_IFNAME, OUTPUT_IFNAME, SINK_IFNAME, SOURCE_IFNAME, find};
use crate::measure::{BenchError, BenchTally};

/// The component that handles the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    /// `slipring route` forwards the frames in XDP.
    Slipring,
    /// `slipring route --io packet` forwards the frames.
    PacketSockets,
    /// The kernel forwards the frames.
    Kernel,
    /// An XDP program drops the frames on the ingress interface. This is the part of
    /// [`Self::Slipring`] before forwarding.
    XdpDrop,
    /// The kernel receives the frames and drops them, because they have another MAC address. This
    /// is the part of [`Self::Kernel`] before forwarding.
    KernelDrop,
}

impl PathKind {
    const fn forwards(self) -> bool {
        matches!(self, Self::Slipring | Self::PacketSockets | Self::Kernel)
    }
}

/// The routes of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathTable {
    /// The only destination is a neighbour.
    OneDestination,
    /// The full table, and random destinations in it.
    Full,
}

/// The source of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathFeed {
    /// An XDP program in a test run with live frames (`BPF_PROG_TEST_RUN`): frames reach the
    /// ingress interface as XDP frames, without socket buffers.
    LiveFrames,
    /// A packet socket: frames reach the ingress interface as socket buffers.
    Socket,
    /// A packet socket that sends at a rate which a thread on another CPU can follow.
    PacedSocket,
}

/// The source of a path.
enum PathSource {
    LiveFrames(RoutedSource),
    Socket(SocketSource),
    PacedSocket(SocketSource),
}

impl PathSource {
    fn new(feed: PathFeed, frame: Vec<u8>, destinations: &[IpAddr]) -> Result<Self, BenchError> {
        Ok(match feed {
            PathFeed::LiveFrames => Self::LiveFrames(RoutedSource::new(frame, destinations)?),
            PathFeed::Socket => Self::Socket(SocketSource::new(&frame, destinations)?),
            PathFeed::PacedSocket => Self::PacedSocket(SocketSource::new(&frame, destinations)?),
        })
    }

    fn send(
        &self,
        time: Duration,
        between: &mut SourceBreak<'_>,
    ) -> Result<SourceTally, BenchError> {
        match self {
            Self::LiveFrames(source) => source.send(time, between),
            Self::Socket(source) => source.send(time, between),
            Self::PacedSocket(source) => {
                let mut pace = FramePace::new();
                source.send(time, &mut || {
                    pace.wait(FRAMES_PER_CALL);
                    between()
                })
            }
        }
    }
}

/// A path, with what runs on it.
pub(super) struct RoutePath {
    kind: PathKind,
    source: PathSource,
    router: Option<RunningRouter>,
    _drop: Option<BpfLink>,
    lab: Rc<BenchLab>,
}

impl RoutePath {
    pub(super) fn new(
        kind: PathKind,
        family: RouteFamily,
        table: PathTable,
        feed: PathFeed,
    ) -> Result<Self, BenchError> {
        let lab = routed_lab(BenchLab::new()?, &[family])?;
        let destinations = match table {
            PathTable::OneDestination => vec![gateway(family, 0)],
            PathTable::Full => {
                let table = BenchTable::full(family);
                if kind.forwards() {
                    lab.within(|| install_routes(&table))?;
                }
                table.destinations(NUM_DESTINATIONS)
            }
        };
        let (source, drop) = lab.within(|| {
            let frame = frame(family, kind != PathKind::KernelDrop)?;
            let source = PathSource::new(feed, frame, &destinations)?;
            let drops = kind == PathKind::XdpDrop;
            Ok((source, drops.then(|| lab::drop_all(INPUT_IFNAME)).transpose()?))
        })?;
        let router = match kind {
            PathKind::Slipring => Some(RunningRouter::start(&lab)?),
            PathKind::PacketSockets => Some(RunningRouter::start_packet(&lab)?),
            _ => None,
        };
        Ok(Self { kind, source, router, _drop: drop, lab })
    }

    /// Returns the test network of the path.
    pub(super) fn lab(&self) -> &BenchLab {
        &self.lab
    }

    /// Sends for `time`; counts the frames that reach the end (if the path does not forward, those
    /// that leave the source), and all CPU time spent. If more than one frame in ten is lost,
    /// measures again, because the result would include the cost of lost frames. Frames are lost if
    /// another CPU has begun to serve an interface: that CPU continues as long as frames arrive,
    /// and the rings overflow while it has other work.
    ///
    /// # Errors
    /// If more than one frame in ten is lost in each of five attempts, or the source fails.
    pub(super) fn measure(&self, time: Duration) -> Result<BenchTally, BenchError> {
        self.measure_beside(time, &mut || Ok(()))
    }

    /// Like [`Self::measure`], but the sender calls `between` from time to time.
    ///
    /// # Errors
    /// The errors of [`Self::measure`], and those of `between`.
    pub(super) fn measure_beside(
        &self,
        time: Duration,
        between: &mut SourceBreak<'_>,
    ) -> Result<BenchTally, BenchError> {
        let mut lost = String::new();
        for _ in 0..MAX_TURNS {
            let (frames, tally) = self.turn(time, between)?;
            if tally.packets >= frames - frames / 10 {
                return Ok(tally);
            }
            lost = format!("{} of {frames} frames reach the end", tally.packets);
            // During this pause, the other CPU empties the ring and stops serving the interface.
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(BenchError::Failed(lost))
    }

    /// Sends for `time`. Returns the number of frames that were sent, and the tally of the frames
    /// that have left the output (if the path does not forward, the source).
    fn turn(
        &self,
        time: Duration,
        between: &mut SourceBreak<'_>,
    ) -> Result<(u64, BenchTally), BenchError> {
        let counted = if self.kind.forwards() { OUTPUT_IFNAME } else { SOURCE_IFNAME };
        let router_cpu = || self.router.as_ref().map_or(0, RunningRouter::cpu);
        let source = &self.source;
        let before = router_cpu();
        let (sent, packets) = self.lab.within(|| {
            let before = packets_sent(counted)?;
            Ok((source.send(time, between)?, packets_sent(counted)? - before))
        })?;
        let cpu = sent.cpu + router_cpu().saturating_sub(before);
        Ok((sent.frames, BenchTally { packets, wall: sent.wall, cpu }))
    }
}

/// Number of attempts with too many losses after which a measurement fails.
const MAX_TURNS: u32 = 5;

/// Gives the two inner interfaces of a lab addresses of these families, with permanent neighbours
/// on the output, and switches the kernel's forwarding on.
pub(super) fn routed_lab(
    lab: Rc<BenchLab>,
    families: &[RouteFamily],
) -> Result<Rc<BenchLab>, BenchError> {
    lab.within(|| families.iter().try_for_each(|&family| configure(family)))?;
    // The router requires that the kernel forwards both families.
    lab.within(|| {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
        // Frames that arrive at the end are not forwarded again.
        let end = format!("/proc/sys/net/ipv4/conf/{SINK_IFNAME}/forwarding");
        Ok(std::fs::write(end, "0")?)
    })?;
    Ok(lab)
}

/// Installs a table, in the calling thread's namespace.
pub(super) fn install_routes(table: &BenchTable) -> Result<(), BenchError> {
    let output = find(OUTPUT_IFNAME)?.index;
    install::routes(table, output, |number| gateway(table.family, number))
}

fn configure(family: RouteFamily) -> Result<(), BenchError> {
    let netlink = Netlink::open()?;
    for (net, name) in [INPUT_IFNAME, OUTPUT_IFNAME].into_iter().enumerate() {
        let index = find(name)?.index;
        if family == RouteFamily::V6 {
            let setting = format!("/proc/sys/net/ipv6/conf/{name}");
            std::fs::write(format!("{setting}/disable_ipv6"), "0")?;
            std::fs::write(format!("{setting}/accept_dad"), "0")?;
        }
        let prefix_len = if family == RouteFamily::V4 { 24 } else { 64 };
        netlink.add_address(index, host(family, net as u8, 1), prefix_len)?;
    }
    let mac = find(SINK_IFNAME)?.mac;
    let gateways = (0..NUM_GATEWAYS).map(|number| (gateway(family, number), mac));
    install::neighbours(find(OUTPUT_IFNAME)?.index, gateways)
}

/// An address on the input link (0) or the output link (1).
fn host(family: RouteFamily, net: u8, host: u8) -> IpAddr {
    match family {
        RouteFamily::V4 => Ipv4Addr::new(10, 66, net, host).into(),
        RouteFamily::V6 => Ipv6Addr::from([0xfd66, net.into(), 0, 0, 0, 0, 0, host.into()]).into(),
    }
}

/// Returns the address of a gateway. Gateways have host numbers from 2 on.
pub(super) fn gateway(family: RouteFamily, number: u16) -> IpAddr {
    host(family, 1, 2 + number as u8)
}

/// The shortest frame with UDP: 64 bytes with the CRC, or 66 for IPv6.
pub(super) fn frame(family: RouteFamily, is_for_router: bool) -> Result<Vec<u8>, BenchError> {
    let (source, destination) = (host(family, 0, 2), gateway(family, 0));
    let ip = match (source, destination) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            IpSpec::V4(Ipv4Spec { src, dst, ..Ipv4Spec::default() })
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            IpSpec::V6(Ipv6Spec { src, dst, ..Ipv6Spec::default() })
        }
        _ => unreachable!("both addresses are of one family"),
    };
    let dst_mac = match is_for_router {
        true => MacAddr(find(INPUT_IFNAME)?.mac),
        false => MacAddr([2, 0, 0, 0, 0, 9]),
    };
    let spec =
        FrameSpec { dst_mac, src_mac: MacAddr([2, 0, 0, 0, 0, 1]), ip, ..FrameSpec::default() };
    lab::frame(&spec, if family == RouteFamily::V4 { 64 } else { 66 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_are_different_hosts_of_the_output_link() {
        for family in [RouteFamily::V4, RouteFamily::V6] {
            let all: std::collections::HashSet<_> =
                (0..NUM_GATEWAYS).map(|number| gateway(family, number)).collect();
            assert_eq!(all.len(), usize::from(NUM_GATEWAYS));
            assert!(!all.contains(&host(family, 1, 1)), "the router's own address");
        }
    }
}
