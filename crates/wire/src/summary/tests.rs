use super::*;
use crate::assigned::{IpProto, VlanTag};
use crate::frame::{EchoKind, EchoSpec, FrameSpec, IpSpec, Ipv6Spec, L4Spec, TcpSpec};
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

fn line(frame: &[u8]) -> String {
    Summary::new(frame).to_string()
}

fn v6(l4: L4Spec) -> FrameSpec {
    FrameSpec { ip: IpSpec::V6(Ipv6Spec::default()), l4, ..FrameSpec::default() }
}

fn built(spec: &FrameSpec, payload_len: usize) -> Vec<u8> {
    spec.build(spec.header_len() + payload_len).unwrap().bytes
}

fn tcp(flags: u8) -> L4Spec {
    L4Spec::Tcp(TcpSpec { seq: 100, ack: 7, flags, window: 502, ..TcpSpec::default() })
}

#[test]
fn udp_of_both_versions() {
    assert_eq!(
        line(&built(&FrameSpec::default(), 18)),
        "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18"
    );
    assert_eq!(
        line(&built(&v6(FrameSpec::default().l4), 0)),
        "IP6 fd00::1.1234 > fd00:0:0:1::1.1234: UDP, length 0"
    );
}

#[test]
fn tcp_flags_and_numbers() {
    let of = |flags, len| {
        let text = line(&built(&FrameSpec { l4: tcp(flags), ..FrameSpec::default() }, len));
        text.split_once(": ").unwrap().1.to_string()
    };
    assert_eq!(of(0x02, 0), "Flags [S], seq 100, win 502, length 0");
    assert_eq!(of(0x12, 0), "Flags [S.], seq 100, ack 7, win 502, length 0");
    assert_eq!(of(0x18, 10), "Flags [P.], seq 100:110, ack 7, win 502, length 10");
    assert_eq!(of(0x10, 0), "Flags [.], ack 7, win 502, length 0");
    assert_eq!(of(0xc2, 0), "Flags [SEW], seq 100, win 502, length 0");
    assert_eq!(of(0x20, 0), "Flags [U], win 502, urg 0, length 0");
    assert_eq!(of(0, 0), "Flags [none], win 502, length 0");
}

fn with_tcp_options(options: &[u8]) -> String {
    let mut frame = built(&FrameSpec { l4: tcp(0x02), ..FrameSpec::default() }, 0);
    frame.extend(options);
    frame[16..18].copy_from_slice(&(40 + options.len() as u16).to_be_bytes());
    frame[46] = ((20 + options.len()) as u8 / 4) << 4;
    line(&frame).split_once("win 502, ").unwrap().1.to_string()
}

#[test]
fn tcp_options() {
    let options = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 3, 1, 3, 3, 7];
    assert_eq!(
        with_tcp_options(&options),
        "options [mss 1460,sackOK,TS val 9 ecr 3,nop,wscale 7], length 0"
    );
    assert_eq!(
        with_tcp_options(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        "options [nop,nop,sack 1 {1:2}], length 0"
    );
    assert_eq!(with_tcp_options(&[0, 0, 0, 0]), "options [eol], length 0");
    assert_eq!(with_tcp_options(&[9, 0, 0, 0]), "options [[bad opt]");
    assert_eq!(with_tcp_options(&[9, 9, 0, 0]), "options [[bad opt]");
}

#[test]
fn echo_of_both_versions() {
    let echo = |kind| L4Spec::Echo(EchoSpec { kind, id: 3, seq: 9 });
    let request = FrameSpec { l4: echo(EchoKind::Request), ..FrameSpec::default() };
    assert_eq!(
        line(&built(&request, 56)),
        "IP 10.0.0.1 > 10.1.0.1: ICMP echo request, id 3, seq 9, length 64"
    );
    assert_eq!(
        line(&built(&v6(echo(EchoKind::Reply)), 56)),
        "IP6 fd00::1 > fd00:0:0:1::1: ICMP6, echo reply, id 3, seq 9, length 64"
    );
}

fn icmp(v6_proto: bool, message: &[u8]) -> String {
    let echo = L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 0, seq: 0 });
    let spec = if v6_proto { v6(echo) } else { FrameSpec { l4: echo, ..FrameSpec::default() } };
    let mut frame = built(&spec, message.len() - 8);
    let start = frame.len() - message.len();
    frame[start..].copy_from_slice(message);
    line(&frame).split_once(": ").unwrap().1.to_string()
}

