//! Prints the cost per packet of a translator: `cargo run --release -p slipring-nat --example
//! nat_cost`.

use std::time::Instant;

use slipring_nat::{
    NatConfig, NatDirection, NatMode, NatModes, NatScope, OutsideAddress, Translator,
};
use slipring_wire::FrameSpec;

const PACKETS: u32 = 2_000_000;

fn translator() -> Translator {
    let outside = OutsideAddress::Address([203, 0, 113, 9].into());
    let modes = NatModes::default().with(NatMode::SamePorts);
    Translator::new(NatConfig { outside, modes, ..NatConfig::default() }, 7)
}

/// Returns the nanoseconds per packet. Successive packets belong to `flows` flows in turn.
fn cost(translator: &mut Translator, packet: &[u8], flows: u32) -> f64 {
    let mut packet = packet.to_vec();
    let start = Instant::now();
    for number in 0..PACKETS {
        let flow = number % flows;
        // Clients differ in their address, port and remote host.
        packet[12..16].copy_from_slice(&(0x0a00_0000 | flow >> 8).to_be_bytes());
        packet[20..22].copy_from_slice(&(1024 + (flow & 0xff) as u16).to_be_bytes());
        packet[16..20].copy_from_slice(&(0xc000_0000 | flow >> 8).to_be_bytes());
        translator.translate(&mut packet, NatDirection::Out, NatScope::All, 1);
    }
    start.elapsed().as_nanos() as f64 / f64::from(PACKETS)
}

fn main() {
    let frame = FrameSpec::default().build(60).expect("a frame that holds its headers").bytes;
    let packet = &frame[14..];
    for flows in [1, 1000, 100_000, 1_000_000] {
        let mut translator = translator();
        let first = cost(&mut translator, packet, flows);
        let known = cost(&mut translator, packet, flows);
        println!("{flows:>9} flows: {first:6.1} ns a packet at first, {known:6.1} ns once known");
    }
}
