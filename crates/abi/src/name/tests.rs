//! Tests that names of every form are parsed to the same name after they were printed.

use alloc::string::{String, ToString};
use core::num::{NonZeroU8, NonZeroU16, NonZeroU32};

use proptest::option;
use proptest::prelude::*;

use super::*;

/// Generates text in which about half of the characters are of the kind that port names treat
/// specially.
fn text(max: usize) -> impl Strategy<Value = String> {
    let c = prop_oneof![
        4 => proptest::sample::select(&['-', '*', '^', '@', ',', '=', '.', '0', '9', '%', '"'][..]),
        3 => proptest::char::range('a', 'z'),
        1 => any::<char>().prop_filter("a name has none", |c| {
            !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | '/' | '{' | '}')
        }),
    ];
    proptest::collection::vec(c, 1..=max).prop_map(String::from_iter)
}

fn interface() -> impl Strategy<Value = String> {
    text(15).prop_filter("an interface can have it", |name| {
        name.len() <= 15 && name != "." && name != ".."
    })
}

fn switch_port() -> impl Strategy<Value = (PortNameKind, String)> {
    let switch = "[A-Za-z0-9_]{0,8}".prop_map(|switch| PortNameKind::Vale { switch });
    let port = text(40).prop_filter("it fits a request", |name| name.len() <= 40);
    (switch, port)
}

fn kind_and_name() -> impl Strategy<Value = (PortNameKind, String)> {
    let interface_kinds = [
        PortNameKind::Netmap,
        PortNameKind::Xdp,
        PortNameKind::Packet,
        PortNameKind::Tap,
        PortNameKind::Kernel,
    ];
    prop_oneof![
        5 => (proptest::sample::select(interface_kinds.to_vec()), interface()),
        2 => switch_port(),
        1 => (Just(PortNameKind::Vfio), "([0-9a-f]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-f]\\.[0-7]"),
        1 => (Just(PortNameKind::Null), Just(String::new())),
        1 => (proptest::sample::select(&[PortNameKind::Vhost, PortNameKind::VhostClient][..]), "/[a-z@{}:/ -]{1,30}"),
    ]
}

fn pipe_end() -> impl Strategy<Value = PipeEndName> {
    let role = prop_oneof![Just(PipeRole::Master), Just(PipeRole::Slave)];
    (role, "[A-Za-z0-9_]{1,9}").prop_map(|(role, id)| PipeEndName { role, id })
}

fn rings() -> impl Strategy<Value = RingSelection> {
    prop_oneof![
        Just(RingSelection::All),
        Just(RingSelection::NicAndHost),
        Just(RingSelection::Host),
        any::<u16>().prop_map(RingSelection::One),
        any::<u16>().prop_map(RingSelection::OneHost),
    ]
}

fn memory() -> impl Strategy<Value = MemorySource> {
    let path = || "[a-z,@/=:*-]{1,12}";
    let size = || option::of(any::<NonZeroU32>());
    let pool = move || (size(), size()).prop_map(|(num, size)| PoolSpec { num, size });
    let external = (path(), pool(), pool(), pool());
    prop_oneof![
        any::<NonZeroU16>().prop_map(|id| MemorySource::Region(MemId(id))),
        path().prop_map(MemorySource::SharedWith),
        external.prop_map(|(file, interfaces, rings, buffers)| {
            let extmem = Extmem { file, interfaces, rings, buffers };
            MemorySource::External(extmem)
        }),
    ]
}

fn conf() -> impl Strategy<Value = ConfSpec> {
    let rings = || option::of((1..4_u16).prop_map(|n| NonZeroU16::new(n).unwrap()));
    let slots = || option::of((1..4_u32).prop_map(|n| NonZeroU32::new(n).unwrap()));
    let wishes = (rings(), rings(), rings(), rings(), slots(), slots());
    wishes.prop_map(|(tx_rings, rx_rings, host_tx_rings, host_rx_rings, tx_slots, rx_slots)| {
        ConfSpec { tx_rings, rx_rings, host_tx_rings, host_rx_rings, tx_slots, rx_slots }
    })
}

