//! Who is beyond a port: hardware addresses by IP address, and the frames that wait for one.
//!
//! RFC 1122, 2.3.2: addresses are asked for once a second at most, those not heard of for a minute
//! are asked for again while they are still used, and a frame that finds no address waits.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_wire::MacAddr;

const NS_PER_SEC: u64 = 1_000_000_000;
/// Between two requests for the same address.
const RETRY_INTERVAL_NS: u64 = NS_PER_SEC;
/// Requests before it is given up.
const MAX_REQUESTS: u8 = 3;
/// How long an answer is believed.
const REACHABLE_TIME_NS: u64 = 60 * NS_PER_SEC;
/// Frames that wait for one host at most: a millisecond at several Mpps.
const MAX_WAITING_PER_HOST: usize = 4096;
/// Frames that wait for all of them at most.
const MAX_WAITING: usize = 16_384;
/// Hosts that may be asked for at a time: a scan of a large subnet gets no further.
const MAX_PENDING_RESOLUTIONS: usize = 4096;
/// Hosts known before those not heard of for long are forgotten.
const SWEEP_THRESHOLD: usize = 4096;

/// Who is to be asked: everyone, or the one who had the address.
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
    /// Requests since then, and when the next one is due.
    probe: Option<(u8, u64)>,
}

#[derive(Debug)]
struct PendingResolution {
    requests: u8,
    next_ns: u64,
    frames: VecDeque<Vec<u8>>,
}

impl NeighbourTable {
    /// The hardware address of a neighbour, if it is known. One that is old is asked for on the
    /// side.
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

    /// Keeps a frame for a neighbour that is not known, and asks for it. False where there are
    /// too many already.
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

    /// A neighbour said who it is; `told` if it spoke to us. Returns the frames that waited.
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

    /// Asks again where that is due, and gives up where it was in vain; how many frames were lost
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

    /// When [`Self::tick`] has something to do.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let asked = self.pending.values().map(|asked| asked.next_ns);
        let doubted = self.entries.values().filter_map(|known| known.probe.map(|(_, next)| next));
        asked.chain(doubted).min()
    }

    /// Frames that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Forgets, now and then, whom nobody has heard of for long.
    fn sweep(&mut self, now_ns: u64) {
        if self.entries.len() < self.sweep_at.max(SWEEP_THRESHOLD) {
            return;
        }
        self.entries
            .retain(|_, known| now_ns < known.fresh_until_ns.saturating_add(REACHABLE_TIME_NS));
        self.sweep_at = self.entries.len() * 2;
    }
}

/// One more request, if it is due; false when there were enough.
fn retry(requests: &mut u8, next_ns: &mut u64, now_ns: u64, ask: impl FnOnce()) -> bool {
    if now_ns < *next_ns {
        return true;
    }
    if *requests >= MAX_REQUESTS {
        return false;
    }
    ask();
    *requests += 1;
    // From now, not from when it was due: a caller that was late does not make a burst.
    *next_ns = now_ns.saturating_add(RETRY_INTERVAL_NS);
    true
}