#[test]
fn icmp_errors_name_what_they_are_about() {
    let original = &built(&FrameSpec::default(), 0)[14..42];
    let message = |head: [u8; 8]| icmp(false, &[&head[..], original].concat());
    assert_eq!(
        message([3, 3, 0, 0, 0, 0, 0, 0]),
        "ICMP 10.1.0.1 udp port 1234 unreachable, length 36"
    );
    assert_eq!(message([3, 1, 0, 0, 0, 0, 0, 0]), "ICMP host 10.1.0.1 unreachable, length 36");
    assert_eq!(
        message([3, 4, 0, 0, 0, 0, 5, 0xdc]),
        "ICMP 10.1.0.1 unreachable - need to frag (mtu 1500), length 36"
    );
    assert_eq!(message([11, 0, 0, 0, 0, 0, 0, 0]), "ICMP time exceeded in-transit, length 36");
    assert_eq!(
        message([5, 1, 0, 0, 10, 0, 0, 9]),
        "ICMP redirect 10.1.0.1 to host 10.0.0.9, length 36"
    );
    assert_eq!(icmp(false, &[3, 3, 0, 0, 0, 0, 0, 0]), " [|icmp]");
    assert_eq!(icmp(false, &[42, 1, 0, 0, 0, 0, 0, 0]), "ICMP type-#42, length 8");
}

#[test]
fn icmpv6_errors_name_what_they_are_about() {
    let original = &built(&v6(tcp(2)), 0)[14..];
    let message = |code| icmp(true, &[&[1, code, 0, 0, 0, 0, 0, 0][..], original].concat());
    assert_eq!(
        message(4),
        "ICMP6, destination unreachable, unreachable port, fd00:0:0:1::1 tcp port 1234, length 68"
    );
    assert_eq!(
        message(0),
        "ICMP6, destination unreachable, unreachable route fd00:0:0:1::1, length 68"
    );
    assert_eq!(
        icmp(true, &[1, 3, 0, 0, 0, 0, 0, 0]),
        "ICMP6, destination unreachable, unreachable address [|icmp6]"
    );
}

#[test]
fn discovery_messages() {
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    let with = |kind: u8| {
        let mut message = message.clone();
        message[0] = kind;
        icmp(true, &message)
    };
    assert_eq!(with(135), "ICMP6, neighbor solicitation, who has fe80::2, length 24");
    assert_eq!(with(136), "ICMP6, neighbor advertisement, tgt is fe80::2, length 24");
    assert_eq!(with(133), "ICMP6, router solicitation, length 24");
    assert_eq!(with(134), "ICMP6, router advertisement, length 24");
    assert!(
        with(143).starts_with("ICMP6, multicast listener report v2, 0 group record(s), length")
    );
    assert!(with(99).starts_with("ICMP6, unknown icmp6 type (99), length 24\n\t0x0000:  "));
    assert_eq!(icmp(true, &[2, 0, 0, 0, 0, 0, 5, 0]), "ICMP6, packet too big, mtu 1280, length 8");
}