fn offsets() -> impl Strategy<Value = OffsetSpec> {
    let bits = option::of((1..=64_u8).prop_map(|bits| NonZeroU8::new(bits).unwrap()));
    (any::<u64>(), bits).prop_map(|(initial, bits)| OffsetSpec { initial, bits })
}

fn port() -> impl Strategy<Value = PortName> {
    let parts = (
        kind_and_name(),
        option::of(pipe_end()),
        rings(),
        any::<u64>().prop_map(PortNameFlags::from_nr_flags),
        option::of(memory()),
        conf(),
        option::of(offsets()),
    );
    parts.prop_map(|((kind, name), pipe, rings, flags, memory, conf, offsets)| {
        let whole = matches!(kind.grammar().form, NameForm::Text(_));
        let (rings, flags) =
            if whole { (RingSelection::All, PortNameFlags::NONE) } else { (rings, flags) };
        let pipe = pipe.filter(|_| kind.has_pipes());
        let device = (kind == PortNameKind::Kernel).then(|| String::from("/run/a@b/netmap"));
        PortName { kind, name, pipe, rings, flags, memory, conf, offsets, device }
    })
}

/// Generates strings of parts of port names and single arbitrary characters.
fn nearly_a_name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        proptest::sample::select(
            &[
                "netmap:",
                "vale0:",
                "vale",
                "xdp:",
                "tap",
                "vfio:",
                "null",
                "pcap:",
                "vhost:",
                "vhostclient:/s",
                "eth0",
                "x{",
                "}1",
                "-2",
                "--",
                "*",
                "^",
                "/x",
                "@",
                "@3",
                "@conf:",
                "@share=",
                "@extmem:file=",
                "rings=",
                ",",
                ",slots=",
                "@offset=",
                "65536",
                "03:00.0",
                "é",
            ][..]
        )
        .prop_map(String::from),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(part, 0..7).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_prints_parses_to_the_same(port in port()) {
        prop_assert_eq!(PortName::parse(&port.to_string()), Ok(port));
    }

    #[test]
    fn what_parses_prints_to_what_parses_to_the_same(name in nearly_a_name()) {
        let parsed = [PortName::parse(&name), PortName::parse_classic(&name)];
        for port in parsed.into_iter().flatten() {
            prop_assert_eq!(PortName::parse(&port.to_string()), Ok(port));
        }
    }

    #[test]
    fn errors_point_into_the_string_or_right_behind_it(name in nearly_a_name()) {
        let parsed = [PortName::parse(&name), PortName::parse_classic(&name)];
        for error in parsed.into_iter().filter_map(Result::err) {
            let last = name.chars().count() + 1;
            prop_assert!((1..=last).contains(&error.column), "{}", error);
            let _does_not_panic = error.help();
        }
    }

    #[test]
    fn a_port_that_netmap_knows_survives_a_request(port in port()) {
        // A request does not contain the information that its port is of kind `kernel`.
        prop_assume!(port.kind != PortNameKind::Kernel);
        let Some(header) = port.to_header() else { return Ok(()) };
        let back = PortName::from_request(&header.nr_name, &port.to_register()).unwrap();
        let expected = PortName {
            memory: port.memory.clone().filter(|memory| matches!(memory, MemorySource::Region(_))),
            offsets: None,
            ..port
        };
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn a_request_of_a_stranger_gives_a_printable_port_or_an_error(
        name in proptest::collection::vec(proptest::sample::select(&b"ab0{}:-vale@ \0\xff"[..]), 1..64),
        nr_mode in 0..10_u32,
    ) {
        let register = crate::NmreqRegister { nr_mode, ..Default::default() };
        if let Ok(port) = PortName::from_request(&name, &register) {
            prop_assert_eq!(PortName::parse(&port.to_string()), Ok(port));
        }
    }
}
