//! Sends ten packets at 1.5 Mpps over a link with a delay of 2 us and up to 3 us of jitter, in
//! virtual time, and prints when each one leaves the link.

use slipring_model::{DelayLine, Pacer, Rate, Stream};

fn main() {
    let mut pacer = Pacer::new(Rate::PacketsPerSec(1_500_000), 0);
    let mut jitter = Stream::new(2026, "example/jitter");
    let mut link = DelayLine::new();
    for packet in 0..10 {
        let sent_ns = pacer.next(0, 0);
        link.push(sent_ns + 2_000 + jitter.below(3_000), packet);
        println!("{sent_ns:>6} ns  packet {packet} sent");
    }
    while let Some((arrival_ns, packet)) = link.pop() {
        println!("{arrival_ns:>6} ns  packet {packet} arrives");
    }
}
