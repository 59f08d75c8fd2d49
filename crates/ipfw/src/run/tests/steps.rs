//! Tests of how many rules a packet visits (is compared with, because the index of the rules does
//! not exclude them), and of the memory that a program of rules takes.

use super::*;
use crate::run::search::steps;

/// Returns how many rules `frame` visits, in a list of rules of one kind that it does not match,
/// followed by a rule that allows everything.
fn visited(body: impl Fn(usize) -> String, frame: Vec<u8>) -> u64 {
    let rules: Vec<String> =
        (0..40).map(|at| format!("add {} count {}", 100 + at, body(at))).collect();
    let mut fixture = Fixture::new(&rules.join("\n"));
    fixture.run("add 60000 allow ip from any to any");
    fixture.firewall.set_me(vec![(Ipv4Addr::new(192, 0, 2, 1).into(), Some(1))]);
    steps::take();
    assert!(fixture.passes(frame));
    let counts = fixture.firewall.counters().iter().filter(|counters| counters.packets > 0);
    assert_eq!(counts.count(), 1, "{}", body(0));
    steps::take()
}

#[test]
fn a_packet_visits_no_rule_that_its_headers_exclude() {
    let bodies: [(&str, &dyn Fn(usize) -> String); 25] = [
        ("source", &|at| format!("ip from 10.9.0.{at} to any")),
        ("sources", &|at| format!("ip from 10.9.0.{at},10.10.0.{at} to any")),
        ("destination", &|at| format!("ip from any to 10.9.{at}.0/24")),
        ("hosts", &|at| format!("ip from 10.9.{at}.0/24{{1,3-5}} to any")),
        ("source of IPv6", &|at| format!("ip from 2001:db9::{at} to any")),
        ("destination of IPv6", &|at| format!("ip from any to 2001:db9:{at}::/48")),
        ("own address", &|_| "ip from me to any".into()),
        ("own address of IPv6", &|_| "ip from any to me6".into()),
        ("source port", &|at| format!("ip from any {} to any", 2000 + at)),
        ("destination port", &|at| format!("ip from any to any {},99", 2000 + at)),
        ("protocol", &|at| format!("{} from any to any", 60 + at)),
        ("family", &|_| "ip6 from any to any".into()),
        ("version", &|_| "ip from any to any ipver 6".into()),
        ("another version", &|_| "ip from any to any ipver 5".into()),
        ("type of Ethernet", &|at| format!("ip from any to any mac-type {}", 1000 + at)),
        ("length", &|at| format!("ip from any to any iplen {}", 1000 + at)),
        ("identification", &|at| format!("ip from any to any ipid {}", 1000 + at)),
        ("time to live", &|at| format!("ip from any to any ipttl {}", 100 + at)),
        ("incoming port", &|_| "ip from any to any recv em1".into()),
        ("outgoing port", &|_| "ip from any to any xmit em1".into()),
        ("port", &|_| "ip from any to any via em1".into()),
        ("address of the port", &|_| "ip from any to any via 192.0.2.1".into()),
        ("direction", &|_| "ip from any to any out".into()),
        ("no direction", &|_| "ip from any to any not in".into()),
        ("either", &|at| format!("ip from any to any {{ dst-port {} or dst-port 9 }}", 2000 + at)),
    ];
    for (what, body) in bodies {
        assert_eq!(visited(body, udp()), 1, "{what}");
    }
}

#[test]
fn bytes_of_masked_addresses_exclude_rules() {
    let source = |at: usize| format!("ip from 10.{at}.0.9:255.0.0.255 to any");
    assert_eq!(visited(source, udp()), 1);
    let middle = |at: usize| format!("ip from 0.0.{}.0:0.0.255.0 to any", at + 1);
    assert_eq!(visited(middle, udp()), 1);
    let destination = |at: usize| format!("ip from any to 10.0.{at}.1:255.255.0.7");
    assert_eq!(visited(destination, udp()), 1);
    let wide = |at: usize| format!("ip from 2001:db8::{}/ffff::ffff to any", at + 9);
    assert_eq!(visited(wide, udp6()), 1);
}

#[test]
fn rules_that_match_are_visited_with_those_that_headers_do_not_decide() {
    let rules: Vec<String> = (0..40)
        .map(|at| format!("add {} count tag 5 udp from any to any {}", 100 + at, 40 + at))
        .collect();
    let mut fixture = Fixture::new(&rules.join("\n"));
    fixture.load(
        "add 200 count ip from any to any tcpwin 9\nadd 210 count ip from any to any tagged 7\n\
         add 220 count ip from any to any tcpmss 9\nadd 60000 allow ip from any to any",
    );
    steps::take();
    assert!(fixture.passes(udp()));
    assert_eq!((steps::take(), fixture.count(113)), (5, 1), "port 53, three others and the last");
    assert!(fixture.passes(udp_ports(1, 9)));
    assert_eq!(steps::take(), 4);
}

#[test]
fn a_longer_list_uses_more_memory() {
    let size = |count: usize| {
        let rules: Vec<String> = (0..count)
            .map(|at| {
                format!(
                    "add 100 count udp from 10.0.{}.{} to any tagged {}",
                    at / 250,
                    at % 250,
                    at + 1
                )
            })
            .collect();
        let fixture = Fixture::new(&rules.join("\n"));
        fixture.firewall.program().unwrap().size_bytes()
    };
    let sizes = [0, 2, 100, 200, 400].map(size);
    assert!(sizes.is_sorted_by(|fewer, more| fewer < more), "{sizes:?}");
    // A rule takes hundreds of bytes: its tests, and one bit in the row of each class of each
    // field.
    let per_rule = (sizes[4] - sizes[3]) / 200;
    assert!((50..2_000).contains(&per_rule), "{per_rule} bytes");
    assert!(sizes[0] >= 16 && sizes[0] < 1_000, "{sizes:?}");
}

#[test]
fn the_size_of_a_program_counts_its_tables_of_ports_and_each_test_of_a_rule() {
    let size = |rules: &str| Fixture::new(rules).firewall.program().unwrap().size_bytes();
    let by_port: Vec<String> =
        (1..=200).map(|port| format!("add count udp from any to any dst-port {port}")).collect();
    assert!(size(&by_port.join("\n")) > 4 * 65_536, "a class of four bytes for each port");
    let tagged = |count: usize| {
        let tests: String = (1..=count).map(|tag| format!(" tagged {tag}")).collect();
        size(&format!("add 100 count ip from any to any{tests}"))
    };
    let [few, many] = [2, 42].map(tagged);
    assert!(many - few >= 40 * 8, "{few} {many}: a test is more than a pointer");
}
