//! Tests expressions: a printed expression parses to the same filter, compiled programs are right,
//! and invalid expressions get the right messages.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::collection;
use proptest::prelude::*;
use proptest::sample::select;

use crate::ast::{
    AddressCarrier, AddressDirection, Arith, BinaryOp, BoolOp, Expr, FieldSize, Filter, Primitive,
    Relation, RelationOp, Transport, is_indexable,
};
use crate::insn;
use crate::names::{IpLayer, PROTOCOLS};
use crate::{FilterError, compile};

fn direction() -> impl Strategy<Value = AddressDirection> {
    select(vec![
        AddressDirection::Either,
        AddressDirection::Both,
        AddressDirection::Src,
        AddressDirection::Dst,
    ])
}

fn layer() -> impl Strategy<Value = IpLayer> {
    select(vec![IpLayer::Any, IpLayer::Ip, IpLayer::Ip6])
}

fn net4() -> impl Strategy<Value = Primitive> {
    let carrier = select(vec![
        AddressCarrier::Any,
        AddressCarrier::Ip,
        AddressCarrier::Arp,
        AddressCarrier::Rarp,
    ]);
    let mask =
        prop_oneof![Just(u32::MAX), (0u32..32).prop_map(|len| !(u32::MAX >> len)), any::<u32>()];
    (carrier, direction(), any::<u32>(), mask).prop_map(|(carrier, direction, address, mask)| {
        Primitive::Net4 { ip_carrier: carrier, direction, address: address & mask, mask }
    })
}

fn net6() -> impl Strategy<Value = Primitive> {
    (direction(), any::<u128>(), 0u8..=128).prop_map(|(direction, address, prefix_len)| {
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix_len)).unwrap_or(0);
        Primitive::Net6 { direction, address: (address & mask).into(), prefix_len }
    })
}

fn ports() -> impl Strategy<Value = Primitive> {
    let transport = select(vec![Transport::Any, Transport::Tcp, Transport::Udp, Transport::Sctp]);
    (transport, direction(), any::<u16>(), any::<u16>()).prop_map(|(transport, direction, a, b)| {
        Primitive::Ports { transport, direction, low: a.min(b), high: a.max(b) }
    })
}

fn arith() -> impl Strategy<Value = Arith> {
    let leaf = prop_oneof![any::<u32>().prop_map(Arith::Number), Just(Arith::Len)];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let bases: Vec<_> =
            PROTOCOLS.iter().map(|(_, protocol)| *protocol).filter(|p| is_indexable(*p)).collect();
        let size = select(vec![FieldSize::Byte, FieldSize::Half, FieldSize::Word]);
        prop_oneof![
            inner.clone().prop_map(|inner| Arith::Neg(inner.into())),
            (select(bases), inner.clone(), size).prop_map(|(base, index, size)| Arith::Load {
                base,
                index: index.into(),
                size
            }),
            (binary_op(), inner.clone(), inner).prop_map(|(op, left, right)| {
                Arith::Binary(op, left.into(), valid_right(op, right).into())
            }),
        ]
    })
}

fn binary_op() -> impl Strategy<Value = BinaryOp> {
    use BinaryOp::{Add, And, Div, Mod, Mul, Or, Shl, Shr, Sub, Xor};
    select(vec![Add, Sub, Mul, Div, Mod, And, Or, Xor, Shl, Shr])
}

/// Replaces a constant by 1 if the parser rejects it as the right operand of `op`.
fn valid_right(op: BinaryOp, right: Arith) -> Arith {
    match (op, &right) {
        (BinaryOp::Div | BinaryOp::Mod, Arith::Number(0))
        | (BinaryOp::Shl | BinaryOp::Shr, Arith::Number(32..)) => Arith::Number(1),
        _ => right,
    }
}

fn relation() -> impl Strategy<Value = Primitive> {
    use RelationOp::{Eq, Ge, Gt, Le, Lt, Ne};
    (select(vec![Eq, Ne, Gt, Ge, Lt, Le]), arith(), arith())
        .prop_map(|(op, left, right)| Primitive::Relation(Relation { op, left, right }))
}

