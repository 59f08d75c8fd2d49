//! Tests of valid port names: what they mean, and how they are printed.
#![allow(clippy::unwrap_used)]

use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};

use slipring_abi::NR_ZCOPY_MON;
use slipring_abi::name::{
    ConfSpec, Extmem, MemId, MemorySource, OffsetSpec, PipeEndName, PipeRole, PoolSpec, PortName,
    PortNameFlags, PortNameKind, RingSelection,
};

fn parse(name: &str) -> PortName {
    PortName::parse(name).unwrap()
}

fn vale(switch: &str) -> PortNameKind {
    let switch = switch.to_string();
    PortNameKind::Vale { switch }
}

fn pipe(role: PipeRole, id: &str) -> Option<PipeEndName> {
    let id = id.to_string();
    Some(PipeEndName { role, id })
}

fn region(id: u16) -> Option<MemorySource> {
    Some(MemorySource::Region(MemId(NonZeroU16::new(id).unwrap())))
}

#[test]
fn each_kind_has_its_prefix() {
    let cases = [
        ("netmap:eth0", PortNameKind::Netmap, "eth0"),
        ("vale:a", vale(""), "a"),
        ("vale0:a", vale("0"), "a"),
        ("valeX_9:veryverylongport", vale("X_9"), "veryverylongport"),
        ("xdp:eth0.100", PortNameKind::Xdp, "eth0.100"),
        ("packet:lo", PortNameKind::Packet, "lo"),
        ("tap:tap%d", PortNameKind::Tap, "tap%d"),
        ("kernel:eth0", PortNameKind::Kernel, "eth0"),
        ("vfio:03:00.0", PortNameKind::Vfio, "03:00.0"),
        ("vfio:0000:0a:1f.7", PortNameKind::Vfio, "0000:0a:1f.7"),
        ("vfio:10000:e1:00.0", PortNameKind::Vfio, "10000:e1:00.0"),
        ("null:", PortNameKind::Null, ""),
        ("vhost:/run/a-b.sock", PortNameKind::Vhost, "/run/a-b.sock"),
        ("vhostclient:x.sock", PortNameKind::VhostClient, "x.sock"),
    ];
    for (name, kind, rest) in cases {
        let port = parse(name);
        assert_eq!((&port.kind, port.name.as_str()), (&kind, rest), "{name}");
        assert_eq!(port.rings, RingSelection::All);
        assert_eq!(port.to_string(), name);
    }
}

#[test]
fn a_capture_file_is_the_rest_of_the_name_whatever_it_is() {
    for file in ["a.pcap", "-", "/tmp/a b-2@{x}^*//x:y.pcap", "@@--", "\n"] {
        let port = parse(&format!("pcap:{file}"));
        assert_eq!((port.kind.clone(), port.name.as_str()), (PortNameKind::Pcap, file));
        assert_eq!(port.to_string(), format!("pcap:{file}"));
    }
}

#[test]
fn ring_suffixes_choose_rings() {
    let cases = [
        ("netmap:eth0", RingSelection::All),
        ("netmap:eth0-0", RingSelection::One(0)),
        ("netmap:eth0-007", RingSelection::One(7)),
        ("xdp:eth0-65535", RingSelection::One(65535)),
        ("netmap:eth0*", RingSelection::NicAndHost),
        ("netmap:eth0^", RingSelection::Host),
        ("netmap:eth0^3", RingSelection::OneHost(3)),
        ("vale0:a-1", RingSelection::One(1)),
        ("x{1-2", RingSelection::One(2)),
        ("null:-4", RingSelection::One(4)),
        ("vfio:03:00.0-1", RingSelection::One(1)),
    ];
    for (name, rings) in cases {
        assert_eq!(parse(name).rings, rings, "{name}");
    }
}

#[test]
fn pipes_need_no_prefix() {
    for name in ["x{1", "netmap:x{1"] {
        let port = parse(name);
        assert_eq!((&port.kind, port.name.as_str()), (&PortNameKind::Netmap, "x"));
        assert_eq!(port.pipe, pipe(PipeRole::Master, "1"));
        assert_eq!(port.to_string(), "netmap:x{1");
    }
    assert_eq!(parse("x}a_B2").pipe, pipe(PipeRole::Slave, "a_B2"));
    assert_eq!(parse("vale0:a{3").pipe, pipe(PipeRole::Master, "3"));
    assert_eq!(parse("vale0:a{3").kind, vale("0"));
    assert_eq!(parse("valet{1").name, "valet");
    assert_eq!(parse("null{1").name, "null");
}

