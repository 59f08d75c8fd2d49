//! The virtual clock: captures in, captures out, exact and as fast as possible.
//!
//! ```text
//!   IN   -> input (a thread decodes ahead) -> feed -> network -> carrier -> output -> OUT
//!   IN2  -> input                          -> feed ->                    -> output -> OUT2
//!                                                                        -> logs   -> LOG
//! ```
//!
//! OUT contains the surviving frames of IN in order of time, from all exits.
//!
//! The engine's clock is that of the captures. It starts with the earliest frame of all captures. A
//! frame arrives when it was captured; if its timestamp is earlier than its predecessor's, it
//! arrives together with the predecessor. Frames leave at their release times, in whole
//! nanoseconds, never early. The same input and seed yield the same bytes on every machine, in any
//! format of the input.
//!
//! Memory holds little more than the chunks that have frames inside the links; frames are not
//! copied between input and output.
//!
//! Not for: ports. This module needs no privileges and reads no clock.

mod carrier;
pub(crate) mod chunk;
pub(crate) mod input;
pub(crate) mod input_feed;
pub(crate) mod job;
pub(crate) mod output;
#[cfg(test)]
mod tests;

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_link::{EntryId, LinkSource, LinkTarget, Network, NetworkSpec, PacketCounts};

use super::account::{EmulationAccount, EntryAccount, ExitAccount};
use super::report::mahimahi::MahimahiLog;
use super::report::measurement::LinkMeasurement;
use super::report::packets::{PacketLog, PortTotals};
use super::store::storage_bytes;
use carrier::{OfflineCarrier, OfflineLogs};
use chunk::ChunkTable;
use input::CaptureInput;
use input_feed::{EnteringFrames, InputFeed};
use output::CaptureOutput;

/// A run in virtual time: its links, captures and logs.
pub struct VirtualRun<'p> {
    /// The links at the start of the run.
    pub network: &'p NetworkSpec,
    /// Changes of the links: time since the start in ns, and the new network, in order of time.
    pub changes: Vec<(u64, NetworkSpec)>,
    /// The seed of every random stream.
    pub seed: u64,
    /// Frames captured this many ns or more after the first frame are omitted; `None` for no
    /// limit.
    pub duration_ns: Option<u64>,
    /// The captures: frames of the first one enter at the first entry of the network.
    pub directions: Vec<CaptureDirection>,
    /// Path of the packet log; `None` if there is none.
    pub log: Option<String>,
    /// Path prefix of the logs in mahimahi's format; `None` if there are none.
    pub mahimahi: Option<String>,
    /// The command line, for the headers of the logs.
    pub command: String,
}

/// An input capture, and the output for its surviving frames.
pub struct CaptureDirection {
    /// The capture to read.
    pub input: CaptureInput,
    /// The function that changes the timestamps of the input's frames; `None` if they stay
    /// unchanged.
    pub retime: Option<input_feed::TimestampAdjuster>,
    /// Path of the capture file to write.
    pub output: String,
}

/// The result of a run.
pub struct VirtualResult {
    /// The frame counts.
    pub account: EmulationAccount,
    /// Measurements per link.
    pub measured: Vec<LinkMeasurement>,
    /// Time from the first arrival to the last departure or loss, in ns.
    pub elapsed_ns: u64,
    /// The links with the settings that applied at the end.
    pub network: NetworkSpec,
    /// Whether the run was stopped before the end of the captures.
    pub stopped: bool,
}

impl VirtualResult {
    /// Returns remarks that the link reports do not contain, such as refused frames; each remark
    /// starts with a line break.
    pub fn remarks(&self) -> String {
        let mut text = String::new();
        for (name, entry) in self.network.entries.iter().zip(&self.account.entries) {
            let refused = entry.refused.iter().filter(|(_, tally)| tally.packets > 0);
            for (cause, PacketCounts { packets, .. }) in refused {
                text += &format!("\n{name}: {packets} frames were refused ({cause})");
            }
            if let Some(unordered) = entry.unordered.filter(|unordered| *unordered > 0) {
                text += &format!(
                    "\n{name}: {unordered} frames are stamped before their predecessors \
                     and arrived together with them"
                );
            }
        }
        if self.stopped {
            text += "\nSTOPPED before the end of the captures: what was written is a part of all";
        }
        text
    }
}