fn arp(operation: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1, 8, 6]);
    frame.extend([0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
    frame.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    frame
}

#[test]
fn arp_questions_and_answers() {
    assert_eq!(line(&arp(1)), "ARP, Request who-has 10.0.0.2 tell 10.0.0.1, length 28");
    assert_eq!(line(&arp(2)), "ARP, Reply 10.0.0.1 is-at 02:00:00:00:00:01, length 28");
    assert_eq!(
        line(&arp(8)),
        "ARP, Inverse Request who-is 00:00:00:00:00:00 tell 02:00:00:00:00:01, length 28"
    );
    assert_eq!(line(&arp(1)[..41]), " [|arp]");
}

#[test]
fn link_layer_and_tags() {
    let spec = FrameSpec { tags: vec![VlanTag::new(5, 3).into()], ..FrameSpec::default() };
    let frame = built(&spec, 18);
    assert_eq!(line(&frame), "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18");
    let text = format!("{:#}", Summary::new(&frame));
    assert!(text.contains(", ethertype 802.1Q (0x8100), length 64: vlan 5, p 3, "), "{text}");
    assert!(
        text.ends_with(", ethertype IPv4 (0x0800), 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18")
    );
    assert_eq!(
        format!("{:#}", Summary::new(&arp(1))),
        "02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, ethertype ARP (0x0806), length 42: \
         Request who-has 10.0.0.2 tell 10.0.0.1, length 28"
    );
    let mut other = frame.clone();
    other[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert!(
        Summary::new(&other)
            .with_wire_len(100)
            .to_string()
            .ends_with(", ethertype LLDP (0x88cc), length 100: ")
    );
    other[12..14].copy_from_slice(&[0, 38]);
    assert!(line(&other).contains("Unknown SAP 0x04 > Unknown SAP 0x60 "), "{}", line(&other));
}

#[test]
fn fragments_show_where_they_belong() {
    let mut frame = built(&FrameSpec::default(), 18);
    frame[18..22].copy_from_slice(&[0, 7, 0x20, 0]);
    assert_eq!(line(&frame), "IP 10.0.0.1.1234 > 10.1.0.1.1234: UDP, length 18");
    frame[20..22].copy_from_slice(&[0, 185]);
    assert_eq!(line(&frame), "IP 10.0.0.1 > 10.1.0.1: ip-proto-17");
    let mut frame = built(&v6(FrameSpec::default().l4), 0);
    frame.splice(54..54, [IpProto::UDP.0, 0, 5, 0xc9, 0, 0, 0, 9]);
    frame[18..21].copy_from_slice(&[0, 16, IpProto::FRAGMENT.0]);
    assert!(line(&frame).ends_with("frag (1480|8)"), "{}", line(&frame));
}

#[test]
fn frames_cut_short_say_where() {
    let frame = built(&FrameSpec { l4: tcp(2), ..FrameSpec::default() }, 20);
    assert_eq!(line(&frame[..13]), " [|ether]");
    assert_eq!(line(&frame[..33]), "IP  [|ip]");
    let cut = Summary::new(&frame[..50]).with_wire_len(74).to_string();
    assert_eq!(cut, "IP 10.0.0.1.1234 > 10.1.0.1.1234:  [|tcp]");
    let mut bad = frame;
    bad[14] = 0x42;
    assert_eq!(line(&bad), "IP bad-hlen 8");
}

#[test]
fn hex_dump_hides_control_characters() {
    let text = HexDump(b"GET / HTTP/1.1\r\n\x1b[2J!").to_string();
    assert_eq!(
        text,
        "\t0x0000:  4745 5420 2f20 4854 5450 2f31 2e31 0d0a  GET./.HTTP/1.1..\n\
         \t0x0010:  1b5b 324a 21                             .[2J!\n"
    );
    assert_eq!(HexDump(&[]).to_string(), "");
}

proptest! {
    #[test]
    fn any_bytes_print_as_printable_text_whatever_is_asked(
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        kind in prop::sample::select(vec![[8u8, 0], [8, 6], [0x86, 0xdd], [0x81, 0], [0, 60]]),
        first in prop::sample::select(vec![0x45u8, 0x60, 0x46]),
        next in prop::sample::select(vec![1u8, 2, 6, 17, 43, 44, 47, 51, 58, 60, 89, 112]),
        port in prop::sample::select(vec![53u16, 67, 80, 123, 3784, 4789, 5353, 9]),
        verbose in 0u8..4,
        link in any::<bool>(),
    ) {
        let [high, low] = port.to_be_bytes();
        for (at, byte) in [
            (12, kind[0]), (13, kind[1]), (14, first), (16, 0), (20, next), (23, next),
            (36, high), (37, low), (56, high), (57, low), (20 + 36, high),
        ] {
            if let Some(slot) = frame.get_mut(at) {
                *slot = byte;
            }
        }
        let detail = Detail { verbose, bytes_follow: false, ..Detail::default() };
        let mut conversations = Conversations::default();
        let summary = Summary::new(&frame).with_detail(detail);
        let written = summary.write(link, Some(&mut conversations));
        prop_assert!(!written.text.is_empty() && written.link_len <= frame.len());
        let is_printable = |byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n');
        prop_assert!(written.text.bytes().all(is_printable), "{}", written.text);
    }
}

#[test]
fn headers_within_headers_end_before_the_stack_does() {
    // IPv4 in IPv4, nested almost as deeply as the total length of a packet permits.
    let mut packet = Vec::new();
    for _ in 0..3000 {
        let total = (packet.len() + 20) as u16;
        let [high, low] = total.to_be_bytes();
        let mut outer = vec![0x45, 0, high, low, 0, 0, 0, 0, 64, 4, 0, 0];
        outer.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        outer.extend(&packet);
        packet = outer;
    }
    let mut frame = vec![2; 12];
    frame.extend([8, 0]);
    frame.extend(packet);
    assert!(line(&frame).ends_with("[too many headers]"));
}

#[test]
fn tcp_numbers_count_from_the_beginning_of_a_conversation() {
    let segment = |flags, seq, ack, is_back: bool, len| {
        let spec = TcpSpec { seq, ack, flags, window: 502, ..TcpSpec::default() };
        let mut frame = built(&FrameSpec { l4: L4Spec::Tcp(spec), ..FrameSpec::default() }, len);
        // The two ports differ, so that the directions can be distinguished.
        let ports = if is_back { [0x16, 0x2e, 0x04, 0xd2] } else { [0x04, 0xd2, 0x16, 0x2e] };
        frame[34..38].copy_from_slice(&ports);
        if is_back {
            let (src, dst) = (frame[26..30].to_vec(), frame[30..34].to_vec());
            frame[26..30].copy_from_slice(&dst);
            frame[30..34].copy_from_slice(&src);
        }
        frame
    };
    let mut conversations = Conversations::default();
    let mut summary = |frame: &[u8]| {
        let text = Summary::new(frame).write(false, Some(&mut conversations)).text;
        text.split_once("Flags ").unwrap().1.to_string()
    };
    assert_eq!(summary(&segment(0x02, 1000, 0, false, 0)), "[S], seq 1000, win 502, length 0");
    assert_eq!(
        summary(&segment(0x12, 5000, 1001, true, 0)),
        "[S.], seq 5000, ack 1001, win 502, length 0"
    );
    assert_eq!(
        summary(&segment(0x18, 1001, 5001, false, 10)),
        "[P.], seq 1:11, ack 1, win 502, length 10"
    );
    assert_eq!(summary(&segment(0x10, 5001, 1011, true, 0)), "[.], ack 11, win 502, length 0");
    let absolute = Detail { is_absolute: true, ..Detail::default() };
    let frame = segment(0x10, 5001, 1011, true, 0);
    let text = Summary::new(&frame).with_detail(absolute).write(false, Some(&mut conversations));
    assert!(text.text.contains("ack 1011, "), "{}", text.text);
}

#[test]
fn packets_that_icmp_errors_quote_are_told_with_verbose() {
    let original = &built(&FrameSpec::default(), 0)[14..42];
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend(original);
    let echo = L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 0, seq: 0 });
    let mut frame = built(&FrameSpec { l4: echo, ..FrameSpec::default() }, message.len() - 8);
    let start = frame.len() - message.len();
    frame[start..].copy_from_slice(&message);
    let text = full(&frame);
    assert!(text.contains("udp port 1234 unreachable, length 36"), "{text}");
    assert!(text.contains("\n\tIP (tos 0x0, ttl "), "{text}");
}