#[test]
fn the_parent_of_a_pipe_may_be_longer_than_an_interface_name() {
    let parent = "n".repeat(61);
    assert_eq!(parse(&format!("{parent}{{1")).name, parent);
}

#[test]
fn a_suffix_character_written_twice_belongs_to_the_name() {
    let cases = [
        ("netmap:br--lan", "br-lan", RingSelection::All),
        ("netmap:br--lan-2", "br-lan", RingSelection::One(2)),
        ("xdp:a---2", "a-", RingSelection::One(2)),
        ("netmap:----2", "--2", RingSelection::All),
        ("netmap:a**", "a*", RingSelection::All),
        ("netmap:a***", "a*", RingSelection::NicAndHost),
        ("netmap:a^^^1", "a^", RingSelection::OneHost(1)),
        ("netmap:veth0@@if5", "veth0@if5", RingSelection::All),
    ];
    for (name, rest, rings) in cases {
        let port = parse(name);
        assert_eq!((port.name.as_str(), port.rings), (rest, rings), "{name}");
        assert_eq!(port.to_string(), name);
    }
}

#[test]
fn flags_come_in_any_order_and_print_in_one() {
    let port = parse("netmap:eth0-1/RTrtzx");
    let all = [
        PortNameFlags::EXCLUSIVE,
        PortNameFlags::ZCOPY_MON,
        PortNameFlags::MONITOR_TX,
        PortNameFlags::MONITOR_RX,
        PortNameFlags::TX_RINGS_ONLY,
        PortNameFlags::RX_RINGS_ONLY,
    ];
    assert_eq!(port.flags, all.into_iter().fold(PortNameFlags::NONE, PortNameFlags::with));
    assert!(port.flags.is_monitor());
    assert_eq!(port.to_string(), "netmap:eth0-1/xztrTR");
    assert!(!parse("netmap:eth0/xxT").flags.is_monitor());
}

#[test]
fn a_zero_copy_monitor_is_one_of_both_ways_unless_a_letter_says_which() {
    for (name, printed) in [
        ("netmap:x{1/z", "netmap:x{1/ztr"),
        ("vale0:a/zx", "vale0:a/xztr"),
        ("netmap:eth0/zt", "netmap:eth0/zt"),
        ("netmap:eth0/rz", "netmap:eth0/zr"),
        ("netmap:eth0/ztr", "netmap:eth0/ztr"),
        ("netmap:eth0/t/z", "netmap:eth0/ztr"),
        ("kernel:x}1/z", "kernel:x}1/ztr"),
    ] {
        let port = parse(name);
        assert!(port.flags.is_monitor(), "{name}");
        assert_eq!(port.to_string(), printed);
    }
    assert!(PortNameFlags::ZCOPY_MON.is_monitor());
    assert!(PortNameFlags::from_nr_flags(NR_ZCOPY_MON).contains(PortNameFlags::MONITOR_RX));
}

#[test]
fn flags_and_options_come_in_any_order() {
    let port = parse("netmap:eth0@3/x@conf:rings=2/T");
    assert_eq!(port.memory, region(3));
    assert_eq!(port.flags, PortNameFlags::EXCLUSIVE.with(PortNameFlags::TX_RINGS_ONLY));
    assert_eq!(port.to_string(), "netmap:eth0/xT@3@conf:rings=2");
}

#[test]
fn lb_names_of_pipes_parse() {
    let port = parse("netmap:eth0{2/xT@7");
    assert_eq!(port.pipe, pipe(PipeRole::Master, "2"));
    assert_eq!(port.flags, PortNameFlags::EXCLUSIVE.with(PortNameFlags::TX_RINGS_ONLY));
    assert_eq!(port.memory, region(7));
}

#[test]
fn the_same_region_may_be_asked_for_twice() {
    assert_eq!(parse("netmap:eth0@7@7").memory, region(7));
}

#[test]
fn a_region_can_be_that_of_another_port() {
    for name in ["x{1@share:port=vale0:a/x", "x{1@share=vale0:a/x"] {
        let port = parse(name);
        assert_eq!(port.memory, Some(MemorySource::SharedWith("vale0:a/x".into())));
        assert_eq!(port.to_string(), "netmap:x{1@share:port=vale0:a/x");
    }
}

