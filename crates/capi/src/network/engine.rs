//! Implements the functions on networks.

use std::ffi::{CString, c_int};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use slipring_cli::{Diagnose, Diagnostic};
use slipring_emulation::LinkSettings;
use slipring_link::{EntryId, FrameArrival, FrameHandle, LinkDropCause, LinkId, Network};

use crate::error::{CallError, c_text};
use crate::frame_store::LinkFrameStore;
use crate::structs::{
    SLIPRING_ENTRIES, SLIPRING_ERR_DEFECT, SLIPRING_ERR_USAGE, SLIPRING_EXITS, SLIPRING_LINKS,
    SLIPRING_NETWORK_EARLY, SLIPRING_NETWORK_LOSSES, SLIPRING_NEVER, SlipringDelivery,
    SlipringLinkStats, SlipringLoss, SlipringNetworkOptions,
};

/// Default maximum number of stored bytes.
const DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// A network of emulated links. In C, it is `struct slipring_network`.
pub struct NetworkHandle {
    names: [Vec<CString>; 3],
    run: Mutex<NetworkRun>,
}

struct NetworkRun {
    network: Network,
    store: LinkFrameStore,
    /// The latest time that was passed to this network. No frame may arrive before it.
    now_ns: u64,
    /// The frame that the last call of [`take`] has returned; `None` if it has returned none. The
    /// frame is kept until the next call, because the caller may still read it.
    shown: Option<FrameHandle>,
}

/// Creates a network from the links in a file.
pub(crate) fn load(
    path: &str,
    options: &SlipringNetworkOptions,
) -> Result<NetworkHandle, CallError> {
    NetworkHandle::new(&LinkSettings::open(Path::new(path)).map_err(refused)?, options)
}

/// Creates a network from the links in a text.
pub(crate) fn parse(
    text: &str,
    options: &SlipringNetworkOptions,
) -> Result<NetworkHandle, CallError> {
    NetworkHandle::new(&LinkSettings::parse(text).map_err(refused)?, options)
}

fn refused(failure: Diagnostic) -> CallError {
    let mut error = CallError::new(SLIPRING_ERR_USAGE, failure.summary());
    if let Some(cause) = failure.cause() {
        error.message += &format!(": {cause}");
    }
    error.code = failure.code().to_string();
    error.help = failure.help().unwrap_or_default();
    error
}

impl NetworkHandle {
    fn new(settings: &LinkSettings, options: &SlipringNetworkOptions) -> Result<Self, CallError> {
        if options.flags & !(SLIPRING_NETWORK_EARLY | SLIPRING_NETWORK_LOSSES) != 0 {
            return Err(CallError::argument(format!("flags {:#x} of the network", options.flags)));
        }
        let SlipringNetworkOptions { flags, seed, start_ns, max_bytes, .. } = *options;
        let seed = settings.seed.unwrap_or(seed);
        let impossible = |what: String| CallError::new(SLIPRING_ERR_USAGE, what);
        let mut network = Network::starting_at(&settings.network, seed, start_ns)
            .map_err(|error| impossible(error.to_string()))?;
        for (at_ns, changed) in &settings.changes {
            let change = network.change(start_ns.saturating_add(*at_ns), changed);
            change.map_err(|error| impossible(error.to_string()))?;
        }
        network.deliver_early(flags & SLIPRING_NETWORK_EARLY != 0);
        let max_bytes = if max_bytes == 0 { DEFAULT_MAX_BYTES } else { max_bytes };
        let names = |names: &[String]| names.iter().map(|name| c_text(name)).collect();
        let links = settings.network.links.iter().map(|link| c_text(&link.spec.name));
        let run = NetworkRun {
            network,
            store: LinkFrameStore::new(max_bytes, flags & SLIPRING_NETWORK_LOSSES != 0),
            now_ns: start_ns,
            shown: None,
        };
        Ok(Self {
            names: [
                names(&settings.network.entries),
                names(&settings.network.exits),
                links.collect(),
            ],
            run: Mutex::new(run),
        })
    }

    fn run(&self) -> Result<MutexGuard<'_, NetworkRun>, CallError> {
        self.run.lock().map_err(|_| {
            let what = "the network met a defect of libslipring before: free it";
            CallError::new(SLIPRING_ERR_DEFECT, what)
        })
    }

    fn list(&self, what: u32) -> Result<&[CString], CallError> {
        match what {
            SLIPRING_ENTRIES | SLIPRING_EXITS | SLIPRING_LINKS => Ok(&self.names[what as usize]),
            _ => Err(CallError::argument(format!("a network has no list {what}"))),
        }
    }

    fn link(&self, link: u32) -> Result<LinkId, CallError> {
        let count = self.names[SLIPRING_LINKS as usize].len();
        if (link as usize) < count {
            return Ok(LinkId(link));
        }
        Err(CallError::argument(format!(
            "the network has {count} links, and none with number {link}"
        )))
    }
}

/// Returns the number of entries, exits or links.
pub(crate) fn count(network: &NetworkHandle, what: u32) -> Result<c_int, CallError> {
    Ok(network.list(what)?.len() as c_int)
}

/// Returns the name of an entry, exit or link.
pub(crate) fn name(network: &NetworkHandle, what: u32, index: u32) -> Result<&CString, CallError> {
    let list = network.list(what)?;
    list.get(index as usize)
        .ok_or_else(|| CallError::argument(format!("there is no number {index}")))
}