impl VirtualRun<'_> {
    /// Runs until the captures or the duration have ended, or `stop` returns true; then lets all
    /// frames that have arrived leave the links.
    ///
    /// # Errors
    /// [`Failure`] if a capture is damaged, a file cannot be read or written, the network cannot be
    /// built, or its frames need too much memory.
    pub fn run(mut self, stop: impl Fn() -> bool) -> Result<VirtualResult, Failure> {
        let mut network = Network::new(self.network, self.seed).map_err(|error| unfit(&error))?;
        for (at_ns, changed) in &self.changes {
            network.change(*at_ns, changed).map_err(|error| unfit(&error))?;
        }
        // The start of each input is read before any output is created: an unreadable input must
        // not overwrite the output of an earlier run.
        self.directions.iter_mut().try_for_each(|direction| direction.input.begin())?;
        let hub = self.carrier()?;
        let until_ns = self.duration_ns;
        let feeds = self.directions.into_iter().enumerate().map(|(index, direction)| {
            InputFeed::new(direction.input, EntryId(index as u16), direction.retime, index)
        });
        let feeds = feeds.collect();
        let mut run = VirtualLoop {
            network,
            carrier: hub,
            feeds,
            entering: EnteringFrames::default(),
            until_ns,
        };
        run.begin()?;
        let mut stopped = stop();
        while !stopped && run.step()? {
            stopped = stop();
        }
        run.finish()?;
        let begun = self.changes.into_iter().take_while(|(at_ns, _)| *at_ns <= run.carrier.end_ns);
        let network = begun.last().map_or_else(|| self.network.clone(), |(_, changed)| changed);
        Ok(run.into_result(network, stopped))
    }

    fn carrier(&self) -> Result<OfflineCarrier, Failure> {
        let output = |(entry, direction): (usize, &CaptureDirection)| {
            CaptureOutput::create(&direction.output, &exits_of(self.network, entry))
        };
        let links = self.network.links.iter();
        Ok(OfflineCarrier {
            chunks: ChunkTable::within(storage_bytes()),
            sent: vec![PacketCounts::default(); self.network.exits.len()],
            outputs: self.directions.iter().enumerate().map(output).collect::<Result<_, _>>()?,
            unrouted: Default::default(),
            measured: links.map(|_| LinkMeasurement::new(u64::MAX)).collect(),
            hop_times: Default::default(),
            logs: self.logs()?,
            base_ns: 0,
            end_ns: 0,
            emptied: Vec::new(),
            failure: None,
        })
    }

    fn logs(&self) -> Result<OfflineLogs, Failure> {
        let mut ports = self.network.entries.clone();
        let mut exit_ports = Vec::new();
        for exit in &self.network.exits {
            let port = ports.iter().position(|port| port == exit);
            exit_ports.push(port.unwrap_or(ports.len()));
            if port.is_none() {
                ports.push(exit.clone());
            }
        }
        let packets = self.log.as_ref().map(|path| PacketLog::create(path, &ports, &self.command));
        let mut mahimahi = Vec::new();
        if let Some(path) = &self.mahimahi {
            for entry in 0..self.directions.len() {
                let link = first_link(self.network, LinkSource::Entry(entry));
                let link = link.ok_or_else(|| nowhere(self.network, entry))?;
                let path = format!("{path}.{}", link.spec.name);
                mahimahi.push(MahimahiLog::create(&path, &link.spec, &self.command)?);
            }
        }
        Ok(OfflineLogs {
            packets: packets.transpose()?,
            mahimahi,
            entry_ports: (0..self.directions.len()).collect(),
            exit_ports,
            links: self.network.links.iter().map(|link| link.spec.name.clone()).collect(),
        })
    }
}

/// A run in progress.
struct VirtualLoop {
    network: Network,
    carrier: OfflineCarrier,
    feeds: Vec<InputFeed>,
    entering: EnteringFrames,
    /// Frames captured from this time on are omitted; `None` for no limit. In ns since 1970;
    /// before [`Self::begin`] has run, in ns since the start.
    until_ns: Option<u64>,
}

impl VirtualLoop {
    /// Sets the start of the engine's clock: the capture time of the earliest frame.
    fn begin(&mut self) -> Result<(), Failure> {
        self.refill()?;
        self.carrier.base_ns = self.next_ns().unwrap_or(0);
        self.entering.base_ns = self.carrier.base_ns;
        self.until_ns = self.until_ns.map(|ns| ns.saturating_add(self.carrier.base_ns));
        Ok(())
    }

