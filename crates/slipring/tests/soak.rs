//! Runs gen, bridge and gen in a row for minutes, at half the rate that the path can carry. No
//! frame may be lost, and the counters of the three programs must agree to the packet.
//!
//! ```text
//!   left: gen tx -- veth --> mid: bridge -- veth --> right: gen rx
//! ```
//! Run by `make soak`; `SLIPRING_SOAK_SECONDS` sets the time.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use rustix::process::Signal;
use slipring_test_support::{Lab, LabPort, Namespace, Program, eventually};

use support::SLIPRING;
use support::bridge::{Bridge, Report};

/// Rings with enough slots for the stalls of a busy machine.
const RINGS: &str = "--slots 65536";
/// Time for measuring the saturation rate.
const TRIAL_SECONDS: u64 = 2;

/// The counters of the three programs in one run.
struct Run {
    sender: Report,
    bridge: Report,
    receiver: Report,
}

/// Sends for `seconds` at `rate`, 0 for the maximum, and collects the counters.
fn run(lab: &Lab, rate: u64, seconds: u64) -> Run {
    let bridge = Bridge::between(lab, RINGS);
    let receiver = generator(&lab.right, "-f rx");
    let sender = generator(&lab.left, &format!("-f tx -l 60 -R {rate} --duration {seconds}s"));
    let sent = sender.finish_after(Duration::from_secs(seconds)).well();
    settle(&bridge, &receiver);
    let received = receiver.stop(Signal::INT).well();
    Run { sender: Report::last(&sent), bridge: bridge.stop(), receiver: Report::last(&received) }
}

fn generator(namespace: &Namespace, words: &str) -> Program {
    let words = format!("gen -i xdp:e0 {RINGS} -T 0 --json=lines -w 10 {words}");
    let program = Program::start(namespace, SLIPRING, &words);
    program.wait_for("start", |output| output.stdout.contains('\n').then_some(()));
    program
}

/// Waits until no frame is in the bridge, and the counters of bridge and receiver stay the same.
fn settle(bridge: &Bridge, receiver: &Program) {
    let mut before = None;
    eventually("the last frames to arrive", || {
        std::thread::sleep(Duration::from_millis(100));
        let (bridge, receiver) = (bridge.now(), Report::now(receiver));
        let now = Some((bridge.rx(0), bridge.tx(1), receiver.rx(0)));
        let still = before == now && bridge.in_flight() == 0;
        before = now;
        still.then_some(())
    });
}

#[test]
#[ignore = "takes minutes: make soak"]
fn half_of_the_saturation_rate_crosses_without_loss() {
    let seconds = std::env::var("SLIPRING_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let Some(lab) = Lab::quiet(LabPort::Native) else { return };
    // Reduces the effect of other load on the machine.
    lab.left.prioritize();
    [&lab.mid, &lab.right].into_iter().for_each(Namespace::real_time);
    let trial = run(&lab, 0, TRIAL_SECONDS);
    balance(&trial);
    let rate = trial.receiver.rx(0) / TRIAL_SECONDS / 2;
    println!("half of the saturation rate: {rate} packets per second, for {seconds} s");
    let soak = run(&lab, rate, seconds);
    println!("{:#}", soak.bridge.0["ports"]);
    balance(&soak);
    let Run { sender, bridge, receiver } = &soak;
    // The sender must reach at least half of its rate; otherwise the test would prove less than
    // intended.
    // Other tests measure how well gen keeps a rate.
    let kept = sender.tx(0) >= rate * seconds / 2;
    assert!(kept, "the sender did not keep its rate: {sender:?}");
    sender.lossless();
    bridge.lossless();
    receiver.lossless();
    let count = |key: &str| receiver.0[key].as_u64().unwrap();
    assert_eq!(count("received"), sender.tx(0), "{receiver:?}");
    assert_eq!(["lost", "reordered", "duplicates", "corrupt", "foreign"].map(count), [0; 5]);
    println!("{} packets sent, none lost", sender.tx(0));
}

/// Asserts that each program received the frames that the previous program sent, or lost them by a
/// named cause.
fn balance(run: &Run) {
    let Run { sender, bridge, receiver } = run;
    assert_eq!(bridge.rx(0) + bridge.drops(0, "rx"), sender.tx(0), "sender to bridge: {bridge:?}");
    bridge.balanced();
    let received = receiver.rx(0) + receiver.drops(0, "rx");
    assert_eq!(received, bridge.tx(1), "bridge to receiver: {receiver:?}");
}
