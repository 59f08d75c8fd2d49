//! A burst of frames over a slow link with a small queue, in virtual time.
//!
//! `cargo run -p slipring-link --example slow_hop`

use slipring_link::{
    Carrier, DelaySpec, Delivery, EntryId, FrameArrival, FrameHandle, Framing, LinkId,
    LinkQueueSpec, LinkSpec, LostFrame, Network, NetworkSpec, RateSpec, SpecError,
};

/// A carrier that stores no bytes and prints what happens to each frame. The handle is the number
/// of the frame.
struct Printer;

impl Carrier for Printer {
    fn frame(&mut self, _: FrameHandle) -> &mut [u8] {
        &mut []
    }

    fn copy(&mut self, _: FrameHandle) -> Option<FrameHandle> {
        None
    }

    fn deliver(&mut self, delivery: Delivery) {
        println!("frame {} leaves at {} us", delivery.handle.0, delivery.release_ns / 1_000);
    }

    fn lose(&mut self, lost: LostFrame) {
        println!("frame {} is lost to {} at {} us", lost.handle.0, lost.cause, lost.at_ns / 1_000);
    }
}

fn main() -> Result<(), SpecError> {
    let link = LinkSpec {
        rate: RateSpec::Constant { bps: 10_000_000 },
        framing: Framing::ETHER,
        queue: LinkQueueSpec { packets: Some(4), ..LinkQueueSpec::default() },
        delay: DelaySpec::constant(20_000_000),
        ..LinkSpec::wire("up")
    };
    let mut network = Network::new(&NetworkSpec::single(link), 42)?;
    let burst: Vec<_> = (0..8)
        .map(|number| FrameArrival {
            arrival_ns: u64::from(number) * 300_000,
            handle: FrameHandle(number),
            len: 1_000,
        })
        .collect();
    network.push(EntryId(0), &burst, &mut Printer);
    while let Some(next_ns) = network.next_ns() {
        network.run(next_ns, &mut Printer);
    }
    let counters = network.counters(LinkId(0));
    let (output, lost) = (counters.output.packets, counters.drops.total().packets);
    println!("{} came, {output} left, {lost} were lost", counters.input.packets);
    Ok(())
}
