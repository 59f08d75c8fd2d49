use core::net::IpAddr;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use slipring_model::Stream;

use super::checking::Room;
use super::compiled::Program;
use super::config::{Config, PortId};
use super::interpret::{Denied, Verdict};
use super::list::List;
use super::reassembly::{FragmentCounters, Reassembly};
use super::reply::{Emission, Outputs, Toward};
use super::restoring::Restored;
use super::settings::Settings;
use super::translate::{Translations, Translators};
use crate::packet::MalformedCounters;
use crate::rule::Action;
use crate::state::States;
use crate::table::Tables;
use crate::text::StateCommand;

/// A firewall: rules, tables, states, and what it has counted.
///
/// ```
/// use slipring_ipfw::run::{Crossing, Firewall, Outputs, Verdict};
///
/// let mut firewall = Firewall::new(7);
/// firewall.load("add 100 deny udp from any to any 53\nadd 200 allow ip from any to any", 0)?;
/// let mut frame = slipring_wire::FrameSpec::default().build(64)?.bytes.to_vec();
/// let (mut crossing, mut outputs) = (Crossing::incoming(0), Outputs::default());
/// assert_eq!(firewall.check(&mut frame, &mut crossing, 0, &mut outputs), Verdict::Accept);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Firewall {
    pub(super) config: Config,
    pub(super) states: States,
    pub(super) draws: Stream,
    pub(super) malformed: MalformedCounters,
    pub(super) drops: DropCounters,
    pub(super) reassembly: Reassembly,
    pub(super) translators: Translators,
    pub(super) epoch_ns: u64,
    /// Rules that went during commands whose states have not gone yet.
    pub(super) gone: Vec<u64>,
    /// `state` commands that wait for all rules of their file.
    pub(super) restoring: Vec<StateCommand>,
    pub(super) restored: Restored,
    /// The list made ready; `None` while it changes, and for who wants the plain interpreter.
    pub(super) program: Option<Arc<Program>>,
    plain: bool,
    pub(super) room: Room,
}

/// Packets that came, and what became of them. `checked` is the sum of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounters {
    /// Packets checked.
    pub checked: u64,
    /// Accepted.
    pub accepted: u64,
    /// Sent elsewhere by `fwd`.
    pub forwarded: u64,
    /// Handed to pipes and queues, or held as fragments.
    pub handed_over: u64,
    /// Dropped by a rule.
    pub by_rule: u64,
    /// Dropped as malformed.
    pub malformed: u64,
    /// Dropped for want of room for a state.
    pub states_full: u64,
    /// Dropped by the limit of a rule.
    pub state_limit: u64,
    /// Dropped since calls were too deep or went round.
    pub calls: u64,
    /// Dropped since a table had no number for a pipe or queue.
    pub no_number: u64,
    /// Dropped since `nat` or `nptv6` could not translate them, or would not let them in.
    pub translation: u64,
}

