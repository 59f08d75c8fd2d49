//! Formats `pipe show`, `queue show` and `sched show`, identically to ipfw.
//!
//! ```text
//! 00001:  10.000 Mbit/s   20 ms burst 0
//! q131073  50 sl. 0 flows (1 buckets) sched 65537 weight 0 lmax 0 pri 0 droptail
//!  sched 65537 type FIFO flags 0x0 0 buckets 1 active
//! BKT Prot ___Source IP/port____ ____Dest. IP/port____ Tot_pkt/bytes Pkt/Byte Drp
//!   0 ip           0.0.0.0/0             0.0.0.0/0        4      384  0    0   0
//! ```
//!
//! The irregularities of ipfw's output are kept: a blank after the burst, no blank between size and
//! `plr`, and a single heading for all rows of a listing.

mod aqm;
mod number;

use alloc::string::String;
use core::fmt::Write;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::flow::{FlowMask, ShaperFlowId, ShaperFlowKey};
use crate::spec::{AqmSpec, PolicySpec, QueueLimit, SchedKind, ShaperLoss, ShaperRedSpec};

/// The link of a pipe or scheduler, as a listing shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkView {
    /// The number of the pipe or scheduler.
    pub number: u32,
    /// Bandwidth in bit/s; 0 means unlimited.
    pub bits_per_sec: u64,
    /// Delay in ns.
    pub delay_ns: u64,
    /// Maximum number of bytes that the link sends immediately after it was idle.
    pub burst_bytes: u64,
    /// The profile: its name, the index of the first entry for which packets are lost, and its
    /// number of entries. `None` if the link has no profile.
    pub profile: Option<(String, u32, u32)>,
}

/// A flowset as a listing shows it. It is a `queue N`, or the FIFO of a pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowsetView {
    /// Number of the flowset; above 131072 for the FIFO of a pipe.
    pub number: u32,
    /// Limits, losses and AQM.
    pub policy: PolicySpec,
    /// Number of queues that are in use; 0 for the FIFO of a pipe.
    pub flows: u32,
    /// Number of hash buckets, as configured or by default; 1 without a mask.
    pub buckets: u32,
    /// Number of the scheduler that the flowset belongs to.
    pub sched: u32,
    /// The values of `weight`, `lmax` and `pri`.
    pub share: [u32; 3],
    /// The mask that distinguishes the flows of the flowset.
    pub mask: FlowMask,
}

/// A scheduler, as a listing shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedView {
    /// Number of the scheduler; above 65536 for the FIFO scheduler of a pipe.
    pub number: u32,
    /// The scheduling algorithm.
    pub kind: SchedKind,
    /// dummynet's flags: 1 means that the scheduler has a mask.
    pub flags: u32,
    /// Number of hash buckets, as configured or by default; 0 without a mask.
    pub buckets: u32,
    /// Number of instances that are in use.
    pub active: u32,
    /// The mask that distinguishes the instances of the scheduler.
    pub mask: FlowMask,
}

/// A row of a listing. It stands for a queue, or for an instance of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRow {
    /// The low byte of the flow's hash.
    pub bucket: u8,
    /// The fields of the flow, after the mask was applied.
    pub id: ShaperFlowId,
    /// Number of packets that have arrived so far.
    pub packets: u64,
    /// Number of bytes that have arrived so far.
    pub bytes: u64,
    /// Number of packets that wait now.
    pub waiting: u32,
    /// Number of bytes that wait now.
    pub waiting_bytes: u64,
    /// Number of packets lost so far.
    pub drops: u64,
}

/// A pipe, as `pipe show` lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeView {
    /// The link of the pipe.
    pub link: LinkView,
    /// The flowset of the pipe's FIFO.
    pub flowset: FlowsetView,
    /// The scheduler of the pipe's FIFO.
    pub sched: SchedView,
    /// One row for each instance of the pipe's FIFO scheduler.
    pub flows: alloc::vec::Vec<FlowRow>,
}

/// A queue, as `queue show` lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShaperQueueView {
    /// The flowset of the queue.
    pub flowset: FlowsetView,
    /// One row for each flow of the queue; none if its scheduler is a FIFO or has flow queueing.
    pub flows: alloc::vec::Vec<FlowRow>,
}

/// A scheduler, as `sched show` lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedListing {
    /// The link of the scheduler.
    pub link: LinkView,
    /// The scheduler itself.
    pub sched: SchedView,
    /// The numbers of the flowsets that use the scheduler.
    pub children: alloc::vec::Vec<u32>,
    /// One row for each instance of the scheduler.
    pub flows: alloc::vec::Vec<FlowRow>,
}

/// The counter by which the rows of each object are sorted, as in the argument of ipfw's `-s`: 1
/// means waiting packets, 2 waiting bytes, 3 received packets, 4 received bytes. A positive number
/// sorts in descending order, a negative one in ascending order. 0 keeps the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowOrder(pub i32);