fn full(frame: &[u8]) -> String {
    Summary::new(frame).with_detail(Detail { verbose: 2, ..Detail::default() }).to_string()
}

#[test]
fn full_lines_tell_the_ip_header_and_verify_checksums() {
    let mut frame = built(&FrameSpec::default(), 18);
    let text = full(&frame);
    assert!(text.starts_with("IP (tos 0x0, ttl "), "{text}");
    assert!(text.contains("proto UDP (17), length 46)\n    10.0.0.1.1234 > "), "{text}");
    assert!(text.ends_with(": [udp sum ok] UDP, length 18"), "{text}");
    frame[59] ^= 0x10;
    assert!(full(&frame).contains("[bad udp cksum 0x"), "{}", full(&frame));
    frame[40..42].fill(0);
    assert!(full(&frame).contains("[no cksum] UDP"), "{}", full(&frame));
    frame[24] ^= 1;
    assert!(full(&frame).contains(", bad cksum "), "{}", full(&frame));
    let frame = built(&FrameSpec { l4: tcp(0x02), ..v6(tcp(0x02)) }, 0);
    let text = full(&frame);
    assert!(text.contains("next-header TCP (6) payload length: 20) fd00::1.1234 > "), "{text}");
    assert!(text.contains("Flags [S], cksum 0x") && text.contains(" (correct), seq"), "{text}");
}

#[test]
fn the_traffic_class_of_ipv6_is_told_before_its_flow_label() {
    let mut frame = built(&v6(FrameSpec::default().l4), 4);
    let at = 14;
    frame[at..at + 4].copy_from_slice(&[0x60, 0x51, 0x23, 0x45]);
    let text = full(&frame);
    assert!(text.contains("(class 0x05, flowlabel 0x12345, hlim "), "{text}");
    frame[at..at + 4].copy_from_slice(&[0x6f, 0x00, 0, 0]);
    let text = full(&frame);
    assert!(text.contains("(class 0xf0, hlim "), "{text}");
}