impl Firewall {
    /// Only the default rule, which denies. All random decisions follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut secret = Stream::new(seed, "ipfw/states");
        let mut firewall = Self {
            config: Config {
                list: List::new(Action::Deny),
                tables: Tables::default(),
                disabled_sets: 0,
                settings: Settings::default(),
                translations: Translations::default(),
                ports: Vec::new(),
                me: Vec::new(),
            },
            states: States::new([secret.next_u64(), secret.next_u64()]),
            draws: Stream::new(seed, "ipfw/prob"),
            malformed: MalformedCounters::default(),
            drops: DropCounters::default(),
            reassembly: Reassembly::default(),
            translators: Translators::new(seed),
            epoch_ns: 0,
            gone: Vec::new(),
            restoring: Vec::new(),
            restored: Restored::default(),
            program: None,
            plain: false,
            room: Room::default(),
        };
        firewall.compile();
        firewall
    }

    /// The same with a default rule that allows, as netmap-ipfw has it.
    #[must_use]
    pub fn open(seed: u64) -> Self {
        let mut firewall = Self::new(seed);
        firewall.config.list = List::new(Action::Allow);
        firewall.compile();
        firewall
    }

    /// Names the ports; the index of a name is its [`PortId`].
    pub fn set_ports(&mut self, names: Vec<String>) {
        self.config.ports = names;
        self.translators.settle(&self.config);
        self.compile();
    }

    /// Tells which addresses `me` means, and which port has each: `nat … if PORT` takes it.
    pub fn set_me(&mut self, addresses: Vec<(IpAddr, Option<PortId>)>) {
        self.config.me = addresses;
        self.translators.settle(&self.config);
        self.compile();
    }

    /// Rules are asked one by one from now on, or found by a [`Program`] again. Both do the same.
    pub fn set_plain(&mut self, plain: bool) {
        self.plain = plain;
        self.compile();
    }

    /// The rules made ready, unless they are asked one by one.
    #[must_use]
    pub fn program(&self) -> Option<&Program> {
        self.program.as_deref()
    }

    /// Makes the rules ready, after any change of what a program is made of.
    pub(super) fn compile(&mut self) {
        self.room.finders.forget();
        self.program = (!self.plain).then(|| Arc::new(Program::compile(&self.config)));
    }

    /// Tells what time the engine's clock began, in nanoseconds since 1970, for listings.
    pub fn set_epoch_ns(&mut self, epoch_ns: u64) {
        self.epoch_ns = epoch_ns;
    }

    /// Rules, tables, sets and settings.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The states.
    #[must_use]
    pub const fn states(&self) -> &States {
        &self.states
    }

    /// Frames that no rule saw, by cause.
    #[must_use]
    pub const fn malformed(&self) -> &MalformedCounters {
        &self.malformed
    }

    /// Fragments that a rule with `reass` saw, by what became of them.
    #[must_use]
    pub const fn fragments(&self) -> &FragmentCounters {
        self.reassembly.counters()
    }

    /// Fragments that wait for others.
    #[must_use]
    pub fn fragments_held(&self) -> usize {
        self.reassembly.held()
    }

    /// Packets by what became of them.
    #[must_use]
    pub const fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Whether a packet that left a pipe or queue is to be checked again, with the crossing that
    /// it went in with: it goes on behind the rule that sent it there.
    #[must_use]
    pub const fn continues_after_shaper(&self) -> bool {
        !self.config.settings.one_pass
    }

    /// Forgets states that have ended and fragments that waited too long, and adds the keepalives
    /// that are due.
    pub fn tick(&mut self, now_ns: u64, outputs: &mut Outputs) {
        self.reassembly.forget_late(now_ns);
        self.translators.tick(now_ns);
        self.states.tick(now_ns, &mut |keepalive, port, _| {
            let toward = match (port, keepalive.to_source) {
                (Some(port), true) => Toward::Port(port),
                (Some(port), false) => Toward::From(port),
                (None, _) => Toward::All,
            };
            outputs.frames.push(Emission { toward, frame: keepalive.frame });
        });
    }

    /// When [`Self::tick`] has something to do next.
    #[must_use]
    pub fn next_tick_ns(&self) -> Option<u64> {
        let (states, flows) = (self.states.next_wake_ns(), self.translators.next_tick_ns());
        states.into_iter().chain(flows).min()
    }
}

impl DropCounters {
    pub(super) fn count(&mut self, verdict: &Verdict) {
        self.checked += 1;
        let counter = match verdict {
            Verdict::Accept => &mut self.accepted,
            Verdict::Forward(_) => &mut self.forwarded,
            Verdict::Pipe(_)
            | Verdict::Queue(_)
            | Verdict::Nat(_)
            | Verdict::Nptv6(_)
            | Verdict::Held => &mut self.handed_over,
            Verdict::Deny(Denied::Rule) => &mut self.by_rule,
            Verdict::Deny(Denied::Malformed(_)) => &mut self.malformed,
            Verdict::Deny(Denied::StatesFull) => &mut self.states_full,
            Verdict::Deny(Denied::StateLimit) => &mut self.state_limit,
            Verdict::Deny(Denied::CallDepth | Denied::CallLoop) => &mut self.calls,
            Verdict::Deny(Denied::NoNumber) => &mut self.no_number,
            Verdict::Deny(Denied::Translation) => &mut self.translation,
        };
        *counter += 1;
    }
}
