//! Routes a packet from one subnet to another, after its next hop has answered an ARP request.

use slipring_gateway::{GatewayPort, RouterInterface, RouterInterfaceError, Subnet, TtlPolicy};
use slipring_wire::summary::Summary;
use slipring_wire::{MacAddr, checksum};

fn main() -> Result<(), RouterInterfaceError> {
    let side = |mac, address: &str| {
        let address = address.parse().expect("it is an address");
        RouterInterface::new(MacAddr([2, 0, 0, 0, 0, mac]), vec![Subnet::new(address, 24)?], vec![])
    };
    let (left, right) = (side(1, "10.1.0.1")?, side(2, "10.2.0.1")?);
    let mut entry = GatewayPort::new(left.clone(), right.clone(), TtlPolicy::Decrement);
    let mut exit = GatewayPort::new(right, left, TtlPolicy::Decrement);

    let mut frame = packet();
    println!("in:    {}  ->  {:?}", Summary::new(&frame), entry.receive(&frame, 0));
    println!("out:   {:?}", exit.send(&mut frame, 0));
    let request = exit.pop().expect("an unknown host is asked for");
    println!("sent:  {}", Summary::new(&request));
    let answer = answer(&request);
    println!("in:    {}  ->  {:?}", Summary::new(&answer), exit.receive(&answer, 1_000));
    let sent = exit.pop().expect("it has answered");
    println!("sent:  {}", Summary::new(&sent));
    Ok(())
}

/// A packet from 10.1.0.7 to 10.2.0.9, addressed to the router's MAC address.
fn packet() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7, 8, 0];
    let mut header = vec![0x45, 0, 0, 46, 0, 0, 0, 0, 64, 253, 0, 0, 10, 1, 0, 7, 10, 2, 0, 9];
    let sum = checksum::of(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    frame.resize(60, 0);
    frame
}

/// The answer of 10.2.0.9 to the router's ARP request.
fn answer(request: &[u8]) -> Vec<u8> {
    let mut answer = request.to_vec();
    let own = [2, 0, 0, 0, 9, 9];
    answer[..6].copy_from_slice(&request[6..12]);
    answer[6..12].copy_from_slice(&own);
    answer[21] = 2;
    answer[22..28].copy_from_slice(&own);
    answer[28..32].copy_from_slice(&request[38..42]);
    answer[32..42].copy_from_slice(&request[22..32]);
    answer
}
