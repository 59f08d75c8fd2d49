//! Tests of the two halves of an emulation, both with a clock that only the test advances and in
//! real threads.

use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use slipring_cli::{Failure, Signals};
use slipring_datapath::workers::Workers;
use slipring_link::{
    BitErrorSpec, ClassSpec, CorruptSpec, DelaySpec, Discipline, DuplicateSpec, HoldSpec,
    LinkDropCause, LinkQueueSpec, LinkSource, LinkSpec, LinkTarget, LossModel, LossPosition,
    LossSpec, MangleEdit, MangleSpec, NetworkLink, OrderPolicy, RateSpec,
};
use slipring_model::{Chance, Dist, aqm};
use slipring_pcap::{LinkType, PcapWriter};
use slipring_port::{OpenOptions, now};

use super::super::directions::LinkDirections;
use super::super::{Emulation, EmulatorChannel, PlanChange, prepare};
use super::*;
use crate::account::{EmulationAccount, EmulationState};

const DELAY: Nanos = 2_000_000;
const START: Nanos = 1_000_000_000;

fn delayed(name: &str) -> LinkSpec {
    LinkSpec { delay: DelaySpec::constant(DELAY), ..LinkSpec::wire(name) }
}

/// A link that loses, holds back, mangles, corrupts, duplicates and delays frames at random, and
/// has a rate and a queue.
fn rough(name: &str) -> LinkSpec {
    let delay = Dist::normal(2e6, 3e5).unwrap();
    let one_in = |of| Chance::from_ratio(1, of).unwrap();
    let burst = LossModel::GilbertElliott { p: 0.05, r: 0.3, bad: 1.0, good: 0.0 };
    LinkSpec {
        rate: RateSpec::Constant { bps: 300_000_000 },
        queue: LinkQueueSpec { bytes: Some(20_000), ..LinkQueueSpec::default() },
        loss: vec![LossSpec { model: burst, position: LossPosition::Pre }],
        hold: Some(HoldSpec { chance: one_in(20), hold_ns: 50_000 }),
        mangle: Some(MangleSpec {
            chance: one_in(5),
            at: 20,
            edit: MangleEdit::Random(8),
            fix_checksum: false,
        }),
        corrupt: Some(CorruptSpec {
            errors: BitErrorSpec::Ber(1e-3),
            from_byte: 4,
            until_byte: None,
            fix_checksum: false,
        }),
        duplicate: Some(DuplicateSpec { chance: one_in(10), copies: 1, after_ns: 0 }),
        delay: DelaySpec::random(delay),
        order: OrderPolicy::Free,
        ..LinkSpec::wire(name)
    }
}

fn between(link: fn(&str) -> LinkSpec) -> NetworkSpec {
    NetworkSpec::between("left", "right", link("up"), link("down"))
}

/// Creates the ports of two hosts, and the two ports of an emulation between them.
fn hosts(slots: u32) -> ([Port; 2], [Port; 2]) {
    let names = ["netmap:l{0", "netmap:l}0", "netmap:r{0", "netmap:r}0"];
    let names = names.map(|name| slipring_core::parse(name).unwrap());
    let options = OpenOptions { slots, ..OpenOptions::default() };
    let ports = slipring_core::Host::new().open_all(&names, &options).unwrap();
    let [left, near, far, right] = <[Port; 4]>::try_from(ports).unwrap();
    ([left, right], [near, far])
}

fn send(port: &mut Port, frame: &[u8]) -> bool {
    let queue = &mut port.queues[0];
    let pushed = queue.rings().tx.push(frame);
    queue.tx_sync().unwrap();
    pushed
}

fn received(port: &mut Port) -> Vec<Vec<u8>> {
    let queue = &mut port.queues[0];
    queue.rx_sync().unwrap();
    let mut scratch = Vec::new();
    std::iter::from_fn(|| queue.rings().rx.packet(&mut scratch, |bytes| bytes.to_vec())).collect()
}

fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![number as u8; len.max(4)];
    frame[..4].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Two emulators, the halves of a pipeline, which the test advances turn by turn.
struct Halves {
    hosts: [Port; 2],
    emulators: [Emulator<()>; 2],
    directions: LinkDirections,
}

impl Halves {
    fn new(plan: &NetworkSpec, options: &RealtimeOptions, slots: u32) -> Self {
        let (hosts, ports) = hosts(slots);
        let emulators = Emulator::pair(ports, plan, options, (), START);
        let Ok(emulators) = emulators else { panic!("the plan is right") };
        Self { hosts, emulators, directions: LinkDirections::of(plan).unwrap() }
    }