#[test]
fn external_memory_names_its_file_and_sizes() {
    let name = "netmap:eth0@extmem:file=/mnt/huge/a,,b@@c,if-num=1,ring-size=4096,buf-num=99";
    let n = NonZeroU32::new;
    let expected = Extmem {
        file: "/mnt/huge/a,b@c".into(),
        interfaces: PoolSpec { num: n(1), size: None },
        rings: PoolSpec { num: None, size: n(4096) },
        buffers: PoolSpec { num: n(99), size: None },
    };
    let port = parse(name);
    assert_eq!(port.memory, Some(MemorySource::External(expected)));
    assert_eq!(port.to_string(), name);
}

#[test]
fn a_short_form_takes_all_of_its_option() {
    assert_eq!(
        parse("netmap:eth0@extmem=f,buf-num=3@conf:rings=2").to_string(),
        "netmap:eth0@extmem:file=f,,buf-num=3@conf:rings=2"
    );
}

#[test]
fn underscores_in_keys_are_dashes() {
    let underscores = parse("netmap:eth0@conf:host_tx_rings=1,rx_slots=9");
    assert_eq!(underscores, parse("netmap:eth0@conf:host-tx-rings=1,rx-slots=9"));
}

#[test]
fn a_particular_wish_wins_over_a_general_one() {
    let conf = parse("vale0:a@conf:tx-rings=3,rings=2,slots=256,rx-slots=512,host-rings=1").conf;
    let expected = ConfSpec {
        tx_rings: NonZeroU16::new(3),
        rx_rings: NonZeroU16::new(2),
        host_tx_rings: NonZeroU16::new(1),
        host_rx_rings: NonZeroU16::new(1),
        tx_slots: NonZeroU32::new(256),
        rx_slots: NonZeroU32::new(512),
    };
    assert_eq!(conf, expected);
}

#[test]
fn offsets_have_a_start_and_maybe_bits() {
    let bits = NonZeroU8::new(16);
    let port = parse("netmap:eth0@offset:bits=16,initial=64");
    assert_eq!(port.offsets, Some(OffsetSpec { initial: 64, bits }));
    assert_eq!(port.to_string(), "netmap:eth0@offset:initial=64,bits=16");
    let port = parse("netmap:eth0@offset=0");
    assert_eq!(port.offsets, Some(OffsetSpec { initial: 0, bits: None }));
}

#[test]
fn classic_names_need_no_kind() {
    let cases = [
        ("eth0", "netmap:eth0"),
        ("eth0-1/x", "netmap:eth0-1/x"),
        ("netmap:eth0", "netmap:eth0"),
        ("vale0:a", "vale0:a"),
        ("tap0", "tap:tap0"),
        ("tap:foo", "tap:foo"),
        ("tap0{1", "netmap:tap0{1"),
        ("pcap:a-b", "pcap:a-b"),
        ("null", "null:"),
        ("null:", "null:"),
        ("null0", "netmap:null0"),
        ("x}2", "netmap:x}2"),
        ("xdp:eth0", "xdp:eth0"),
    ];
    for (name, outright) in cases {
        let port = PortName::parse_classic(name).unwrap();
        assert_eq!(port.to_string(), outright, "{name}");
    }
}

#[test]
fn a_name_that_says_its_kind_means_the_same_to_both_parsers() {
    for name in ["netmap:a", "vale1:b^", "x{1", "tap:t", "null:", "pcap:x"] {
        assert_eq!(PortName::parse_classic(name), PortName::parse(name));
    }
}

#[test]
fn a_kernels_ports_have_the_names_that_its_netmap_knows() {
    for (name, request, device) in [
        ("kernel:eth0", "eth0", None),
        ("kernel:x{1", "x{1", None),
        ("kernel:vale0:a", "vale0:a", None),
        ("kernel:vale0:a}2", "vale0:a}2", None),
        ("kernel:vale", "vale", None),
        ("kernel:x{1@/run/a/netmap", "x{1", Some("/run/a/netmap")),
        ("kernel:eth0-2/x@conf:slots=64@/d@@e", "eth0", Some("/d@e")),
    ] {
        let port = parse(name);
        assert_eq!(port.kind, PortNameKind::Kernel, "{name}");
        assert_eq!(port.request_name().as_deref(), Some(request), "{name}");
        assert_eq!(port.device.as_deref(), device, "{name}");
        assert_eq!(port.to_string(), name);
    }
    for wrong in ["kernel:", "kernel:vale0:", "kernel:a:b", "netmap:eth0@/dev/netmap"] {
        assert!(PortName::parse(wrong).is_err(), "{wrong}");
    }
}
