//! Measures how many millions of packets are checked per CPU-second, for rule lists of several
//! lengths. Prints the results next to the required values.
//!
//! `cargo run --release -p slipring-ipfw --example firewall_cost [RULES|patterns]`
//!
//! `RULES` selects one of the lists of rules of five fields: 10, 100, 1000 or 10000.

use std::fmt::Write;
use std::net::Ipv4Addr;

use rustix::time::{ClockId, clock_gettime};
use slipring_ipfw::run::{CheckOutputs, CheckedBatch, Firewall, PacketMetadata};
use slipring_wire::FrameSpec;
use slipring_wire::frame::{IpSpec, Ipv4Spec, L4Spec, PortPair};

const FRAMES: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("per CPU-second, headers parsed");
    if std::env::args().nth(1).as_deref() == Some("patterns") {
        return patterns();
    }
    if only_from_args().is_none() {
        sources()?;
        tables()?;
        tables6()?;
        states()?;
        patterns()?;
    }
    let only = only_from_args();
    println!("rules of five fields, one in ten counts, 4096 flows; million packets");
    for (count, floor) in [(9, 40.0), (99, 30.0), (999, 20.0), (9999, 5.0)] {
        if only.is_some_and(|only: usize| only != count + 1) {
            continue;
        }
        let mut draw = Draw(count as u64 + 1);
        let rules: Vec<_> = (0..count).map(|_| Rule::draw(&mut draw)).collect();
        let mut text = String::new();
        for rule in &rules {
            rule.write(&mut text)?;
        }
        let start = cpu_seconds();
        let mut firewall = Firewall::open(1, [1, 2]);
        firewall.load(&text, 0)?;
        let load = cpu_seconds() - start;
        let mut frames: Vec<_> = (0..FRAMES).map(|_| frame(&mut draw, &rules)).collect();
        let (mut crossing, mut outputs) = (PacketMetadata::incoming(0), CheckOutputs::default());
        let mut now = 0;
        let single = rate(|| {
            now += 1;
            for frame in &mut frames {
                firewall.check(frame, &mut crossing, now, &mut outputs);
            }
        });
        let mut batch = CheckedBatch::default();
        let many = rate(|| {
            now += 1;
            firewall.check_all(&mut frames[..], FRAMES, (0, now), &mut outputs, &mut batch);
        });
        let size = firewall.program().map_or(0, |program| program.size_bytes());
        println!(
            "{:5} rules {single:8.1}  in batches {many:8.1}   floor {floor:5.1}   x {:5.2}   \
             loaded in {:.0} ms, {:.1} MiB",
            count + 1,
            many.max(single) / floor,
            load * 1e3,
            size as f64 / 1_048_576.0
        );
    }
    Ok(())
}

fn only_from_args() -> Option<usize> {
    std::env::args().nth(1).and_then(|count| count.parse().ok())
}

/// Measures rules that match other sources than the packets have, then a rule that allows
/// everything, with packets of one flow: the benchmark of netmap-ipfw.
fn sources() -> Result<(), Box<dyn std::error::Error>> {
    for (count, floor) in [(0, 50.0), (10, 40.0), (100, 30.0), (1000, 20.0)] {
        let rules: String = (0..count)
            .map(|i| format!("add deny ip from 192.168.{}.{} to any\n", i / 250, i % 250))
            .collect();
        let mut firewall = Firewall::open(1, [1, 2]);
        firewall.load(&format!("{rules}add allow ip from any to any"), 0)?;
        let mut frames = vec![FrameSpec::default().build(64)?.bytes.to_vec(); FRAMES];
        let (mut crossing, mut outputs) = (PacketMetadata::incoming(0), CheckOutputs::default());
        let rate = rate(|| {
            for frame in &mut frames {
                firewall.check(frame, &mut crossing, 1, &mut outputs);
            }
        });
        row(&format!("{count} rules for other sources, then allow"), rate, floor);
    }
    Ok(())
}

fn tables() -> Result<(), Box<dyn std::error::Error>> {
    let mut draw = Draw(3);
    let prefixes: Vec<_> = (0..1_000_000)
        .map(|_| (draw.next() as u32, [16, 20, 22, 24, 24, 24, 24, 32][draw.below(8) as usize]))
        .collect();
    let mut text = String::from("table t create\n");
    for lines in prefixes.chunks(64) {
        text.push_str("table t add");
        for (bits, len) in lines {
            let bits = bits & u32::MAX << (32 - len);
            write!(text, " {}/{len} 1", Ipv4Addr::from(bits))?;
        }
        text.push('\n');
    }
    text.push_str("add deny ip from any to table(t,2)\nadd count ip from any to table(t)");
    let mut firewall = Firewall::open(1, [1, 2]);
    let commands = slipring_ipfw::text::parse_file(&text)?;
    let start = cpu_seconds();
    // Some prefixes are drawn twice. `-q` accepts the repetition, as when a file of prefixes is
    // loaded.
    let flags = slipring_ipfw::run::CommandFlags { quiet: true, ..Default::default() };
    firewall.batch(&commands, 0, flags)?;
    row("loads of a million prefixes", 1.0 / (cpu_seconds() - start), 0.5);
    let rate =
        flows_rate(&mut firewall, &prefixes.iter().map(|prefix| prefix.0).collect::<Vec<_>>());
    row("million packets, two rules that ask the table", rate, 30.0 / 2.0);
    Ok(())
}