    fn turn(&mut self, half: usize, at_ns: Nanos) {
        self.emulators[half].turn(|| at_ns).unwrap();
    }

    fn account(&mut self, at_ns: Nanos) -> EmulationAccount {
        let states = self.emulators.each_mut().map(|emulator| emulator.state(at_ns));
        let account = self.directions.join([&states[0], &states[1]]).account;
        assert!(account.is_balanced(), "{account:?}");
        account
    }
}

#[test]
fn a_frame_goes_over_and_leaves_when_it_is_due() {
    let mut halves = Halves::new(&between(delayed), &RealtimeOptions::default(), 256);
    assert!(send(&mut halves.hosts[0], &frame(1, 60)));
    halves.turn(0, START);
    assert_eq!(halves.account(START).ring_backlog.packets, 1, "between the threads");
    halves.turn(1, START);
    halves.turn(1, START + DELAY - 1);
    assert_eq!(received(&mut halves.hosts[1]), Vec::<Vec<u8>>::new());
    halves.turn(1, START + DELAY);
    assert_eq!(received(&mut halves.hosts[1]), [frame(1, 60)]);
    let account = halves.account(START + DELAY);
    assert_eq!((account.received().packets, account.sent().packets), (1, 1));
    assert_eq!((account.links[0].output.packets, account.links[1].input.packets), (1, 0));
}

#[test]
fn what_the_other_thread_does_not_take_stays_at_the_port_and_is_not_lost() {
    let mut halves = Halves::new(&between(delayed), &RealtimeOptions::default(), 1024);
    let (mut sent, mut full) = (0, 0);
    while full < 10 {
        match send(&mut halves.hosts[0], &frame(sent, 1500)) {
            true => (sent, full) = (sent + 1, 0),
            false => full += 1,
        }
        halves.turn(0, START);
    }
    // The pipe returns its slots in several steps, so several turns are needed.
    for _ in 0..3 {
        halves.turn(0, START);
        halves.hosts[0].queues[0].tx_sync().unwrap();
    }
    let account = halves.account(START);
    let given = halves.emulators[0].account(START).handed_over.packets;
    assert!(given > 1000 && account.ring_backlog.packets > given, "{given}, {sent}, {account:?}");
    assert_eq!(account.lost().packets, 0);
    let mut came = Vec::new();
    for step in 1..=3 * u64::from(sent) / 256 {
        [1, 0].into_iter().for_each(|half| halves.turn(half, START + step * DELAY));
        halves.hosts[0].queues[0].tx_sync().unwrap();
        came.extend(received(&mut halves.hosts[1]));
    }
    let all: Vec<_> = (0..sent).map(|number| frame(number, 1500)).collect();
    assert!(came == all, "{} of {} came, in their order or not", came.len(), all.len());
}

#[test]
fn memory_that_frames_fill_goes_back_to_be_filled_again() {
    let mut halves = Halves::new(&between(delayed), &RealtimeOptions::default(), 1024);
    let mut most = 0;
    for round in 0..400u64 {
        (0..200).for_each(|number| _ = send(&mut halves.hosts[0], &frame(number, 1500)));
        [0, 1, 0].into_iter().for_each(|half| halves.turn(half, START + round * 1_000_000));
        received(&mut halves.hosts[1]);
        most = most.max(halves.account(START).storage_bytes);
    }
    // About 600 frames of 1500 bytes are inside the links. They need less than the 16 MiB that the
    // two halves have allocated in advance.
    assert!(most <= 20 << 20, "{most}");
    assert_eq!(halves.account(START).lost().packets, 0);
}

#[test]
fn links_without_room_leave_frames_at_the_port() {
    let options = RealtimeOptions { storage_bytes: 1 << 20, ..RealtimeOptions::default() };
    let mut halves = Halves::new(&between(delayed), &options, 1024);
    for number in 0..2000 {
        send(&mut halves.hosts[0], &frame(number, 1500));
        [0, 1].into_iter().for_each(|half| halves.turn(half, START));
    }
    let account = halves.account(START);
    let inside = account.links[0].in_flight.bytes;
    assert!((200_000..1 << 19).contains(&inside), "{inside}");
    assert_eq!(account.lost().packets, 0);
}

