//! Tests of the dataplane alone, in virtual time.
#![allow(clippy::unwrap_used)]

mod balance;
mod bypass;
mod directions;
mod shaping;
mod together;

use std::net::Ipv4Addr;

use slipring_dummynet::Dummynet;
use slipring_dummynet::text::DummynetCommand;
use slipring_firewall::dataplane::{
    Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput, PortMap, RuleCheckPasses,
};
use slipring_ipfw::run::{Firewall, LogEvent, PortIndex};
use slipring_wire::frame::{IpSpec, Ipv4Spec, L4Spec, PortPair};
use slipring_wire::{FrameSpec, MacAddr};

/// Collects the frames that were sent and the lines that were logged.
#[derive(Debug, Default)]
struct Sink {
    sent: Vec<(PortIndex, Vec<u8>)>,
    lines: Vec<String>,
    is_full: bool,
}

impl DataplaneOutput for Sink {
    fn send(&mut self, port: PortIndex, frame: &[u8]) -> Result<(), DataplaneLoss> {
        if self.is_full {
            return Err(DataplaneLoss::TxFull);
        }
        self.sent.push((port, frame.to_vec()));
        Ok(())
    }

    fn log(&mut self, event: LogEvent) {
        self.lines.push(event.line);
    }

    fn is_watched(&self) -> bool {
        true
    }

    fn count_unwatched(&mut self, lines: u64) {
        panic!("{lines} lines were not written");
    }
}

/// A dataplane between the ports em0, em1, …, with a clock that the test advances.
struct Fixture {
    master: Firewall,
    dataplane: Dataplane,
    sink: Sink,
    now: DataplaneNanos,
}

const MS: DataplaneNanos = 1_000_000;
const SECOND: DataplaneNanos = 1000 * MS;

impl Fixture {
    fn with(rules: &str, map: PortMap, passes: RuleCheckPasses) -> Self {
        let mut master = Firewall::new(1, [1, 2]);
        master.set_plain(true);
        master.set_ports((0..map.ports()).map(|port| format!("em{port}")).collect());
        let dataplane =
            Dataplane::new(Firewall::new(1, [1, 2]), Dummynet::new(1, [1, 2]), map, passes);
        let mut fixture = Self { master, dataplane, sink: Sink::default(), now: 0 };
        fixture.load(rules);
        fixture
    }

    fn new(rules: &str) -> Self {
        Self::with(rules, PortMap::crossed(), RuleCheckPasses::Auto)
    }

    /// Creates the dataplane with number `id` of several that share the flows.
    fn at(id: u16, rules: &str) -> Self {
        let mut fixture = Self::new("");
        fixture.dataplane = fixture.dataplane.with_id(id);
        fixture.load(rules);
        fixture
    }

    /// Executes commands for rules and pipes.
    fn load(&mut self, rules: &str) {
        for reply in self.master.load(rules, self.now).unwrap() {
            let Some(shaper) = reply.shaper else { continue };
            let Ok(DummynetCommand::Config(config)) = DummynetCommand::parse(&shaper.text) else {
                panic!("{}", shaper.text)
            };
            self.dataplane.shaper_mut().configure(self.now, config, &mut |_| {}).unwrap();
        }
        self.dataplane.adopt(&mut self.master.ruleset());
    }

    /// Offers a frame from a port. Returns the port to which the frame goes immediately, the last
    /// one if it goes to several; `None` if it goes nowhere, or only later.
    fn offer(&mut self, mut frame: Vec<u8>, from: PortIndex) -> Option<PortIndex> {
        let output = self.dataplane.offer(&mut frame, from, self.now, &mut self.sink);
        assert!(self.dataplane.is_balanced(), "{:?}", self.dataplane.counters());
        output
    }

    /// Advances the clock. Returns, for each frame that leaves in this time, when it leaves and by
    /// which port.
    fn pass(&mut self, time: DataplaneNanos) -> Vec<(DataplaneNanos, PortIndex)> {
        let (until, mut left) = (self.now + time, Vec::new());
        while let Some(due) = self.dataplane.next_ns().filter(|&due| due <= until) {
            let before = self.sink.sent.len();
            self.now = self.now.max(due);
            self.dataplane.run(self.now, &mut self.sink);
            assert!(self.dataplane.is_balanced(), "{:?}", self.dataplane.counters());
            left.extend(self.sink.sent[before..].iter().map(|(port, _)| (self.now, *port)));
        }
        self.now = until;
        left
    }

    fn count(&self, number: u16) -> u64 {
        let mut rules = self.dataplane.firewall().config().list.iter();
        rules.find(|(entry, _)| entry.number == number).unwrap().1.packets
    }
}

fn udp(dst_port: u16, len: usize) -> Vec<u8> {
    from_host(1, dst_port, len)
}

fn from_host(host: u8, dst_port: u16, len: usize) -> Vec<u8> {
    let ip = Ipv4Spec {
        src: Ipv4Addr::new(10, 0, 0, host),
        dst: Ipv4Addr::new(10, 1, 0, 1),
        ..Default::default()
    };
    let spec = FrameSpec {
        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
        ip: IpSpec::V4(ip),
        l4: L4Spec::Udp(PortPair { src: 1000, dst: dst_port }),
        ..Default::default()
    };
    spec.build(len).unwrap().bytes.to_vec()
}