#[test]
fn what_a_dns_query_has_beside_its_question_is_told_in_the_order_of_its_header_but_for_answers() {
    let mut frame = built(&v6(FrameSpec::default().l4), 12);
    frame[56..58].copy_from_slice(&[0, 53]);
    let at = frame.len() - 12;
    frame[at..].copy_from_slice(&[0, 7, 0, 0, 0, 3, 0, 2, 0, 4, 0, 0]);
    let text = line(&frame);
    assert!(text.contains("7 [2a] [3q] [4n]"), "{text}");
}

#[test]
fn quick_lines_are_short() {
    let frame = built(&FrameSpec { l4: tcp(0x18), ..FrameSpec::default() }, 10);
    let text = Summary::new(&frame)
        .with_detail(Detail { is_quick: true, ..Detail::default() })
        .to_string();
    assert_eq!(text, "IP 10.0.0.1.1234 > 10.1.0.1.1234: tcp 10");
}

#[test]
fn bytes_print_as_hex_alone_and_as_text_alone() {
    assert_eq!(Hex(b"abcd\n").to_string(), "\t0x0000:  6162 6364 0a\n");
    assert_eq!(TextDump(b"GET / \r\nHost: \x1b[2J\xff\r").to_string(), "GET / \nHost: .[2J..\n");
}

#[test]
fn a_name_of_dns_follows_at_most_64_pointers() {
    // Byte 0 is the empty name. It is followed by compression pointers. Each of them leads to the
    // pointer before it, and the first one leads to byte 0.
    let pointers = |count: u16| {
        let targets = (0..count).map(|i| if i == 0 { 0 } else { 2 * i - 1 });
        let bytes: Vec<u8> = targets.flat_map(|at| (0xc000 | at).to_be_bytes()).collect();
        [vec![0], bytes].concat()
    };
    let read = |count: u16| {
        let mut line = SummaryLine {
            text: String::new(),
            detail: Detail::default(),
            link: false,
            protocol: "",
            depth: 0,
            conversations: None,
            decode_inner,
        };
        dns::name(&mut line, &pointers(count), usize::from(2 * count - 1)).is_ok()
    };
    assert_eq!([64, 65].map(read), [true, false]);
}

#[test]
fn ipv6_addresses_with_96_zero_bits_end_in_an_ipv4_address() {
    let text = |src: [u16; 8], dst: [u16; 8]| {
        let ip = Ipv6Spec { src: src.into(), dst: dst.into(), ..Ipv6Spec::default() };
        let frame = FrameSpec { ip: IpSpec::V6(ip), ..FrameSpec::default() };
        let text = line(&built(&frame, 0));
        text.trim_start_matches("IP6 ").split_once(": ").unwrap().0.replace(".1234", "")
    };
    // tcpdump 4.99 prints these addresses so.
    assert_eq!(
        text([0, 0, 0, 0, 0, 0, 0x102, 0x304], [0, 0, 0, 0, 0, 0, 1, 2]),
        "::1.2.3.4 > ::0.1.0.2"
    );
    assert_eq!(text([0, 0, 0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0, 0, 1]), "::0.1.0.0 > ::1");
    assert_eq!(text([0; 8], [0, 0, 0, 0, 0, 0xffff, 0x102, 0x304]), ":: > ::ffff:1.2.3.4");
    assert_eq!(text([0, 0, 0, 0, 0, 2, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0]), "::2:0:0 > ::1:0:0");
}

#[test]
fn the_link_header_of_a_packet_that_is_cut_inside_llc_has_its_own_length() {
    let link_len = |llc: &[u8], kept: &[u8]| {
        let mut frame = vec![2; 12];
        frame.extend((llc.len() as u16 + 46).to_be_bytes());
        frame.extend(llc.iter().chain(kept));
        Summary::new(&frame).with_wire_len(60 + llc.len()).write(false, None)
    };
    let snap = link_len(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &[0x45, 0, 0, 46]);
    assert_eq!((&*snap.text, snap.link_len), ("IP  [|ip]", 22));
    let ip = link_len(&[6, 6, 3], &[0x45, 0, 0, 46]);
    assert_eq!((&*ip.text, ip.link_len), ("IP  [|ip]", 17));
    let stp = link_len(&[0x42, 0x42, 3], &[0; 5]);
    assert_eq!((&*stp.text, stp.link_len), ("STP 802.1d, Config, Flags [none] [|stp]", 17));
    let cut = link_len(&[0xaa, 0xaa, 3, 0], &[]);
    assert_eq!((&*cut.text, cut.link_len), (" [|snap]", 18));
}