/// What to send: a list of pauses in ns, each with the number and the length of the frames that
/// follow it.
type Script = Vec<(Nanos, u32, u16)>;

fn script() -> impl Strategy<Value = Script> {
    prop::collection::vec((1_000..400_000u64, 0..40u32, 60..1500u16), 1..60)
}

/// Plays a script from host `from`. Returns the frames that the other host received in each turn.
fn play(
    script: &Script,
    from: usize,
    hosts: &mut [Port; 2],
    mut turn: impl FnMut(Nanos),
) -> Vec<(Nanos, Vec<u8>)> {
    let (mut at_ns, mut number, mut out) = (START, 0, Vec::new());
    let quiet = (0..40).map(|_| (250_000, 0, 60));
    for (pause, frames, len) in script.iter().copied().chain(quiet) {
        at_ns += pause;
        for _ in 0..frames {
            assert!(send(&mut hosts[from], &frame(number, usize::from(len))));
            number += 1;
        }
        turn(at_ns);
        out.extend(received(&mut hosts[1 - from]).into_iter().map(|frame| (at_ns, frame)));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_direction_does_the_same_as_in_one_thread(script in script(), seed: u64, from in 0..2usize) {
        let (plan, options) = (between(rough), RealtimeOptions { seed, ..RealtimeOptions::default() });
        let (mut ends, ports) = hosts(256);
        let mut whole = Emulator::between(ports.into(), &plan, &options, (), START).unwrap();
        let expected = play(&script, from, &mut ends, |at_ns| _ = whole.turn(|| at_ns).unwrap());

        let Halves { mut hosts, mut emulators, directions } = Halves::new(&plan, &options, 256);
        let came = play(&script, from, &mut hosts, |at_ns| {
            [from, 1 - from].into_iter().for_each(|half| _ = emulators[half].turn(|| at_ns).unwrap());
        });
        prop_assert_eq!(came, expected);
        let states = emulators.each_mut().map(|half| half.state(START));
        let account = directions.join([&states[0], &states[1]]).account;
        prop_assert_eq!(&account.links, &whole.account(START).links);
        prop_assert!(account.is_balanced(), "{:?}", account);
    }

    /// The thread that sends the frames reads the clock before it takes over the last frames. So
    /// the arrival times of these frames may be later than the time that the thread has read.
    #[test]
    fn frames_that_come_over_late_are_all_accounted_for(script in script(), seed: u64, kind in 0..KINDS) {
        let plan = NetworkSpec::between("l", "r", odd(kind, "up"), odd(kind, "down"));
        let mut halves = Halves::new(&plan, &RealtimeOptions { seed, ..RealtimeOptions::default() }, 256);
        let Halves { hosts, emulators, .. } = &mut halves;
        play(&script, 0, hosts, |at_ns| {
            [1, 0].into_iter().for_each(|half| _ = emulators[half].turn(|| at_ns).unwrap());
        });
        let account = halves.account(START);
        prop_assert_eq!(account.received().packets, script.iter().map(|step| u64::from(step.1)).sum::<u64>());
    }
}

const KINDS: usize = 6;

/// A link whose behaviour depends on time.
fn odd(kind: usize, name: &str) -> LinkSpec {
    let fair = aqm::FairSpec::default();
    let discipline = match kind {
        0 => Discipline::DropHead,
        1 => Discipline::CoDel(aqm::CoDelSpec::default()),
        2 => Discipline::Pie(aqm::PieSpec::default()),
        3 => Discipline::FqCoDel(fair, aqm::CoDelSpec::default()),
        4 => Discipline::DualPi2(aqm::DualPi2Spec::default()),
        _ => Discipline::Red(aqm::RedSpec::default()),
    };
    let half_life_ns = Some(5_000_000);
    let delay = rough(name).delay;
    LinkSpec {
        queue: LinkQueueSpec { discipline, delay_ns: Some(3_000_000), ..LinkQueueSpec::default() },
        rate: RateSpec::Constant { bps: 30_000_000 },
        delay: DelaySpec { half_life_ns, ..delay },
        order: OrderPolicy::Correlated,
        ..rough(name)
    }
}

fn pipeline(plan: &NetworkSpec, options: RealtimeOptions) -> ([Port; 2], Emulation) {
    let (hosts, ports) = hosts(256);
    let options = RealtimeOptions { pipeline: true, ..options };
    let emulation = prepare(ports.into(), plan, &options, ()).map_err(text).unwrap();
    (hosts, emulation)
}

fn text(failure: Failure) -> String {
    match failure {
        Failure::Error(error) => error.to_string(),
        Failure::ReaderLeft => String::new(),
    }
}

fn checked(channel: &EmulatorChannel) -> std::sync::Arc<EmulationState> {
    let state = channel.request_state();
    assert!(state.account.is_balanced(), "{:?}", state.account);
    state
}

#[test]
fn two_threads_lose_nothing_uncounted_at_any_moment() {
    let lossy = |name: &str| LinkSpec { loss: rough(name).loss, ..delayed(name) };
    let plan = NetworkSpec::between("left", "right", lossy("up"), lossy("down"));
    let (mut hosts, emulation) =
        pipeline(&plan, RealtimeOptions { seed: 7, ..RealtimeOptions::default() });
    let workers = Workers::start(emulation.tasks).map_err(text).unwrap();
    let (mut sent, mut came) = ([0u64; 2], [Vec::new(), Vec::new()]);
    let mut stream = slipring_model::Stream::new(7, "test");
    for _ in 0..3000 {
        for (side, host) in hosts.iter_mut().enumerate() {
            for _ in 0..stream.between(0, 20) {
                let frame = frame(sent[side] as u32, stream.between(60, 4000) as usize);
                sent[side] += u64::from(send(host, &frame));
            }
            came[side].extend(received(host));
        }
        if stream.between(0, 50) == 0 {
            checked(&emulation.channel);
        }
        if stream.between(0, 200) == 0 {
            // The pause is long enough for both threads to fall asleep.
            std::thread::sleep(Duration::from_millis(3));
        }
    }
    // Receives until each frame has left or is lost.
    let all = sent[0] + sent[1];
    let done = |account: &EmulationAccount| account.sent().packets + account.lost().packets == all;
    while !done(&checked(&emulation.channel).account) {
        hosts.iter_mut().enumerate().for_each(|(side, host)| came[side].extend(received(host)));
    }
    workers.finish().unwrap();
    hosts.iter_mut().enumerate().for_each(|(side, host)| came[side].extend(received(host)));
    let account = checked(&emulation.channel).account.clone();
    assert_eq!(account.received().packets, all);
    assert_eq!(
        [came[1].len() as u64, came[0].len() as u64],
        [0, 1].map(|link| account.links[link].output.packets)
    );
    assert!(account.links[0].drops[LinkDropCause::Loss].packets > 0, "{account:?}");
    for frames in &came {
        let numbers = frames.iter().map(|frame| u32::from_be_bytes(*frame.first_chunk().unwrap()));
        assert!(numbers.is_sorted(), "frames keep their order");
        let whole = |frame: &Vec<u8>| frame[4..].iter().all(|&byte| byte == frame[3]);
        assert!(frames.iter().all(whole), "and their bytes");
    }
}

/// Runs a pipeline between two captures of `packets` frames. Returns how many frames it took from
/// each.
fn taken(packets: [u32; 2]) -> [u64; 2] {
    let dir = tempfile::tempdir().unwrap();
    let names = ["left.pcap", "right.pcap"].map(|name| dir.path().join(name));
    for (path, packets) in names.iter().zip(packets) {
        let mut bytes = Vec::new();
        let writer = PcapWriter::begin(&mut bytes, LinkType::ETHERNET, 0);
        for number in 0..packets {
            writer.packet(&mut bytes, 0, 64, &frame(number, 64)).unwrap();
        }
        std::fs::write(path, bytes).unwrap();
    }
    let names =
        names.map(|path| slipring_core::parse(&format!("pcap:{}", path.display())).unwrap());
    let ports = slipring_core::Host::new().open_all(&names, &OpenOptions::default()).unwrap();
    let plan = between(delayed);
    let options = RealtimeOptions { pipeline: true, ..RealtimeOptions::default() };
    let emulation = prepare(ports, &plan, &options, ()).map_err(text).unwrap();
    // Both threads end by themselves, once all frames that were read have left.
    let workers = Workers::start(emulation.tasks).map_err(text).unwrap();
    workers.watch(&Signals::install().unwrap(), None, None, |_| Ok(())).map_err(text).unwrap();
    workers.finish().unwrap();
    let account = &emulation.channel.last_state().account;
    [0, 1].map(|link| account.links[link].input.packets)
}

#[test]
fn the_end_of_one_capture_cuts_no_other_short() {
    for packets in [[200, 200], [1, 20_000], [20_000, 1], [300, 1]] {
        assert_eq!(taken(packets), packets.map(u64::from));
    }
}

#[test]
fn nothing_is_shown_before_both_threads_have_shown_something() {
    let (_hosts, emulation) = pipeline(&between(delayed), RealtimeOptions::default());
    // The threads have not been started.
    assert!(emulation.channel.last_state().account.links.is_empty());
    assert!(emulation.channel.request_state_within(Duration::ZERO).account.links.is_empty());
    let [first, _second] = <[_; 2]>::try_from(emulation.tasks).map_err(drop).unwrap();
    Workers::start(vec![first]).map_err(text).unwrap().finish().unwrap();
    assert!(emulation.channel.last_state().account.links.is_empty(), "one of them has");
}

#[test]
fn a_change_holds_for_both_directions_or_for_none() {
    let plan = between(delayed);
    let (_hosts, emulation) = pipeline(&plan, RealtimeOptions::default());
    let workers = Workers::start(emulation.tasks).map_err(text).unwrap();
    let change = |at_ns, replaces, plan: &NetworkSpec| {
        let (answer, answers) = mpsc::channel();
        let plan = Box::new(plan.clone());
        emulation.channel.change(PlanChange { at_ns, replaces, plan, answer });
        // Receiving ends when both threads have answered or have dropped the channel.
        answers.iter().map(|answer| answer.map_err(|error| error.to_string())).collect::<Vec<_>>()
    };
    let soon = emulation.channel.earliest_change_ns();
    assert!(soon > now());
    assert_eq!(change(soon, false, &between(rough)), [Ok(()), Ok(())]);
    let later = soon + 3_600_000_000_000;
    assert_eq!(change(later, false, &plan), [Ok(()), Ok(())]);
    assert_eq!(change(later - 1, false, &plan), [Ok(()), Ok(())], "one in between is met by both");
    let mut other = plan.clone();
    other.links[1].spec.name = "sideways".into();
    assert!(change(later, false, &other).iter().all(Result::is_err));
    assert_eq!(change(emulation.channel.earliest_change_ns(), true, &plan), [Ok(()), Ok(())]);
    workers.finish().unwrap();
}

#[test]
fn directions_that_share_something_are_refused_by_name() {
    let refused = |plan: &NetworkSpec| text(LinkDirections::of(plan).unwrap_err());
    let link = |name: &str, from, to| NetworkLink { spec: LinkSpec::wire(name), from, to };
    let mut shared = between(delayed);
    shared.nodes = vec!["middle".into()];
    shared.links[0].to = LinkTarget::Node(0);
    shared.links[1].to = LinkTarget::Node(0);
    shared.links.push(link("trunk", LinkSource::Node(0), LinkTarget::Exit(1)));
    let error = refused(&shared);
    assert!(
        error.contains("both directions pass link.trunk") && error.contains("SR0003"),
        "{error}"
    );

    let mut echo = between(delayed);
    echo.links.push(link("echo", LinkSource::Entry(0), LinkTarget::Exit(0)));
    echo.classes.push(ClassSpec::new("udp port 7", 2).unwrap());
    let error = refused(&echo);
    assert!(error.contains("link.echo leads back"), "{error}");

    let mut three = between(delayed);
    three.entries.push("third".into());
    assert!(refused(&three).contains("there are 3 ports"));
}

#[test]
fn paths_and_classes_that_stay_in_their_direction_are_not_refused() {
    let mut plan = between(delayed);
    plan.nodes = vec!["middle".into()];
    plan.links[0].to = LinkTarget::Node(0);
    let link = |name: &str, from, to| NetworkLink { spec: delayed(name), from, to };
    plan.links.push(link("on", LinkSource::Node(0), LinkTarget::Exit(1)));
    plan.links.push(link("voice", LinkSource::Entry(0), LinkTarget::Exit(1)));
    plan.classes.push(ClassSpec::new("udp port 5004", 3).unwrap());
    assert_eq!(LinkDirections::of(&plan).unwrap(), LinkDirections(vec![1, 0, 1, 1]));
    let mut halves = Halves::new(&plan, &RealtimeOptions::default(), 256);
    assert!(send(&mut halves.hosts[0], &frame(1, 60)));
    for step in 0..3 {
        [0, 1].into_iter().for_each(|half| halves.turn(half, START + step * DELAY));
    }
    assert_eq!(received(&mut halves.hosts[1]), [frame(1, 60)]);
}