impl RowOrder {
    pub(crate) fn sort(self, rows: &mut [FlowRow]) {
        let counter = |row: &FlowRow| match self.0.unsigned_abs() {
            1 => row.waiting.into(),
            2 => row.waiting_bytes,
            3 => row.packets,
            4 => row.bytes,
            _ => 0,
        };
        if self.0 < 0 {
            rows.sort_by_key(counter);
        } else {
            rows.sort_by_key(|row| core::cmp::Reverse(counter(row)));
        }
    }
}

/// A function that returns the name of a protocol, such as `tcp` for 6; `None` if the protocol has
/// no name.
pub type ProtocolName = fn(u8) -> Option<&'static str>;

/// The contents of a listing.
#[derive(Clone, Debug, PartialEq)]
pub enum ShaperListing {
    /// The listing of `pipe show`.
    Pipes(alloc::vec::Vec<PipeView>),
    /// The listing of `queue show`.
    Queues(alloc::vec::Vec<ShaperQueueView>),
    /// The listing of `sched show`.
    Scheds(alloc::vec::Vec<SchedListing>),
}

impl ShaperListing {
    /// Formats the listing as ipfw prints it. Calls `protocol` for the names of protocols.
    #[must_use]
    pub fn text(&self, protocol: ProtocolName) -> String {
        match self {
            Self::Pipes(all) => pipes(all, protocol),
            Self::Queues(all) => queues(all, protocol),
            Self::Scheds(all) => scheds(all, protocol),
        }
    }
}

/// Formats the listing of `pipe show`.
#[must_use]
pub fn pipes(pipes: &[PipeView], protocol: ProtocolName) -> String {
    let mut page = ListingPrinter::new(protocol);
    for pipe in pipes {
        page.link(&pipe.link);
        page.flowset(&pipe.flowset);
        page.sched(&pipe.sched);
        page.rows(&pipe.flows);
    }
    page.text
}

/// Formats the listing of `queue show`.
#[must_use]
pub fn queues(queues: &[ShaperQueueView], protocol: ProtocolName) -> String {
    let mut page = ListingPrinter::new(protocol);
    for queue in queues {
        page.flowset(&queue.flowset);
        page.rows(&queue.flows);
    }
    page.text
}

/// Formats the listing of `sched show`.
#[must_use]
pub fn scheds(scheds: &[SchedListing], protocol: ProtocolName) -> String {
    let mut page = ListingPrinter::new(protocol);
    for sched in scheds {
        page.link(&sched.link);
        page.sched(&sched.sched);
        page.children(&sched.children);
        page.rows(&sched.flows);
    }
    page.text
}

struct ListingPrinter {
    text: String,
    protocol: ProtocolName,
    has_heading: bool,
}

macro_rules! say {
    ($page:expr, $($arg:tt)*) => {
        // Writing to a String cannot fail.
        _ = write!($page.text, $($arg)*)
    };
}

impl ListingPrinter {
    const fn new(protocol: ProtocolName) -> Self {
        Self { text: String::new(), protocol, has_heading: false }
    }

    fn link(&mut self, link: &LinkView) {
        let rate = number::rate(link.bits_per_sec);
        let delay = number::milliseconds(link.delay_ns);
        let burst = number::humanized(link.burst_bytes);
        say!(self, "{:05}: {rate} {delay:>4} ms burst {burst}\n", link.number);
        if let Some((name, first_lost, samples)) = &link.profile {
            let loss = f64::from(*first_lost) / f64::from(*samples);
            say!(self, "\t profile: name \"{name}\" loss {loss:.6} samples {samples}\n");
        }
    }

    fn flowset(&mut self, flowset: &FlowsetView) {
        say!(self, "q{:05} ", flowset.number);
        match flowset.policy.limit {
            QueueLimit::Slots(slots) => say!(self, "{slots:3} sl."),
            QueueLimit::Bytes(bytes) if bytes >= 8192 => say!(self, "{} KB", bytes / 1024),
            QueueLimit::Bytes(bytes) => say!(self, "{bytes} B"),
        }
        self.loss(flowset.policy.loss);
        let [weight, lmax, pri] = flowset.share;
        let FlowsetView { flows, buckets, sched, .. } = flowset;
        say!(self, " {flows} flows ({buckets} buckets) sched {sched} ");
        say!(self, "weight {weight} lmax {lmax} pri {pri} ");
        self.aqm(&flowset.policy.aqm);
        say!(self, "\n");
        self.mask(&flowset.mask);
    }

    fn loss(&mut self, loss: ShaperLoss) {
        let p = |loss: u32| f64::from(loss) / f64::from(ShaperLoss::SCALE);
        match loss {
            ShaperLoss::None => {}
            ShaperLoss::Uniform(loss) => say!(self, "plr {:.6}", p(loss)),
            ShaperLoss::GilbertElliott { good, to_bad, bad, to_good } => {
                let [good, to_bad, bad, to_good] = [good, to_bad, bad, to_good].map(p);
                say!(self, "plr {good:.6},{to_bad:.6},{bad:.6},{to_good:.6}");
            }
        }
    }