    /// Processes the frames up to the [horizon](Self::horizon); returns false when all inputs have
    /// ended or the duration of the run is over.
    fn step(&mut self) -> Result<bool, Failure> {
        let (Some(horizon_ns), Some(next_ns)) = (self.horizon(), self.next_ns()) else {
            return Ok(false);
        };
        if self.until_ns.is_some_and(|until_ns| next_ns >= until_ns) {
            return Ok(false);
        }
        let horizon_ns = self.until_ns.map_or(horizon_ns, |until| horizon_ns.min(until - 1));
        if self.carrier.logs.any() {
            // The network runs up to the new frames first, so that the log has earlier departures
            // before these frames.
            self.run_before(horizon_ns);
        }
        self.enter(horizon_ns);
        // The network does not run up to the horizon itself, because more frames may arrive at that
        // time.
        self.run_before(horizon_ns);
        self.check_failures()?;
        self.refill()?;
        Ok(true)
    }

    fn run_before(&mut self, time_ns: u64) {
        if let Some(before_ns) = (time_ns - self.carrier.base_ns).checked_sub(1) {
            self.network.run(before_ns, &mut self.carrier);
        }
    }

    /// Returns the time up to which frames enter in this step; all frames captured before it are
    /// available. `None` if there are no more frames.
    fn horizon(&self) -> Option<u64> {
        if self.carrier.logs.any() {
            // If there are logs, each step processes the frames of one timestamp, so that the logs
            // are in order of time.
            return self.next_ns();
        }
        self.feeds.iter().filter_map(InputFeed::last_ns).min()
    }

    /// Returns the capture time of the earliest next frame of all inputs; `None` if there are no
    /// more frames.
    fn next_ns(&self) -> Option<u64> {
        self.feeds.iter().filter_map(|feed| feed.next_ns(&self.carrier.chunks)).min()
    }

    /// Pushes the frames captured up to `horizon_ns` into the network, in order of time
    /// over all inputs.
    fn enter(&mut self, horizon_ns: u64) {
        let chunks = &self.carrier.chunks;
        let mut next: Vec<_> = self.feeds.iter().map(|feed| feed.next_ns(chunks)).collect();
        while let Some((index, first_ns)) = earliest(&next).filter(|first| first.1 <= horizon_ns) {
            let others = next.iter().enumerate().filter(|(other, _)| *other != index);
            let until_ns = others.filter_map(|(_, next_ns)| *next_ns).min();
            // This takes at least the first frame of this input, because that frame is no later
            // than the frames of the other inputs.
            let until_ns =
                until_ns.map_or(horizon_ns, |until| horizon_ns.min(until.saturating_sub(1)));
            let feed = &mut self.feeds[index];
            feed.take(until_ns.max(first_ns), usize::MAX, &self.carrier.chunks, &mut self.entering);
            let EnteringFrames { arrivals, malformed, .. } = &self.entering;
            malformed.iter().for_each(|arrival| self.carrier.refuse(arrival));
            if self.carrier.logs.any() {
                arrivals.iter().for_each(|arrival| self.carrier.arrived(arrival.handle));
            }
            self.network.push(feed.entry, arrivals, &mut self.carrier);
            next[index] = feed.next_ns(&self.carrier.chunks);
        }
    }

    /// Returns an error if one occurred, and recycles empty chunks.
    fn check_failures(&mut self) -> Result<(), Failure> {
        for (input, chunk) in self.carrier.emptied.drain(..) {
            self.feeds[input].input.recycle(chunk);
        }
        self.carrier.failure.take().map_or(Ok(()), Err)
    }

    fn refill(&mut self) -> Result<(), Failure> {
        let chunks = &mut self.carrier.chunks;
        self.feeds.iter_mut().try_for_each(|feed| feed.refill(chunks))
    }

    /// Drains the network, and closes the files.
    fn finish(&mut self) -> Result<(), Failure> {
        self.network.run(u64::MAX, &mut self.carrier);
        self.check_failures()?;
        for output in self.carrier.outputs.drain(..) {
            output.finish()?;
        }
        let totals = self.port_totals();
        let end_ns = self.carrier.end_ns;
        for log in self.carrier.logs.mahimahi.drain(..) {
            log.finish(end_ns)?;
        }
        match self.carrier.logs.packets.take() {
            Some(log) => log.finish(&totals, self.carrier.base_ns.saturating_add(end_ns)),
            None => Ok(()),
        }
    }