fn primitive() -> impl Strategy<Value = Primitive> {
    prop_oneof![
        any::<u32>().prop_map(Primitive::EtherProto),
        (layer(), any::<u32>()).prop_map(|(layer, number)| Primitive::IpProto { layer, number }),
        (direction(), any::<[u8; 6]>())
            .prop_map(|(direction, address)| Primitive::Mac { direction, address }),
        net4(),
        net6(),
        ports(),
        select(vec![
            Primitive::EtherBroadcast,
            Primitive::EtherMulticast,
            Primitive::IpMulticast,
            Primitive::Ip6Multicast,
        ]),
        proptest::option::of(0u16..4096).prop_map(Primitive::Vlan),
        relation(),
    ]
}

fn joined(leaf: impl Strategy<Value = Expr> + 'static) -> impl Strategy<Value = Expr> {
    leaf.prop_recursive(5, 20, 2, |inner| {
        let join = select(vec![BoolOp::And, BoolOp::Or]);
        prop_oneof![
            inner.clone().prop_map(|inner| Expr::Not(inner.into())),
            (join, inner.clone(), inner).prop_map(|(join, a, b)| Expr::join(join, a, b)),
        ]
    })
}

/// Generates expressions after MPLS labels or a PPPoE header, where not all primitives are allowed.
fn encapsulated() -> impl Strategy<Value = Expr> {
    let shim = prop_oneof![
        proptest::option::of(0u32..1 << 20).prop_map(Primitive::Mpls),
        proptest::option::of(any::<u16>()).prop_map(Primitive::Pppoes),
    ];
    let inner = prop_oneof![
        net6(),
        ports(),
        (layer(), 0u32..256).prop_map(|(layer, number)| { Primitive::IpProto { layer, number } })
    ];
    (shim, joined(inner.prop_map(Expr::Test)))
        .prop_map(|(shim, inner)| Expr::join(BoolOp::And, Expr::Test(shim), inner))
}

fn expr() -> impl Strategy<Value = Expr> {
    prop_oneof![4 => joined(primitive().prop_map(Expr::Test)), 1 => encapsulated()]
}

