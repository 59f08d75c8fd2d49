//! The virtual clock: captures in, captures out, exact and as fast as possible.
//!
//! ```text
//!   IN   -> input (a thread decodes ahead) -> feed -> network -> hub -> output -> OUT
//!   IN2  -> input                          -> feed ->            -> output -> OUT2
//!                                                                -> logs   -> LOG
//! ```
//!
//! OUT has what is left of IN, wherever it leaves: all of it in one file, in order of time.
//!
//! The engine's clock is the captures': it begins with the first frame of all of them. A frame
//! arrives when it was captured, or with its predecessor where its stamp lies before that one's.
//! Frames leave at their release times, whole nanoseconds, never early. The same input and the
//! same seed give the same bytes on every machine, whatever form of capture the input has.
//!
//! Memory holds what is inside the links and little more; frames are not copied on their way.
//!
//! Not for: ports. Nothing here asks for a privilege or looks at the time of day.

pub(crate) mod chunk;
pub(crate) mod feed;
mod hub;
pub(crate) mod input;
pub(crate) mod job;
pub(crate) mod output;
#[cfg(test)]
mod tests;

use slipring_cli::{Diagnostic, Failure, codes};
use slipring_link::{EntryId, Network, NetworkSpec, Source, Tally, Target};

use super::realtime::job::storage_bytes;
use super::realtime::{Account, EntryAccount, ExitAccount};
use super::report::mahimahi::MahimahiLog;
use super::report::measured::Measured;
use super::report::packets::{PacketLog, PortTotals};
use chunk::Chunks;
use feed::{Feed, Taken};
use hub::{Hub, Logs};
use input::Input;
use output::Output;

/// What is to be done.
pub struct Virtual<'p> {
    /// The links.
    pub network: &'p NetworkSpec,
    /// Changes of them, by the time since the start, in order.
    pub changes: Vec<(u64, NetworkSpec)>,
    /// The seed of every random stream.
    pub seed: u64,
    /// Frames captured so long after the first one, in ns, and later ones are left out.
    pub duration_ns: Option<u64>,
    /// The captures: the first one's frames enter at the first place of the network.
    pub lanes: Vec<Lane>,
    /// Where every frame is logged.
    pub log: Option<String>,
    /// Where logs in mahimahi's form go, but for their endings.
    pub mahimahi: Option<String>,
    /// The command line, for the heads of the logs.
    pub command: String,
}

/// A capture, and where what is left of it goes.
pub struct Lane {
    /// What is read.
    pub input: Input,
    /// Changes the times of what is read.
    pub retime: Option<feed::Retime>,
    /// Path of the capture to write.
    pub output: String,
}

/// What was done.
pub struct Done {
    /// Every frame's fate, in numbers.
    pub account: Account,
    /// What was seen, per link.
    pub measured: Vec<Measured>,
    /// From the first arrival to the last departure.
    pub elapsed_ns: u64,
    /// Whether it was stopped before the end of the captures.
    pub stopped: bool,
}