    /// Returns the totals of the ports, by number, up to the last one with an input or an exit.
    fn port_totals(&self) -> Vec<PortTotals> {
        let logs = &self.carrier.logs;
        let ports = logs.entry_ports.iter().chain(&logs.exit_ports).max().map_or(0, |max| max + 1);
        let total = |port: usize| {
            let feed = self.feeds.get(port);
            let exits = logs.exit_ports.iter().zip(&self.carrier.sent);
            let here = exits.filter(|(exit, _)| **exit == port);
            PortTotals {
                received: feed.map_or(0, |feed| feed.received.packets),
                sent: here.map(|(_, sent)| sent.packets).sum(),
            }
        };
        (0..ports).map(total).collect()
    }

    fn into_result(self, network: NetworkSpec, stopped: bool) -> VirtualResult {
        let links = (0..network.links.len())
            .map(|link| self.network.counters(slipring_link::LinkId(link as u32)));
        let mut entries = vec![EntryAccount::default(); network.entries.len()];
        for feed in &self.feeds {
            let entry = &mut entries[usize::from(feed.entry.0)];
            entry.received = feed.received;
            entry.refused = feed.refused;
            entry.unordered = Some(feed.input.unordered());
        }
        let exit = |&sent: &PacketCounts| ExitAccount { sent, ..ExitAccount::default() };
        let account = EmulationAccount {
            at_ns: self.carrier.end_ns,
            links: links.collect(),
            entries,
            exits: self.carrier.sent.iter().map(exit).collect(),
            unrouted: self.carrier.unrouted.total(),
            ..EmulationAccount::default()
        };
        VirtualResult {
            account,
            measured: self.carrier.measured,
            elapsed_ns: self.carrier.end_ns,
            network,
            stopped,
        }
    }
}

/// Returns the input whose next frame was captured first; with equal times, the one with
/// the lower index.
fn earliest(next_ns: &[Option<u64>]) -> Option<(usize, u64)> {
    let at_hand = next_ns.iter().enumerate();
    let at_hand = at_hand.filter_map(|(index, next_ns)| Some((index, (*next_ns)?)));
    at_hand.min_by_key(|&(_, next_ns)| next_ns)
}

/// Returns the link that begins at `source` and that frames take if no class selects another link.
/// If every link there belongs to a class, returns the first one.
fn first_link(network: &NetworkSpec, source: LinkSource) -> Option<&slipring_link::NetworkLink> {
    let here = || network.links.iter().enumerate().filter(|(_, link)| link.from == source);
    let classless =
        here().find(|(index, _)| network.classes.iter().all(|class| class.link != *index));
    classless.or_else(|| here().next()).map(|(_, link)| link)
}

/// Returns the exits that frames of an entry may reach.
fn exits_of(network: &NetworkSpec, entry: usize) -> Vec<(usize, &str)> {
    let (mut exits, mut sources) = (Vec::new(), vec![LinkSource::Entry(entry)]);
    let mut at = 0;
    while let Some(&source) = sources.get(at) {
        at += 1;
        for link in network.links.iter().filter(|link| link.from == source) {
            match link.to {
                LinkTarget::Exit(exit) if exits.iter().all(|(other, _)| *other != exit) => {
                    exits.push((exit, network.exits[exit].as_str()));
                }
                LinkTarget::Node(node) if !sources.contains(&LinkSource::Node(node)) => {
                    sources.push(LinkSource::Node(node));
                }
                LinkTarget::Exit(_) | LinkTarget::Node(_) => {}
            }
        }
    }
    exits
}

/// Returns an error if a capture would enter at an entry at which no link begins.
///
/// # Errors
/// [`Failure`] that names the first entry without a link among the first `captures` entries.
pub(crate) fn check_entries(network: &NetworkSpec, captures: usize) -> Result<(), Failure> {
    let lost = |entry: &usize| first_link(network, LinkSource::Entry(*entry)).is_none();
    (0..captures).find(lost).map_or(Ok(()), |entry| Err(nowhere(network, entry)))
}

fn nowhere(network: &NetworkSpec, entry: usize) -> Failure {
    let summary = format!("no link begins at `{}`", network.entries[entry]);
    let error = Diagnostic::new(codes::SR0003, summary);
    let error = error.with_cause("a capture is given for it: pairs stand in the order of ports");
    error.with_help("leave the pair out, or add a link that begins there").into()
}

fn unfit(error: &impl std::fmt::Display) -> Failure {
    let summary = "the links cannot be built";
    Diagnostic::new(codes::SR0003, summary).with_cause(error.to_string()).into()
}