/// Measures a table of a million prefixes within 2001::/16: the lookups of an address of each
/// prefix, and the addition of one further prefix.
fn tables6() -> Result<(), Box<dyn std::error::Error>> {
    const COUNT: usize = 1_000_000;
    let mut draw = Draw(5);
    let addresses: Vec<u128> = (0..COUNT)
        .map(|_| 0x2001 << 112 | u128::from(draw.next()) << 48 | u128::from(draw.next() >> 16))
        .collect();
    let mut text = String::from("table t create\n");
    for lines in addresses.chunks(64) {
        text.push_str("table t add");
        for bits in lines {
            let len = [32, 40, 44, 48, 48, 48, 56, 64][draw.below(8) as usize];
            let bits = bits & u128::MAX << (128 - len);
            write!(text, " {}/{len} 1", std::net::Ipv6Addr::from(bits))?;
        }
        text.push('\n');
    }
    text.push_str("add deny ip6 from any to table(t,2)\nadd count ip6 from any to table(t)");
    let mut firewall = Firewall::open(1, [1, 2]);
    let commands = slipring_ipfw::text::parse_file(&text)?;
    let flags = slipring_ipfw::run::CommandFlags { quiet: true, ..Default::default() };
    firewall.batch(&commands, 0, flags)?;
    let ip = IpSpec::V6(slipring_wire::frame::Ipv6Spec::default());
    let frame = FrameSpec { ip, ..Default::default() }.build(64)?.bytes;
    let write = |frame: &mut [u8], to: &u128| frame[38..54].copy_from_slice(&to.to_be_bytes());
    let rate = packets_rate(&mut firewall, &frame, &addresses, write);
    row("million packets, two rules that ask a table of IPv6", rate, 30.0 / 2.0);
    let one = slipring_ipfw::text::parse_command("table t add 2001:db8::/48 1")?;
    let start = cpu_seconds();
    firewall.execute(&one, 0, flags)?;
    println!("one more prefix added to it in {:.3} ms", (cpu_seconds() - start) * 1e3);
    Ok(())
}

fn states() -> Result<(), Box<dyn std::error::Error>> {
    let mut firewall = Firewall::open(1, [1, 2]);
    firewall.load("sysctl net.inet.ip.fw.dyn_max=2000000", 0)?;
    firewall.load("add check-state\nadd allow udp from any to any keep-state", 0)?;
    let mut draw = Draw(4);
    let flows: Vec<u32> = (0..1_000_000).map(|_| draw.next() as u32).collect();
    row("million new flows", flows_rate(&mut firewall, &flows), 10.0);
    row("million packets of a million flows", flows_rate(&mut firewall, &flows), 20.0);
    println!("{} states", firewall.states().len());
    Ok(())
}

/// The name of a kind of rules, a function that returns a rule of this kind for the last two bytes
/// of its source address, and the last rule of the list.
type Kind = (&'static str, fn(usize, usize) -> String, &'static str);

/// For each kind of rules, measures rules that match other sources than the packets have, then a
/// rule that allows all UDP packets. The packets belong to 4096 UDP flows.
fn patterns() -> Result<(), Box<dyn std::error::Error>> {
    let kinds: [Kind; 3] = [
        (
            "keep-state",
            |a, b| format!("allow udp from 192.168.{a}.{b} to any keep-state"),
            "allow udp from any to any keep-state",
        ),
        (
            "masks that are no prefix",
            |a, b| format!("deny udp from 192.0.{a}.{b}:255.0.255.255 to any"),
            "allow udp from any to any",
        ),
        (
            "prob",
            |a, b| format!("prob 0.5 deny udp from 192.168.{a}.{b} to any"),
            "allow udp from any to any",
        ),
    ];
    for (name, rule, last) in kinds {
        for count in [1, 10, 100, 1000] {
            let rules: String =
                (1..count).map(|i| format!("add {}\n", rule(i / 250 + 1, i % 250))).collect();
            let mut firewall = Firewall::open(1, [1, 2]);
            firewall.load(&format!("{rules}add {last}"), 0)?;
            let flow = |src: u16| {
                let l4 = L4Spec::Udp(PortPair { src, dst: 53 });
                let frame = FrameSpec { l4, ..Default::default() }.build(64);
                frame.map(|frame| frame.bytes.to_vec())
            };
            let mut frames = (0..FRAMES as u16).map(flow).collect::<Result<Vec<_>, _>>()?;
            let (mut outputs, mut batch) = (CheckOutputs::default(), CheckedBatch::default());
            let rate = rate(|| {
                for frames in frames.chunks_mut(256) {
                    firewall.check_all(frames, frames.len(), (0, 1), &mut outputs, &mut batch);
                }
            });
            row(&format!("{count} rules, {name}"), rate, 10.0);
        }
    }
    Ok(())
}