    fn aqm(&mut self, aqm: &AqmSpec) {
        match aqm {
            AqmSpec::DropTail => say!(self, "droptail"),
            AqmSpec::Red(red) => self.red(red),
            AqmSpec::CoDel(codel) => say!(self, " AQM CoDel {}", aqm::codel(codel)),
            AqmSpec::Pie(pie) => say!(self, " AQM type PIE {}", aqm::pie(pie, "")),
        }
    }

    fn red(&mut self, red: &ShaperRedSpec) {
        let p = |value: u32| f64::from(value) / f64::from(ShaperRedSpec::SCALE);
        let kind = if red.gentle { 'G' } else { ' ' };
        say!(self, "\n\t {kind}RED w_q {:.6} min_th {} ", p(red.weight), red.min);
        say!(self, "max_th {} max_p {:.6}", red.max, p(red.max_p));
        say!(self, "{}", if red.ecn { " (ecn)" } else { "" });
    }

    fn sched(&mut self, sched: &SchedView) {
        let SchedView { number, kind, flags, buckets, active, .. } = sched;
        say!(self, " sched {number} type {} flags {flags:#x} ", kind.name());
        say!(self, "{buckets} buckets {active} active\n");
        match kind {
            SchedKind::FqCodel(fair, codel) => {
                let codel_text = aqm::times(codel);
                let ecn = aqm::ecn(codel.ecn);
                say!(self, " FQ_CODEL {codel_text}{} {ecn}\n", aqm::fair(fair));
            }
            SchedKind::FqPie(fair, pie) => {
                say!(self, "  FQ_PIE {}\n", aqm::pie(pie, &aqm::fair(fair)));
            }
            _ => {}
        }
        self.mask(&sched.mask);
    }

    fn children(&mut self, children: &[u32]) {
        if children.is_empty() {
            return;
        }
        say!(self, "   Children flowsets: ");
        for child in children {
            say!(self, "{child} ");
        }
        say!(self, "\n");
    }

    fn mask(&mut self, mask: &FlowMask) {
        if mask.is_none() {
            return;
        }
        let queue = if mask.queue { "queue," } else { "" };
        let FlowMask { proto, src_port, dst_port, src4, dst4, flow_label, .. } = mask;
        if mask.shown_as_v6 {
            let (src, dst) = (Ipv6Addr::from(mask.src6), Ipv6Addr::from(mask.dst6));
            say!(self, "\n        mask: {queue}proto: 0x{proto:02x}, ");
            say!(self, "flow_id: 0x{flow_label:08x},  ");
            say!(self, "{src}/0x{src_port:04x} -> {dst}/0x{dst_port:04x}\n");
        } else {
            say!(self, "    mask: {queue} 0x{proto:02x} ");
            say!(self, "0x{src4:08x}/0x{src_port:04x} -> 0x{dst4:08x}/0x{dst_port:04x}\n");
        }
    }

    fn rows(&mut self, rows: &[FlowRow]) {
        for row in rows {
            if !core::mem::replace(&mut self.has_heading, true) {
                self.heading(row.id.key.is_v6);
            }
            self.row(row);
        }
    }

    fn heading(&mut self, is_v6: bool) {
        let columns = if is_v6 {
            "BKT ___Prot___ _flow-id_ ______________Source IPv6/port_______________ \
             _______________Dest. IPv6/port_______________ "
        } else {
            "BKT Prot ___Source IP/port____ ____Dest. IP/port____ "
        };
        say!(self, "{columns}Tot_pkt/bytes Pkt/Byte Drp\n");
    }

    fn row(&mut self, row: &FlowRow) {
        let ShaperFlowKey { is_v6, proto, src_port, dst_port, flow_label, src, dst } = row.id.key;
        say!(self, "{:3}{}", row.bucket, if row.id.queue == 0 { ' ' } else { '*' });
        let name = (self.protocol)(proto);
        if is_v6 {
            let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::from(dst));
            match name {
                Some(name) => say!(self, "{name:>9} "),
                None => say!(self, "{proto:9} "),
            }
            say!(self, "{flow_label:7}  {src:>39}/{src_port:<5}  {dst:>39}/{dst_port:<5} ");
        } else {
            let (src, dst) = (Ipv4Addr::from(src as u32), Ipv4Addr::from(dst as u32));
            match name {
                Some(name) => say!(self, "{name:<4} "),
                None => say!(self, "{proto:4} "),
            }
            say!(self, "{src:>15}/{src_port:<5} {dst:>15}/{dst_port:<5} ");
        }
        let FlowRow { packets, bytes, waiting, waiting_bytes, drops, .. } = row;
        say!(self, "{packets:4} {bytes:8} {waiting:2} {waiting_bytes:4} {drops:3}\n");
    }
}

#[cfg(test)]
mod tests;
