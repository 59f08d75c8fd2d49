//! Random lists of rules, which may keep states with any action, and sessions of many packets.
//! Compares the firewall, in three modes, with an independent interpreter that follows FreeBSD's
//! `ipfw_chk` opcode by opcode.
//!
//! The oracle shares no code with the firewall except the random stream of `prob`. Its inputs are
//! the random rules and packets in structured form, not as text and bytes.

mod draw;
mod oracle;

use super::*;
use crate::run::search::{MAX_CALLS_MADE, steps};
use draw::{Draw, PacketSpec, RuleSpec, SETTINGS};
use oracle::{Oracle, OracleVerdict};

const LISTS: u64 = 1000;
const PACKETS: usize = 2000;
/// Number of packets that arrive at the same time.
const BURST: usize = 40;

/// A firewall that checks the packets of a burst one by one or together.
struct Subject {
    firewall: Firewall,
    is_batch: bool,
    outputs: CheckOutputs,
    batch: CheckedBatch,
    steps: Vec<u64>,
}

/// A packet, and its metadata from one check to the next.
struct PacketInPipe {
    frame: Vec<u8>,
    crossing: PacketMetadata,
}

impl Subject {
    fn new(text: &str, seed: u64, plain: bool, is_batch: bool) -> Self {
        let mut firewall = Firewall::new(seed, [1, 2]);
        firewall.set_plain(true);
        firewall.load(text, 0).unwrap();
        firewall.set_plain(plain);
        let (outputs, batch) = (CheckOutputs::default(), CheckedBatch::default());
        Self { firewall, is_batch, outputs, batch, steps: Vec::new() }
    }

    fn run(&mut self, command: &str, now: u64) {
        self.firewall.load(command, now).unwrap();
    }

    /// Checks each packet of a burst, and checks it again when it has left a pipe. Returns the last
    /// verdict on each.
    fn burst(&mut self, frames: &[&[u8]], now: u64) -> Vec<(OracleVerdict, PacketInPipe)> {
        self.firewall.tick(now, &mut self.outputs);
        self.outputs = CheckOutputs::default();
        self.steps.clear();
        let mut all = self.first(frames, now);
        while all.iter().any(|(_, journey)| journey.crossing.resume.is_some()) {
            for (at, (got, PacketInPipe { frame, crossing })) in all.iter_mut().enumerate() {
                if crossing.resume.is_none() || !matches!(got, OracleVerdict::Pipe(_)) {
                    crossing.resume = None;
                    continue;
                }
                if !self.firewall.continues_after_shaper() {
                    crossing.resume = None;
                    continue;
                }
                let verdict = self.firewall.check(frame, crossing, now, &mut self.outputs);
                *got = OracleVerdict::of(&verdict);
                self.steps[at] += steps::take();
            }
        }
        all
    }

    fn first(&mut self, frames: &[&[u8]], now: u64) -> Vec<(OracleVerdict, PacketInPipe)> {
        let mut bytes: Vec<_> = frames.iter().map(|frame| frame.to_vec()).collect();
        steps::take();
        if self.is_batch {
            let Self { firewall, outputs, batch, .. } = self;
            firewall.check_all(&mut bytes[..], frames.len(), (0, now), outputs, batch);
            self.steps.resize(frames.len(), 0);
            steps::take();
            let checked = self.batch.drain().map(|checked| match checked {
                CheckResult::Accepted => (OracleVerdict::Accept, PacketMetadata::incoming(0)),
                CheckResult::Denied => (OracleVerdict::Deny, PacketMetadata::incoming(0)),
                CheckResult::Other(verdict, crossing) => (OracleVerdict::of(&verdict), crossing),
            });
            let journey = |((got, crossing), frame)| (got, PacketInPipe { frame, crossing });
            return checked.zip(bytes).map(journey).collect();
        }
        let one = |mut frame: Vec<u8>| {
            let mut crossing = PacketMetadata::incoming(0);
            let verdict = self.firewall.check(&mut frame, &mut crossing, now, &mut self.outputs);
            self.steps.push(steps::take());
            (OracleVerdict::of(&verdict), PacketInPipe { frame, crossing })
        };
        bytes.into_iter().map(one).collect()
    }