/// Generates words of the language in random order, some of them concatenated.
fn word_salad() -> impl Strategy<Value = String> {
    let words: Vec<&str> = "and or not ( ) [ ] : / \\ - + & | < = != >> % ^ ! src dst host net \
        mask port portrange proto ip ip6 tcp udp icmp6 ether arp vlan mpls pppoes less greater \
        broadcast multicast len 0 1 2 4 5 80 0x10 4294967295 99999999999 08 1.2.3.4 10.0 ::1 \
        2001:db8::/32 :: 0:1:2:3:4:5 1:2: 80-90 http domain \\tcp icmptype tcp-syn llc é"
        .split_whitespace()
        .collect();
    let glue = select(vec![" ", " ", " ", ""]);
    collection::vec((select(words), glue), 0..24)
        .prop_map(|words| words.into_iter().flat_map(|(word, glue)| [word, glue]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_printed_filter_parses_back_to_itself(expr in expr()) {
        let filter = Filter { expr: Some(expr) };
        let text = format!("{filter}");
        prop_assert_eq!(Filter::parse(&text), Ok(filter), "{}", text);
    }

    #[test]
    fn every_tree_compiles_and_runs(expr in expr(), frame in collection::vec(any::<u8>(), 0..200)) {
        let program = Filter { expr: Some(expr) }.compile(7).unwrap();
        let verdict = program.run(&frame, frame.len() as u32);
        prop_assert!(verdict == 0 || verdict == 7);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in prop_oneof![word_salad(), any::<String>()]) {
        match Filter::parse(&text) {
            Ok(filter) => {
                prop_assert!(filter.compile(1).is_ok());
                prop_assert_eq!(Filter::parse(&format!("{filter}")), Ok(filter));
            }
            Err(error) => {
                let column = error.column().unwrap();
                prop_assert!((1..=text.chars().count() + 1).contains(&column), "{}", error);
            }
        }
    }

}

/// An IPv4 frame between two addresses.
fn ipv4_frame(src: [u8; 4], dst: [u8; 4]) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[26..30].copy_from_slice(&src);
    frame[30..34].copy_from_slice(&dst);
    frame
}

#[test]
fn jumps_beyond_a_byte_reach_their_targets() {
    for (join, matching) in [("or", true), ("and not", false)] {
        let hosts: Vec<_> = (0..250).map(|i| format!("src host 10.0.0.{i}")).collect();
        let text = hosts.join(&format!(" {join} "));
        let text = if matching { text } else { format!("not {text}") };
        let program = compile(&text).unwrap();
        assert!(program.insns().iter().any(|insn| insn.code == insn::JA), "{join}");
        for i in 0..=255u8 {
            let accepted = program.run(&ipv4_frame([10, 0, 0, i], [9, 9, 9, 9]), 64) != 0;
            assert_eq!(accepted, (i < 250) == matching, "{join} {i}");
        }
    }
}

#[test]
fn a_filter_too_long_for_a_kernel_is_refused() {
    let ports: Vec<_> = (0..2000).map(|port| format!("{port}")).collect();
    let error = compile(&format!("port {}", ports.join(" or "))).unwrap_err();
    assert!(matches!(error, FilterError::TooLong { limit: 4096, .. }), "{error}");
}

#[test]
fn nesting_has_a_limit_everywhere() {
    for (open, inner, close) in [
        ("(", "tcp", ")"),
        ("not ", "tcp", ""),
        ("port (", "80", ")"),
        ("tcp or udp and ", "tcp", ""),
        ("-", "len = 5", ""),
        ("len + ", "5 = 5", ""),
        ("ip[", "0", "] = 5"),
        ("(", "len", ") = 5"),
    ] {
        let text = format!("{}{inner}{}", open.repeat(5000), close.repeat(5000));
        let error = Filter::parse(&text).unwrap_err();
        let too_deep = matches!(error, FilterError::TooDeep { limit: 200, .. });
        // The nesting `port (port (` is an error at the second word, before the limit is reached.
        assert!(too_deep || open == "port (", "{open}: {error}");
        assert!(Filter::parse(&format!("{open}{inner}{}", &close)).is_ok(), "{open}");
    }
}

#[test]
fn a_deep_chain_compiles() {
    let text = format!("tcp{}", " or udp and tcp".repeat(99));
    assert!(compile(&text).is_ok());
}

#[test]
fn arithmetic_that_needs_too_many_slots_is_refused() {
    let nested =
        |levels: usize| format!("{}ip[0]{} = 5", "(ip[0] + ".repeat(levels), ")".repeat(levels));
    assert!(compile(&nested(16)).is_ok());
    let error = compile(&nested(17)).unwrap_err();
    assert_eq!(error, FilterError::TooManyValues { limit: 16 });
}

#[test]
fn what_is_in_a_register_is_not_loaded_again() {
    let program = compile("ip or arp or rarp or ip6").unwrap();
    let loads = program.insns().iter().filter(|insn| insn.code == insn::LD_H_ABS).count();
    assert_eq!(loads, 1);
}

#[test]
fn a_field_behind_another_header_is_loaded_again() {
    // Both parts read the half word at `x + 18`, but X is the length of a different header in each
    // part, so each part must load its own value.
    let program = compile("tcp[4:2] = 7 or vlan and tcp[0:2] = 7").unwrap();
    let mut frame = [0u8; 80];
    frame[12..20].copy_from_slice(&[0x81, 0, 0, 5, 8, 0, 0x46, 0]);
    frame[27] = 6;
    frame[42..44].copy_from_slice(&[0, 7]);
    assert_ne!(program.run(&frame, 80), 0);
}

#[test]
fn errors_say_where_and_what() {
    let cases = [
        ("tcp prt 80", "column 5: expected `and`, `or` or the end of the filter, found `prt`"),
        (
            "tcp and",
            "column 8: expected a primitive such as `tcp`, `host` or `ip[0] = 1`, found the end of the filter",
        ),
        ("(tcp", "column 5: expected `and`, `or`, an operator or `)`, found the end of the filter"),
        (
            "tcp é",
            "column 5: expected a word, a number or a sign of the filter language, found `é`",
        ),
        (
            "1.2.3.4",
            "column 1: expected a primitive such as `tcp`, `host` or `ip[0] = 1`, found `1.2.3.4`",
        ),
        (
            "host example.org",
            "column 6: `example.org`: names of hosts and networks are not looked up; give the address",
        ),
        (
            "host 1.2.3.4x",
            "column 6: `1.2.3.4x`: names of hosts and networks are not looked up; give the address",
        ),
        ("port 1..2", "column 6: `1..2`: unknown port name; give its number"),
        (
            "ip proto tcp",
            "column 10: expected a protocol number, or a name with `\\` before a keyword, found `tcp`",
        ),
        ("port 70000", "column 6: `70000`: is above 65535, the highest port"),
        ("port nosuch", "column 6: `nosuch`: unknown port name; give its number"),
        ("udp port http", "column 10: `http`: is a TCP port"),
        ("net 10.1.2.3/8", "column 5: `10.1.2.3`: has bits set outside its mask"),
        ("dst 1:2:3:4:5:6", "column 5: `1:2:3:4:5:6`: write `ether` before an Ethernet address"),
        (
            "arp and ip protochain 6",
            "column 12: `protochain`: header chains need loops, which a checked program has not; use `proto`",
        ),
        (
            "gateway foo",
            "column 1: `gateway`: needs name services; write `ether host MAC and not host ADDRESS`",
        ),
        (
            "ip broadcast",
            "column 1: `ip`: a broadcast address needs the netmask; write `dst host ADDRESS`",
        ),
        ("inbound", "column 1: `inbound`: a frame does not say which way it went"),
        ("tcp[0:3] = 1", "column 7: expected a field size of 1, 2 or 4 bytes, found `3`"),
        (
            "tcp[0] + 1",
            "column 11: expected an operator or a comparison such as `=`, found the end of the filter",
        ),
        ("len / 0 = 1", "column 7: `0`: division by zero"),
        ("mpls and vlan", "column 10: `vlan`: no VLAN tag follows an MPLS label"),
        ("vlan 4096", "column 6: `4096`: is above 4095, the highest VLAN id"),
        (
            "port 80 or tcp or 53",
            "column 19: expected a primitive such as `tcp`, `host` or `ip[0] = 1`, found `53`",
        ),
    ];
    for (text, message) in cases {
        let error = Filter::parse(text).unwrap_err();
        assert_eq!(format!("{error}"), message, "{text}");
        let column = error.column().unwrap();
        assert!(message.starts_with(&format!("column {column}: ")), "{text}: {column}");
    }
}

#[test]
fn the_empty_filter_accepts_everything() {
    for text in ["", " \n\t"] {
        assert_eq!(compile(text).unwrap().run(&[], 0), crate::DEFAULT_SNAP_LEN);
    }
}

#[test]
fn no_arp_header_follows_mpls_labels() {
    // An IPv6 packet after an MPLS label. It contains 10.0.0.1 at the offset where ARP has the
    // sender's address.
    let mut frame = [0; 80];
    frame[12..19].copy_from_slice(&[0x88, 0x47, 0, 0, 0x11, 64, 0x60]);
    frame[32..36].copy_from_slice(&[10, 0, 0, 1]);
    assert_eq!(compile("mpls and host 10.0.0.1").unwrap().run(&frame, 80), 0);
    assert_ne!(compile("mpls and ip6").unwrap().run(&frame, 80), 0);
}
