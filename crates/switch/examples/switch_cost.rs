//! Prints what a frame of 64 bytes costs, in nanoseconds, for several numbers of addresses and
//! ports: the decision alone, and decision and copy. For flooding, prints the cost per copy.

use std::hint::black_box;
use std::time::Instant;

use slipring_switch::{
    DeliveryCounts, FrameSlots, SlotMarks, Switch, SwitchBatch, SwitchConfig, SwitchPacket,
    SwitchPortConfig, SwitchPortId,
};

/// The distance in bytes between the starts of two frames in memory.
const BUF: usize = 64;
/// Number of batches, each with different frames, that a source sends in turn.
const RINGS: usize = 20;
const BATCH: usize = 512;
const FRAME: usize = 64;

/// A switch, the frames that a source sends, and the memory of a destination's ring.
struct Fixture {
    switch: Switch,
    batch: SwitchBatch,
    frames: Vec<u8>,
    sink: Vec<u8>,
    turn: usize,
}

impl Fixture {
    fn new(ports: u32) -> Self {
        let mut switch = Switch::new(SwitchConfig::default());
        for _ in 0..ports {
            switch.attach(SwitchPortConfig::default()).expect("a good port");
        }
        let mut sink = vec![0; BUF * BATCH];
        sink.fill(1);
        Self {
            switch,
            batch: SwitchBatch::new(),
            frames: vec![0; BUF * BATCH * RINGS],
            sink,
            turn: 0,
        }
    }

    /// Makes each of `macs` stations send a frame, so that the switch learns their addresses. The
    /// stations are spread over all ports except the first.
    fn teach(&mut self, macs: u64) {
        let ports = self.switch.ports().count() as u32;
        for mac in 0..macs {
            write(&mut self.frames, u64::MAX, station(mac));
            let port = SwitchPortId(1 + (mac % u64::from(ports - 1)) as u32);
            self.switch.forward(0, port, 0, [packet(&self.frames, 0)], &mut self.batch);
            self.switch.settle(&mut self.batch);
        }
    }

    fn turn(&mut self, copies: bool) -> u64 {
        let ring = self.turn % RINGS * BATCH * BUF;
        let frames = &self.frames[ring..ring + BATCH * BUF];
        self.turn += 1;
        let packets = (0..BATCH).map(|i| packet(frames, i));
        self.switch.forward(0, SwitchPortId(0), 0, packets, &mut self.batch);
        let mut made = 0;
        for i in 0..self.batch.len() {
            let mut delivered = DeliveryCounts::default();
            for (to, copy) in self.batch.destination(i).copies().enumerate() {
                if copies {
                    let (from, to) = (copy.slots.first as usize * BUF, to % BATCH * BUF);
                    self.sink[to..to + FRAME].copy_from_slice(&frames[from..from + FRAME]);
                }
                delivered.packets += 1;
                delivered.bytes += u64::from(copy.len);
            }
            made += u64::from(delivered.packets);
            self.batch.report(i, delivered);
        }
        self.switch.settle(&mut self.batch);
        black_box(&mut self.sink);
        made
    }

    /// Returns the cost of a delivered frame in ns: the minimum of several measurements, because
    /// other programs disturb it least.
    fn measure(&mut self, copies: bool) -> f64 {
        (0..20)
            .map(|_| {
                let (start, mut made) = (Instant::now(), 0);
                for _ in 0..200 {
                    made += self.turn(copies);
                }
                start.elapsed().as_nanos() as f64 / made as f64
            })
            .fold(f64::INFINITY, f64::min)
    }
}

fn station(number: u64) -> u64 {
    0x0200_0000_0000 | number
}

fn write(frame: &mut [u8], to: u64, from: u64) {
    frame[..6].copy_from_slice(&to.to_be_bytes()[2..]);
    frame[6..12].copy_from_slice(&from.to_be_bytes()[2..]);
}

fn packet(frames: &[u8], i: usize) -> SwitchPacket<'_> {
    SwitchPacket {
        header: &frames[i * BUF..i * BUF + 18],
        len: FRAME as u32,
        slots: FrameSlots { first: i as u32, count: 1 },
        marks: SlotMarks::default(),
    }
}

fn main() {
    println!("unicast: ns/frame          decide   decide + copy");
    for ports in [2, 16, 256] {
        for macs in [1, 1000, 10_000] {
            let mut fixture = Fixture::new(ports);
            fixture.teach(macs);
            for i in 0..(BATCH * RINGS) as u64 {
                // Spreads the destinations over all stations, in an order that no prefetcher
                // predicts.
                let to = i * 7919 % macs;
                write(&mut fixture.frames[i as usize * BUF..], station(to), station(1 << 20));
            }
            let [decide, both] = [false, true].map(|copies| fixture.measure(copies));
            println!("{ports:4} ports, {macs:6} addresses {decide:7.2} {both:12.2}");
        }
    }
    println!("many sources: ns/frame");
    for macs in [1, 10_000] {
        let mut fixture = Fixture::new(2);
        fixture.teach(1);
        for i in 0..(BATCH * RINGS) as u64 {
            let from = station((1 << 20) + i * 7919 % macs);
            write(&mut fixture.frames[i as usize * BUF..], station(0), from);
        }
        let [decide, both] = [false, true].map(|copies| fixture.measure(copies));
        println!("   2 ports, {macs:6} sources   {decide:7.2} {both:12.2}");
    }
    println!("flooding to 16: ns/copy");
    for ports in [17, 256] {
        let mut fixture = Fixture::new(17);
        for _ in 17..ports {
            let deaf = SwitchPortConfig { takes_broadcast: false, ..SwitchPortConfig::default() };
            fixture.switch.attach(deaf).expect("a good port");
        }
        for i in 0..BATCH * RINGS {
            write(&mut fixture.frames[i * BUF..], u64::MAX, station(1));
        }
        let [decide, both] = [false, true].map(|copies| fixture.measure(copies));
        println!("{ports:4} ports                   {decide:7.2} {both:12.2}");
    }
}
