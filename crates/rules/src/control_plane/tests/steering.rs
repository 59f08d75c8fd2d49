//! Tests changes of the rules that move flows to other engines.

use proptest::prelude::*;
use slipring_ipfw::run::{CheckOutputs, PacketMetadata, RuleVerdict};
use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec, L4Spec, PortPair};

use super::*;

/// Commands of which some change how frames are steered, and others do not.
const CHANGES: &[&str] = &[
    "add 100 allow udp from any to any keep-state",
    "add 200 allow udp from any to any 1 limit src-addr 2",
    "add 200 allow udp from any to any 1 limit src-addr dst-addr 1",
    "add 50 pipe 1 ip from any to 10.9.9.9",
    "add 60 check-state",
    "add 300 allow ip from 10.0.0.1 to any",
    "delete 50",
    "delete 200",
    "delete 100",
    "set disable 0",
    "set enable 0",
    "flush",
];

/// A control plane with several engines, and the steering that assigns frames to them.
struct Steered {
    plane: ControlPlane,
    engines: Vec<Arc<EngineThread>>,
    distribution: FlowDistribution,
}

impl Steered {
    fn new(count: usize) -> Self {
        let (engines, distribution) = (engines(count), FlowDistribution::new([1, 2], count as u16));
        let plane = ControlPlane::new(Firewall::new(1, [1, 2]), engines.clone());
        Self { plane: plane.with_steering(distribution.clone()), engines, distribution }
    }

    /// Executes a command; returns whether it was accepted.
    fn execute(&self, text: &str) -> bool {
        let order = CommandBatch { text: text.to_owned(), ..CommandBatch::default() };
        self.plane.execute(&order, 0).fault.is_none()
    }

    /// Makes the engine to which the frame is steered check a frame that engine `receiver` has
    /// received; returns whether the frame passes.
    fn passes(&self, receiver: usize, frame: &[u8]) -> bool {
        let receiver = receiver % self.engines.len();
        let of_engine =
            |dataplane: &mut dyn RuleDataplane, _| Steering::of(dataplane.firewall().config());
        let steering = submit(&*self.engines[receiver], of_engine).recv().unwrap();
        let owner = steering.thread_of(frame, &self.distribution).unwrap_or(receiver);
        let mut frame = frame.to_vec();
        let checked = submit(&*self.engines[owner], move |dataplane, _| {
            let (mut crossing, mut outputs) =
                (PacketMetadata::incoming(0), CheckOutputs::default());
            dataplane.firewall_mut().check(&mut frame, &mut crossing, 0, &mut outputs)
        });
        checked.recv().unwrap() == RuleVerdict::Accept
    }
}

/// A datagram of a flow, in either direction.
fn datagram(is_back: bool, near: u8, far: u8, port: u16) -> Vec<u8> {
    let (near, far) = ([10, 0, 0, near].into(), [10, 1, 0, far].into());
    let (src, dst) = if is_back { (far, near) } else { (near, far) };
    let ports = [(4000, port), (port, 4000)][usize::from(is_back)];
    let ip = IpSpec::V4(Ipv4Spec { src, dst, ..Ipv4Spec::default() });
    let l4 = L4Spec::Udp(PortPair { src: ports.0, dst: ports.1 });
    FrameSpec { ip, l4, ..FrameSpec::default() }.build(60).unwrap().bytes
}

#[derive(Clone, Debug)]
enum Step {
    Change(&'static str),
    Packet { is_back: bool, near: u8, far: u8, port: u16, receiver: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => prop::sample::select(CHANGES).prop_map(Step::Change),
        4 => (any::<bool>(), 1u8..4, 1u8..6, 1u16..3, 0..8usize).prop_map(
            |(is_back, near, far, port, receiver)| {
                Step::Packet { is_back, near, far, port, receiver }
            }
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn flows_keep_their_states_when_rules_give_them_to_other_engines(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let (one, many) = (Steered::new(1), Steered::new(3));
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Change(command) => {
                    prop_assert_eq!(one.execute(command), many.execute(command));
                }
                &Step::Packet { is_back, near, far, port, receiver } => {
                    let frame = datagram(is_back, near, far, port);
                    let passes = [&one, &many].map(|of| of.passes(receiver, &frame));
                    prop_assert_eq!(passes[0], passes[1], "step {}", at);
                }
            }
        }
        let listed = |of: &Steered| {
            let (text, flags) = ("list".to_owned(), "ad".to_owned());
            let order = CommandBatch { text, flags, ..CommandBatch::default() };
            of.plane.execute(&order, 0).text
        };
        prop_assert_eq!(listed(&one), listed(&many));
    }
}

/// A stage that records the order of its changes.
struct Recorded {
    stage: RuleStage,
    events: Sender<&'static str>,
}

impl RuleDataplane for Recorded {
    fn firewall(&self) -> &Firewall {
        self.stage.firewall()
    }

    fn firewall_mut(&mut self) -> &mut Firewall {
        self.events.send("states").unwrap();
        self.stage.firewall_mut()
    }

    fn shaper_mut(&mut self) -> &mut Dummynet<u32> {
        self.stage.shaper_mut()
    }

    fn adopt(&mut self, ruleset: &mut Ruleset) {
        self.events.send("rules").unwrap();
        self.stage.adopt(ruleset);
    }

    fn hold_frames(&mut self, holds: bool) {
        self.events.send(if holds { "hold" } else { "go on" }).unwrap();
    }

    fn apply_shaper_events(&mut self, _: Vec<slipring_dummynet::ShaperEvent<u32>>, _: u64) {}

    fn egress_ports(&self, _: PortIndex) -> Option<Vec<PortIndex>> {
        None
    }
}

#[test]
fn no_frame_is_checked_between_new_rules_and_the_states_that_come_with_them() {
    let (queue, tasks) = channel::<RuleTask>();
    let (events, recorded) = channel();
    let thread = spawn(move || {
        let shaper = Dummynet::new(1, [1, 2]);
        let log = Arc::new(LogEvents::default());
        let stage = RuleStage::new(Firewall::new(1, [1, 2]), shaper, log);
        let mut dataplane = Recorded { stage, events };
        tasks.into_iter().for_each(|task| task(&mut dataplane, 0));
    });
    let engine = Arc::new(EngineThread(queue));
    let plane = ControlPlane::new(Firewall::new(1, [1, 2]), [engine]);
    let plane = plane.with_steering(FlowDistribution::new([1, 2], 1));
    for text in ["add 1 allow ip from any to any", "add 2 check-state", "add 3 check-state"] {
        let order = CommandBatch { text: text.to_owned(), ..CommandBatch::default() };
        assert_eq!(plane.execute(&order, 0).fault, None);
    }
    drop(plane);
    thread.join().unwrap();
    let events: Vec<_> = recorded.iter().filter(|event| *event != "states").collect();
    assert_eq!(events, ["rules", "hold", "rules", "go on", "rules"]);
}
