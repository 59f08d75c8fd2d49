//! Who is beyond a port: hardware addresses by IP address, and the frames that wait for one.
//!
//! RFC 1122, 2.3.2: addresses are asked for once a second at most, those not heard of for a minute
//! are asked for again while they are still used, and a frame that finds no address waits.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;

use slipring_wire::MacAddr;

const SECOND: u64 = 1_000_000_000;
/// Between two requests for the same address.
const RETRY_NS: u64 = SECOND;
/// Requests before it is given up.
const ATTEMPTS: u8 = 3;
/// How long an answer is believed.
const FRESH_NS: u64 = 60 * SECOND;
/// Frames that wait for one host at most: a millisecond at several Mpps.
const WAITING_PER_HOST: usize = 4096;
/// Frames that wait for all of them at most.
const WAITING: usize = 16_384;
/// Hosts that may be asked for at a time: a scan of a large subnet gets no further.
const ASKED_AT_A_TIME: usize = 4096;
/// Hosts known before those not heard of for long are forgotten.
const KNOWN_BEFORE_SWEEP: usize = 4096;

/// Who is to be asked: everyone, or the one who had the address.
pub(crate) type Ask<'a> = dyn FnMut(IpAddr, Option<MacAddr>) + 'a;

#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    known: BTreeMap<IpAddr, Known>,
    asked: BTreeMap<IpAddr, Asked>,
    waiting: usize,
    sweep_at: usize,
}

#[derive(Debug)]
struct Known {
    mac: MacAddr,
    fresh_until_ns: u64,
    /// Requests since then, and when the next one is due.
    doubt: Option<(u8, u64)>,
}

#[derive(Debug)]
struct Asked {
    requests: u8,
    next_ns: u64,
    frames: VecDeque<Vec<u8>>,
}

impl Neighbours {
    /// The hardware address of a neighbour, if it is known. One that is old is asked for on the
    /// side.
    pub(crate) fn find(&mut self, host: IpAddr, now_ns: u64, ask: &mut Ask<'_>) -> Option<MacAddr> {
        let known = self.known.get_mut(&host)?;
        if now_ns >= known.fresh_until_ns && known.doubt.is_none() {
            ask(host, Some(known.mac));
            known.doubt = Some((1, now_ns.saturating_add(RETRY_NS)));
        }
        Some(known.mac)
    }

    /// Keeps a frame for a neighbour that is not known, and asks for it. False where there are
    /// too many already.
    pub(crate) fn wait(
        &mut self,
        host: IpAddr,
        frame: &[u8],
        now_ns: u64,
        ask: &mut Ask<'_>,
    ) -> bool {
        let full = self.asked.len() >= ASKED_AT_A_TIME && !self.asked.contains_key(&host);
        if full || self.waiting >= WAITING {
            return false;
        }
        let asked = self.asked.entry(host).or_insert_with(|| {
            ask(host, None);
            let next_ns = now_ns.saturating_add(RETRY_NS);
            Asked { requests: 1, next_ns, frames: VecDeque::new() }
        });
        if asked.frames.len() >= WAITING_PER_HOST {
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
        let asked = self.asked.remove(&host);
        if told || asked.is_some() || self.known.contains_key(&host) {
            self.sweep(now_ns);
            let fresh_until_ns = now_ns.saturating_add(FRESH_NS);
            self.known.insert(host, Known { mac, fresh_until_ns, doubt: None });
        }
        let frames = asked.map(|asked| asked.frames).unwrap_or_default();
        self.waiting -= frames.len();
        frames
    }

    /// Asks again where that is due, and gives up where it was in vain; how many frames were lost
    /// by that.
    pub(crate) fn tick(&mut self, now_ns: u64, ask: &mut Ask<'_>) -> u64 {
        let mut lost = 0;
        self.asked.retain(|&host, asked| {
            let goes_on =
                again(&mut asked.requests, &mut asked.next_ns, now_ns, || ask(host, None));
            lost += if goes_on { 0 } else { asked.frames.len() };
            goes_on
        });
        self.known.retain(|&host, known| {
            let Some((requests, next_ns)) = &mut known.doubt else { return true };
            let mac = known.mac;
            again(requests, next_ns, now_ns, || ask(host, Some(mac)))
        });
        self.waiting -= lost;
        lost as u64
    }

    /// When [`Self::tick`] has something to do.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        let asked = self.asked.values().map(|asked| asked.next_ns);
        let doubted = self.known.values().filter_map(|known| known.doubt.map(|(_, next)| next));
        asked.chain(doubted).min()
    }

    /// Frames that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Forgets, now and then, whom nobody has heard of for long.
    fn sweep(&mut self, now_ns: u64) {
        if self.known.len() < self.sweep_at.max(KNOWN_BEFORE_SWEEP) {
            return;
        }
        self.known.retain(|_, known| now_ns < known.fresh_until_ns.saturating_add(FRESH_NS));
        self.sweep_at = self.known.len() * 2;
    }
}

/// One more request, if it is due; false when there were enough.
fn again(requests: &mut u8, next_ns: &mut u64, now_ns: u64, ask: impl FnOnce()) -> bool {
    if now_ns < *next_ns {
        return true;
    }
    if *requests >= ATTEMPTS {
        return false;
    }
    ask();
    *requests += 1;
    // From now, not from when it was due: a caller that was late does not make a burst.
    *next_ns = now_ns.saturating_add(RETRY_NS);
    true
}