impl Done {
    /// What the links' own reports do not tell, each in a line of its own, behind a line break.
    pub fn remarks(&self, network: &NetworkSpec) -> String {
        let mut text = String::new();
        for (name, entry) in network.entries.iter().zip(&self.account.entries) {
            let refused = entry.refused.iter().filter(|(_, tally)| tally.packets > 0);
            for (cause, Tally { packets, .. }) in refused {
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

impl Virtual<'_> {
    /// Runs to the end of the captures and of what is inside the links then, or until `stop`
    /// says so.
    ///
    /// # Errors
    /// If a capture is damaged or cannot be written, or the network cannot be built.
    pub fn run(mut self, stop: impl Fn() -> bool) -> Result<Done, Failure> {
        let mut network = Network::new(self.network, self.seed).map_err(|error| unfit(&error))?;
        for (at_ns, changed) in &self.changes {
            network.change(*at_ns, changed).map_err(|error| unfit(&error))?;
        }
        // What cannot be read must not cost what was written before.
        self.lanes.iter_mut().try_for_each(|lane| lane.input.begin())?;
        let hub = self.hub()?;
        let until_ns = self.duration_ns;
        let feeds =
            self.lanes.into_iter().enumerate().map(|(index, lane)| {
                Feed::new(lane.input, EntryId(index as u16), lane.retime, index)
            });
        let feeds = feeds.collect();
        let mut run = Run { network, hub, feeds, taken: Taken::default(), until_ns };
        run.begin()?;
        let mut stopped = stop();
        while !stopped && run.turn()? {
            stopped = stop();
        }
        run.finish()?;
        Ok(run.done(self.network, stopped))
    }

    fn hub(&self) -> Result<Hub, Failure> {
        let output = |(entry, lane): (usize, &Lane)| {
            Output::create(&lane.output, &exits_of(self.network, entry))
        };
        let links = self.network.links.iter();
        Ok(Hub {
            chunks: Chunks::within(storage_bytes()),
            sent: vec![Tally::default(); self.network.exits.len()],
            outputs: self.lanes.iter().enumerate().map(output).collect::<Result<_, _>>()?,
            unrouted: Default::default(),
            measured: links.map(|_| Measured::new(u64::MAX)).collect(),
            hops: Default::default(),
            logs: self.logs()?,
            base_ns: 0,
            end_ns: 0,
            emptied: Vec::new(),
            failure: None,
        })
    }

    fn logs(&self) -> Result<Logs, Failure> {
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
            for entry in 0..self.lanes.len() {
                let link = first_link(self.network, Source::Entry(entry));
                let link = link.ok_or_else(|| nowhere(self.network, entry))?;
                let path = format!("{path}.{}", link.spec.name);
                mahimahi.push(MahimahiLog::create(&path, &link.spec, &self.command)?);
            }
        }
        Ok(Logs {
            packets: packets.transpose()?,
            mahimahi,
            entry_ports: (0..self.lanes.len()).collect(),
            exit_ports,
            links: self.network.links.iter().map(|link| link.spec.name.clone()).collect(),
        })
    }
}

/// A run under way.
struct Run {
    network: Network,
    hub: Hub,
    feeds: Vec<Feed>,
    taken: Taken,
    /// Frames captured from then on are left out, in ns since 1970. Until the clock begins: in ns
    /// since then.
    until_ns: Option<u64>,
}

impl Run {
    /// Finds out when the clock begins.
    fn begin(&mut self) -> Result<(), Failure> {
        self.refill()?;
        self.hub.base_ns = self.next_ns().unwrap_or(0);
        self.taken.base_ns = self.hub.base_ns;
        self.until_ns = self.until_ns.map(|ns| ns.saturating_add(self.hub.base_ns));
        Ok(())
    }

    /// Lets what is at hand pass; false when all inputs have ended, or it is time to.
    fn turn(&mut self) -> Result<bool, Failure> {
        let (Some(horizon_ns), Some(next_ns)) = (self.horizon(), self.next_ns()) else {
            return Ok(false);
        };
        if self.until_ns.is_some_and(|until_ns| next_ns >= until_ns) {
            return Ok(false);
        }
        let horizon_ns = self.until_ns.map_or(horizon_ns, |until| horizon_ns.min(until - 1));
        if self.hub.logs.any() {
            // What leaves before is logged before what comes in now.
            self.leave_before(horizon_ns);
        }
        self.enter(horizon_ns);
        // Not to the horizon itself: further frames may arrive at that very moment.
        self.leave_before(horizon_ns);
        self.settle()?;
        self.refill()?;
        Ok(true)
    }

    fn leave_before(&mut self, time_ns: u64) {
        if let Some(before_ns) = (time_ns - self.hub.base_ns).checked_sub(1) {
            self.network.run(before_ns, &mut self.hub);
        }
    }

    /// Up to when all frames are at hand.
    fn horizon(&self) -> Option<u64> {
        if self.hub.logs.any() {
            // Moment by moment, so that the logs are in the order of time.
            return self.next_ns();
        }
        self.feeds.iter().filter_map(Feed::last_ns).min()
    }

    /// When the next frame was captured.
    fn next_ns(&self) -> Option<u64> {
        self.feeds.iter().filter_map(|feed| feed.next_ns(&self.hub.chunks)).min()
    }

    /// Lets the frames captured up to `horizon_ns` in, in the order of time over all inputs.
    fn enter(&mut self, horizon_ns: u64) {
        let chunks = &self.hub.chunks;
        let mut next: Vec<_> = self.feeds.iter().map(|feed| feed.next_ns(chunks)).collect();
        while let Some((index, first_ns)) = earliest(&next).filter(|first| first.1 <= horizon_ns) {
            let others = next.iter().enumerate().filter(|(other, _)| *other != index);
            let until_ns = others.filter_map(|(_, next_ns)| *next_ns).min();
            // Never before its own first frame, which is not after theirs.
            let until_ns = until_ns.map_or(horizon_ns, |until| horizon_ns.min(until - 1));
            let feed = &mut self.feeds[index];
            feed.take(until_ns.max(first_ns), usize::MAX, &self.hub.chunks, &mut self.taken);
            let Taken { arrivals, malformed, .. } = &self.taken;
            malformed.iter().for_each(|arrival| self.hub.refuse(arrival));
            if self.hub.logs.any() {
                arrivals.iter().for_each(|arrival| self.hub.arrived(arrival.handle));
            }
            self.network.push(feed.entry, arrivals, &mut self.hub);
            next[index] = feed.next_ns(&self.hub.chunks);
        }
    }

    /// Tells what failed, and gives empty chunks back.
    fn settle(&mut self) -> Result<(), Failure> {
        for (input, chunk) in self.hub.emptied.drain(..) {
            self.feeds[input].input.recycle(chunk);
        }
        self.hub.failure.take().map_or(Ok(()), Err)
    }

    fn refill(&mut self) -> Result<(), Failure> {
        let chunks = &mut self.hub.chunks;
        self.feeds.iter_mut().try_for_each(|feed| feed.refill(chunks))
    }

    /// Lets out what is inside, and closes the files.
    fn finish(&mut self) -> Result<(), Failure> {
        self.network.run(u64::MAX, &mut self.hub);
        self.settle()?;
        for output in self.hub.outputs.drain(..) {
            output.finish()?;
        }
        let totals = self.port_totals();
        let end_ns = self.hub.end_ns;
        for log in self.hub.logs.mahimahi.drain(..) {
            log.finish(end_ns)?;
        }
        match self.hub.logs.packets.take() {
            Some(log) => log.finish(&totals, self.hub.base_ns.saturating_add(end_ns)),
            None => Ok(()),
        }
    }

    /// Of the ports that have an input or an output.
    fn port_totals(&self) -> Vec<PortTotals> {
        let logs = &self.hub.logs;
        let ports = logs.entry_ports.iter().chain(&logs.exit_ports).max().map_or(0, |max| max + 1);
        let total = |port: usize| {
            let feed = self.feeds.get(port);
            let exits = logs.exit_ports.iter().zip(&self.hub.sent);
            let here = exits.filter(|(exit, _)| **exit == port);
            PortTotals {
                received: feed.map_or(0, |feed| feed.received.packets),
                sent: here.map(|(_, sent)| sent.packets).sum(),
            }
        };
        (0..ports).map(total).collect()
    }

    fn done(self, plan: &NetworkSpec, stopped: bool) -> Done {
        let links = (0..plan.links.len())
            .map(|link| self.network.counters(slipring_link::LinkId(link as u32)));
        let mut entries = vec![EntryAccount::default(); plan.entries.len()];
        for feed in &self.feeds {
            let entry = &mut entries[usize::from(feed.entry.0)];
            entry.received = feed.received;
            entry.refused = feed.refused;
            entry.unordered = Some(feed.input.unordered());
        }
        let exit = |&sent: &Tally| ExitAccount { sent, ..ExitAccount::default() };
        let account = Account {
            at_ns: self.hub.end_ns,
            links: links.collect(),
            entries,
            exits: self.hub.sent.iter().map(exit).collect(),
            unrouted: self.hub.unrouted.total(),
            ..Account::default()
        };
        Done { account, measured: self.hub.measured, elapsed_ns: self.hub.end_ns, stopped }
    }
}

/// The input whose next frame was captured first, the former of two at one moment.
fn earliest(next_ns: &[Option<u64>]) -> Option<(usize, u64)> {
    let at_hand = next_ns.iter().enumerate();
    let at_hand = at_hand.filter_map(|(index, next_ns)| Some((index, (*next_ns)?)));
    at_hand.min_by_key(|&(_, next_ns)| next_ns)
}

/// The link that frames take from a place if no class leads them elsewhere.
fn first_link(network: &NetworkSpec, source: Source) -> Option<&slipring_link::NetworkLink> {
    let here = || network.links.iter().enumerate().filter(|(_, link)| link.from == source);
    let classless =
        here().find(|(index, _)| network.classes.iter().all(|class| class.link != *index));
    classless.or_else(|| here().next()).map(|(_, link)| link)
}

/// The exits that frames of an entry may come to, by whichever links.
fn exits_of(network: &NetworkSpec, entry: usize) -> Vec<(usize, &str)> {
    let (mut exits, mut sources) = (Vec::new(), vec![Source::Entry(entry)]);
    let mut at = 0;
    while let Some(&source) = sources.get(at) {
        at += 1;
        for link in network.links.iter().filter(|link| link.from == source) {
            match link.to {
                Target::Exit(exit) if exits.iter().all(|(other, _)| *other != exit) => {
                    exits.push((exit, network.exits[exit].as_str()));
                }
                Target::Node(node) if !sources.contains(&Source::Node(node)) => {
                    sources.push(Source::Node(node));
                }
                Target::Exit(_) | Target::Node(_) => {}
            }
        }
    }
    exits
}

/// Refuses captures for entries that no link leads on from.
///
/// # Errors
/// The first of the first `captures` entries that is such.
pub(crate) fn check_entries(network: &NetworkSpec, captures: usize) -> Result<(), Failure> {
    let lost = |entry: &usize| first_link(network, Source::Entry(*entry)).is_none();
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
