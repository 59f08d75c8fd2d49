//! The neighbours of a port: MAC addresses by IP address, and frames that wait for one.
//!
//! According to RFC 1122, 2.3.2: an address is requested at most once a second; an address that
//! was not confirmed for a minute is requested again while it is in use; and a frame without an
//! address waits.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_wire::MacAddr;

const NS_PER_SEC: u64 = 1_000_000_000;
/// Time between two requests for the same address.
const RETRY_INTERVAL_NS: u64 = NS_PER_SEC;
/// Maximum number of requests before the address counts as unreachable.
const MAX_REQUESTS: u8 = 3;
/// How long an answer is valid.
const REACHABLE_TIME_NS: u64 = 60 * NS_PER_SEC;
/// Maximum number of waiting frames per host: a millisecond at several Mpps.
const MAX_WAITING_PER_HOST: usize = 4096;
/// Maximum number of waiting frames for all hosts.
const MAX_WAITING: usize = 16_384;
/// Maximum number of concurrent requests, which stops scans of large subnets.
const MAX_PENDING_RESOLUTIONS: usize = 4096;
/// Number of known hosts above which old ones are forgotten.
const SWEEP_THRESHOLD: usize = 4096;

/// Sends a request for an address: to all hosts, or to the host that had it.
pub(crate) type SolicitFn<'a> = dyn FnMut(IpAddr, Option<MacAddr>) + 'a;

#[derive(Debug, Default)]
pub(crate) struct NeighbourTable {
    entries: BTreeMap<IpAddr, NeighbourEntry>,
    pending: BTreeMap<IpAddr, PendingResolution>,
    waiting: usize,
    sweep_at: usize,
}

#[derive(Debug)]
struct NeighbourEntry {
    mac: MacAddr,
    fresh_until_ns: u64,
    /// Number of requests since then, and when the next one is due.
    probe: Option<(u8, u64)>,
}

#[derive(Debug)]
struct PendingResolution {
    requests: u8,
    next_ns: u64,
    frames: VecDeque<Vec<u8>>,
}

impl NeighbourTable {
    /// The MAC address of a neighbour, if it is known. If it is old, a request is sent as well.
    pub(crate) fn resolve(
        &mut self,
        host: IpAddr,
        now_ns: u64,
        ask: &mut SolicitFn<'_>,
    ) -> Option<MacAddr> {
        let known = self.entries.get_mut(&host)?;
        if now_ns >= known.fresh_until_ns && known.probe.is_none() {
            ask(host, Some(known.mac));
            known.probe = Some((1, now_ns.saturating_add(RETRY_INTERVAL_NS)));
        }
        Some(known.mac)
    }

    /// Queues a frame for an unknown neighbour, and requests its address. Returns `false` if too
    /// many frames are queued already.
    pub(crate) fn enqueue(
        &mut self,
        host: IpAddr,
        frame: &[u8],
        now_ns: u64,
        ask: &mut SolicitFn<'_>,
    ) -> bool {
        let full =
            self.pending.len() >= MAX_PENDING_RESOLUTIONS && !self.pending.contains_key(&host);
        if full || self.waiting >= MAX_WAITING {
            return false;
        }
        let asked = self.pending.entry(host).or_insert_with(|| {
            ask(host, None);
            let next_ns = now_ns.saturating_add(RETRY_INTERVAL_NS);
            PendingResolution { requests: 1, next_ns, frames: VecDeque::new() }
        });
        if asked.frames.len() >= MAX_WAITING_PER_HOST {
            return false;
        }
        asked.frames.push_back(frame.to_vec());
        self.waiting += 1;
        true
    }

    /// Records a neighbour's address; `told` is true if its message was to us. Returns the frames
    /// that waited.
    pub(crate) fn learn(
        &mut self,
        host: IpAddr,
        mac: MacAddr,
        told: bool,
        now_ns: u64,
    ) -> VecDeque<Vec<u8>> {
        if mac.is_multicast() || mac == MacAddr::ZERO {
            return VecDeque::new();
        }
        let asked = self.pending.remove(&host);
        if told || asked.is_some() || self.entries.contains_key(&host) {
            self.sweep(now_ns);
            let fresh_until_ns = now_ns.saturating_add(REACHABLE_TIME_NS);
            self.entries.insert(host, NeighbourEntry { mac, fresh_until_ns, probe: None });
        }
        let frames = asked.map(|asked| asked.frames).unwrap_or_default();
        self.waiting -= frames.len();
        frames
    }

    /// Repeats due requests, and gives up after too many. Returns how many frames were lost
    /// by that.
    pub(crate) fn tick(&mut self, now_ns: u64, ask: &mut SolicitFn<'_>) -> u64 {
        let mut lost = 0;
        self.pending.retain(|&host, asked| {
            let goes_on =
                retry(&mut asked.requests, &mut asked.next_ns, now_ns, || ask(host, None));
            lost += if goes_on { 0 } else { asked.frames.len() };
            goes_on
        });
        self.entries.retain(|&host, known| {
            let Some((requests, next_ns)) = &mut known.probe else { return true };
            let mac = known.mac;
            retry(requests, next_ns, now_ns, || ask(host, Some(mac)))
        });
        self.waiting -= lost;
        lost as u64
    }

    /// When [`Self::tick`] is needed next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let asked = self.pending.values().map(|asked| asked.next_ns);
        let doubted = self.entries.values().filter_map(|known| known.probe.map(|(_, next)| next));
        asked.chain(doubted).min()
    }

    /// The number of waiting frames.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Occasionally forgets hosts that have been silent for long.
    fn sweep(&mut self, now_ns: u64) {
        if self.entries.len() < self.sweep_at.max(SWEEP_THRESHOLD) {
            return;
        }
        self.entries
            .retain(|_, known| now_ns < known.fresh_until_ns.saturating_add(REACHABLE_TIME_NS));
        self.sweep_at = self.entries.len() * 2;
    }
}

/// Sends one more request if it is due; returns `false` after the last one.
fn retry(requests: &mut u8, next_ns: &mut u64, now_ns: u64, ask: impl FnOnce()) -> bool {
    if now_ns < *next_ns {
        return true;
    }
    if *requests >= MAX_REQUESTS {
        return false;
    }
    ask();
    *requests += 1;
    // Counted from now, not from the due time, so that a late caller does not cause a burst.
    *next_ns = now_ns.saturating_add(RETRY_INTERVAL_NS);
    true
}