/// Returns millions of packets per CPU-second for packets to these destinations in turn.
fn flows_rate(firewall: &mut Firewall, destinations: &[u32]) -> f64 {
    let frame = FrameSpec::default().build(64).expect("64 bytes hold these headers").bytes;
    let write = |frame: &mut [u8], to: &u32| frame[30..34].copy_from_slice(&to.to_be_bytes());
    packets_rate(firewall, &frame, destinations, write)
}

/// Like `flows_rate`, but for copies of `frame`, each with one of the destinations.
fn packets_rate<T>(
    firewall: &mut Firewall,
    frame: &[u8],
    destinations: &[T],
    write: impl Fn(&mut [u8], &T),
) -> f64 {
    let mut frames = vec![frame.to_vec(); 64];
    let mut outputs = CheckOutputs::default();
    let mut batch = CheckedBatch::default();
    let start = cpu_seconds();
    for some in destinations.chunks(64) {
        for (frame, to) in frames.iter_mut().zip(some) {
            write(frame, to);
        }
        firewall.check_all(&mut frames[..], some.len(), (0, 1), &mut outputs, &mut batch);
    }
    destinations.len() as f64 / (cpu_seconds() - start) / 1e6
}

fn row(name: &str, rate: f64, floor: f64) {
    println!("{name:50} {rate:8.1}   floor {floor:5.1}   x {:5.2}", rate / floor);
}

/// A rule on protocol, prefixes and ports. One rule in ten only counts packets.
struct Rule {
    counts: bool,
    tcp: bool,
    src: Option<(u32, u32)>,
    dst: Option<(u32, u32)>,
    src_ports: Option<(u16, u16)>,
    dst_ports: Option<(u16, u16)>,
}

impl Rule {
    fn draw(draw: &mut Draw) -> Self {
        let mut prefix = |open: u64| {
            let len = [8, 16, 20, 24, 24, 28, 32, 32][draw.below(8) as usize];
            let bits = draw.next() as u32 & u32::MAX << (32 - len);
            (draw.below(100) >= open).then_some((bits, len))
        };
        let (src, dst) = (prefix(30), prefix(20));
        let mut ports = |open: u64, width: u64| {
            let first = draw.below(60_000) as u16;
            let last = first + draw.below(width) as u16;
            (draw.below(100) >= open).then_some((first, last))
        };
        let (src_ports, dst_ports) = (ports(90, 1000), ports(30, 3));
        // A rule without prefixes and destination ports would match most or all packets of its
        // protocol, so that these would never reach later rules.
        let dst = dst.or((src.is_none() && dst_ports.is_none()).then_some((0x0102_0304, 32)));
        Self {
            counts: draw.below(10) == 0,
            tcp: draw.below(2) == 0,
            src,
            dst,
            src_ports,
            dst_ports,
        }
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let address = |prefix: Option<(u32, u32)>| {
            prefix.map_or("any".into(), |(bits, len)| format!("{}/{len}", Ipv4Addr::from(bits)))
        };
        let ports = |ports: Option<(u16, u16)>| {
            ports.map_or(String::new(), |(first, last)| format!(" {first}-{last}"))
        };
        writeln!(
            text,
            "add {} {} from {}{} to {}{}",
            if self.counts { "count" } else { "allow" },
            if self.tcp { "tcp" } else { "udp" },
            address(self.src),
            ports(self.src_ports),
            address(self.dst),
            ports(self.dst_ports)
        )
    }
}

/// Builds a frame that some rule matches.
fn frame(draw: &mut Draw, rules: &[Rule]) -> Vec<u8> {
    let random = Rule::draw(draw);
    let rule = rules.get(draw.below(rules.len().max(1) as u64) as usize).unwrap_or(&random);
    let mut address = |prefix: Option<(u32, u32)>| {
        let (bits, len) = prefix.unwrap_or((0, 0));
        let host = (draw.next() as u32).checked_shr(len).unwrap_or(0);
        Ipv4Addr::from(bits | host)
    };
    let ip = Ipv4Spec { src: address(rule.src), dst: address(rule.dst), ..Default::default() };
    let mut port = |ports: Option<(u16, u16)>| ports.map_or(draw.next() as u16, |ports| ports.0);
    let ports = PortPair { src: port(rule.src_ports), dst: port(rule.dst_ports) };
    let l4 = if rule.tcp {
        L4Spec::Tcp(slipring_wire::frame::TcpSpec { ports, ..Default::default() })
    } else {
        L4Spec::Udp(ports)
    };
    let spec = FrameSpec { ip: IpSpec::V4(ip), l4, ..Default::default() };
    spec.build(64).expect("64 bytes hold these headers").bytes.to_vec()
}

/// Returns the rate of the best of several runs, in millions of packets per CPU-second.
fn rate(mut all: impl FnMut()) -> f64 {
    let go = |_| {
        let start = cpu_seconds();
        for _ in 0..200 {
            all();
        }
        200.0 * FRAMES as f64 / (cpu_seconds() - start) / 1e6
    };
    (0..5).map(go).fold(0.0, f64::max)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Marsaglia's xorshift, with a final multiplication; returns the same numbers in every run.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 33) % end
    }
}