    fn counted(&self) -> Vec<(u16, u64, u64)> {
        let list = self.firewall.config().list.iter();
        list.map(|(entry, counters)| (entry.number, counters.packets, counters.bytes)).collect()
    }

    fn states(&self) -> Vec<oracle::ComparedState> {
        let shown = |state: &&crate::state::FlowState| oracle::ComparedState {
            number: state.number,
            flow: (
                state.flow.proto,
                (state.flow.src as u32, state.flow.src_port),
                (state.flow.dst as u32, state.flow.dst_port),
            ),
            name: state.name.as_str().into(),
            counted: (state.packets, state.bytes),
            expires: state.expires_ns,
        };
        let mut all: Vec<_> = self.firewall.states().sorted().iter().map(shown).collect();
        all.sort();
        all
    }
}

/// Maximum number of steps per packet: all rules once, and all rules again for each name that is
/// looked up and, if the list has calls, for each call and each return.
fn most_steps(rules: &[RuleSpec]) -> u64 {
    let shown = rules.len() as u64 + 1;
    let names: std::collections::BTreeSet<_> =
        rules.iter().filter_map(RuleSpec::looks_up).collect();
    let calls =
        if rules.iter().any(RuleSpec::calls) { 2 * u64::from(MAX_CALLS_MADE) + 1 } else { 0 };
    shown * (names.len() as u64 + 1 + calls)
}

fn session(seed: u64, frames: &[(PacketSpec, Vec<u8>)]) {
    let mut draw = Draw::new(seed);
    let rules = draw::rules(&mut draw);
    let settings = SETTINGS[draw.below(SETTINGS.len())];
    let lines = rules.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let text = format!("{}\n{lines}", settings.commands);
    let mut oracle = Oracle::new(&rules, settings, seed);
    let mut subjects = [(true, false), (false, false), (false, true)]
        .map(|(plain, is_batch)| Subject::new(&text, seed, plain, is_batch));
    let most = most_steps(&rules);
    let mut now = 0;
    for burst in 0..PACKETS / BURST {
        if burst == PACKETS / BURST / 2 {
            oracle.disable_set(3);
            subjects.iter_mut().for_each(|subject| subject.run("set disable 3", now));
        }
        if burst == PACKETS / BURST * 3 / 4 {
            let number = rules[draw.below(rules.len())].number;
            oracle.delete(number);
            let delete = format!("delete {number}");
            subjects.iter_mut().for_each(|subject| subject.run(&delete, now));
        }
        now += draw.below(4) as u64 * SECOND / 2;
        let picked: Vec<_> = (0..BURST).map(|_| &frames[draw.below(frames.len())]).collect();
        let packets: Vec<_> = picked.iter().map(|(spec, _)| spec.clone()).collect();
        let bytes: Vec<_> = picked.iter().map(|(_, frame)| frame.as_slice()).collect();
        let expected = oracle.burst(packets, now);
        for (index, subject) in subjects.iter_mut().enumerate() {
            let got = subject.burst(&bytes, now);
            for (at, ((verdict, journey), (wanted, packet))) in
                got.iter().zip(&expected).enumerate()
            {
                let context =
                    || format!("list {seed}, way {index}, burst {burst}, packet {at}\n{text}");
                assert_eq!(verdict, wanted, "{} {packet:?}", context());
                assert_eq!(journey.frame[15], packet.tos, "{} {packet:?}", context());
                assert!(subject.steps[at] <= most, "{} steps\n{}", subject.steps[at], context());
            }
        }
    }
    for (index, subject) in subjects.iter().enumerate() {
        assert_eq!(subject.counted(), oracle.counted(), "list {seed}, way {index}\n{text}");
        assert_eq!(subject.states(), oracle.shown(), "list {seed}, way {index}\n{text}");
    }
}

#[test]
fn random_lists_with_states_on_every_action_do_what_freebsd_does_in_no_more_steps_than_promised() {
    let frames = draw::frames();
    for seed in 0..LISTS {
        session(seed, &frames);
    }
}