/// Returns the number of the entry, exit or link with this name.
pub(crate) fn find(network: &NetworkHandle, what: u32, wanted: &str) -> Result<c_int, CallError> {
    let list = network.list(what)?;
    let index = list.iter().position(|name| name.to_bytes() == wanted.as_bytes());
    let index = index.ok_or_else(|| {
        let names: Vec<_> = list.iter().map(|name| name.to_string_lossy()).collect();
        let mut error = CallError::new(SLIPRING_ERR_USAGE, format!("there is no `{wanted}`"));
        error.help = format!("there are: {}", names.join(", "));
        error
    })?;
    Ok(index as c_int)
}

/// Pushes a frame into the network. Returns 1, or 0 if the frame store is full.
pub(crate) fn push(
    network: &NetworkHandle,
    entry: u32,
    arrival_ns: u64,
    (frame, len): (&[u8], u32),
    tag: u64,
) -> Result<c_int, CallError> {
    let entries = network.names[SLIPRING_ENTRIES as usize].len();
    let entry = u16::try_from(entry).ok().filter(|entry| usize::from(*entry) < entries);
    let entry = entry.ok_or_else(|| CallError::argument("there is no such entry"))?;
    let mut run = network.run()?;
    let NetworkRun { network, store, now_ns, .. } = &mut *run;
    if arrival_ns < *now_ns {
        let why = format!("a frame arrives at {arrival_ns} ns, and it is {now_ns} ns already");
        return Err(CallError::argument(why));
    }
    let Some(handle) = store.store(frame, tag, arrival_ns) else { return Ok(0) };
    *now_ns = arrival_ns;
    network.push(EntryId(entry), &[FrameArrival { arrival_ns, handle, len }], store);
    Ok(1)
}

/// Processes all due events.
pub(crate) fn run(network: &NetworkHandle, now_ns: u64) -> Result<c_int, CallError> {
    let mut run = network.run()?;
    let NetworkRun { network, store, now_ns: last_ns, .. } = &mut *run;
    *last_ns = now_ns.max(*last_ns);
    network.run(*last_ns, store);
    Ok(0)
}

/// Returns the time at which [`run`] must be called next, in ns of the caller's clock.
pub(crate) fn next(network: &NetworkHandle) -> Result<u64, CallError> {
    Ok(network.run()?.network.next_ns().unwrap_or(SLIPRING_NEVER))
}

/// Takes the next frame that leaves the network. Its bytes stay valid until the next call of this
/// function.
pub(crate) fn take(network: &NetworkHandle) -> Result<Option<SlipringDelivery>, CallError> {
    let mut run = network.run()?;
    if let Some(before) = run.shown.take() {
        run.store.release(before);
    }
    let Some((delivery, tag, remaining)) = run.store.take_delivery() else { return Ok(None) };
    run.shown = Some(delivery.handle);
    let frame = run.store.get(delivery.handle);
    Ok(Some(SlipringDelivery {
        size: 0,
        exit: delivery.exit.0.into(),
        link: delivery.link.0,
        len: delivery.len,
        release_ns: delivery.release_ns,
        arrival_ns: frame.arrival_ns,
        tag,
        data: frame.bytes.as_ptr(),
        data_len: frame.bytes.len() as u64,
        remaining,
        reserved: 0,
    }))
}

/// Takes the next lost frame; `None` if there is none.
pub(crate) fn take_loss(network: &NetworkHandle) -> Result<Option<SlipringLoss>, CallError> {
    let Some((lost, tag, remaining)) = network.run()?.store.take_loss() else { return Ok(None) };
    Ok(Some(SlipringLoss {
        size: 0,
        cause: lost.cause as u32,
        link: lost.link.map_or(u32::MAX, |link| link.0),
        len: lost.len,
        at_ns: lost.at_ns,
        tag,
        remaining,
        reserved: 0,
    }))
}

/// Returns the counters of a link.
pub(crate) fn link_stats(
    network: &NetworkHandle,
    link: u32,
) -> Result<SlipringLinkStats, CallError> {
    let seen = network.run()?.network.counters(network.link(link)?);
    let dropped = seen.drops.total();
    Ok(SlipringLinkStats {
        size: 0,
        reserved: 0,
        input_packets: seen.input.packets,
        input_bytes: seen.input.bytes,
        copied_packets: seen.copies.packets,
        copied_bytes: seen.copies.bytes,
        output_packets: seen.output.packets,
        output_bytes: seen.output.bytes,
        dropped_packets: dropped.packets,
        dropped_bytes: dropped.bytes,
        in_flight_packets: seen.in_flight.packets,
        in_flight_bytes: seen.in_flight.bytes,
        marked_packets: seen.marked.packets,
        corrupted_packets: seen.corrupted.packets,
    })
}

fn cause(number: u32) -> Result<LinkDropCause, CallError> {
    let cause = LinkDropCause::ALL.get(number as usize).copied();
    cause.ok_or_else(|| CallError::argument(format!("there is no cause {number}")))
}

/// Returns how many frames a link has lost for one cause.
pub(crate) fn link_dropped(
    network: &NetworkHandle,
    link: u32,
    number: u32,
) -> Result<u64, CallError> {
    let cause = cause(number)?;
    Ok(network.run()?.network.counters(network.link(link)?).drops[cause].packets)
}

/// Returns the name of a cause of losses.
pub(crate) fn cause_name(number: u32) -> Result<&'static str, CallError> {
    cause(number).map(LinkDropCause::as_str)
}
