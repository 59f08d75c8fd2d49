//! Tests that convert names to requests and requests to names.
#![allow(clippy::unwrap_used)]

use slipring_abi::name::{PortName, RequestError};
use slipring_abi::{
    NETMAP_API, NETMAP_REQ_REGISTER, NR_EXCLUSIVE, NR_NO_TX_POLL, NR_REG_ALL_NIC, NR_REG_NIC_SW,
    NR_REG_NULL, NR_REG_ONE_NIC, NR_REG_ONE_SW, NR_REG_PIPE_MASTER, NR_REG_SW, NR_TX_RINGS_ONLY,
    NmreqRegister,
};

fn register(name: &str) -> NmreqRegister {
    PortName::parse(name).unwrap().to_register()
}

fn all_nic() -> NmreqRegister {
    NmreqRegister { nr_mode: NR_REG_ALL_NIC, ..Default::default() }
}

#[test]
fn ring_suffixes_become_modes() {
    let mode = |name| {
        let register = register(name);
        (register.nr_mode, register.nr_ringid)
    };
    assert_eq!(mode("netmap:eth0"), (NR_REG_ALL_NIC, 0));
    assert_eq!(mode("netmap:eth0-3"), (NR_REG_ONE_NIC, 3));
    assert_eq!(mode("netmap:eth0*"), (NR_REG_NIC_SW, 0));
    assert_eq!(mode("netmap:eth0^"), (NR_REG_SW, 0));
    assert_eq!(mode("netmap:eth0^3"), (NR_REG_ONE_SW, 3));
}

#[test]
fn pipes_are_bound_by_name_and_not_by_mode() {
    let port = PortName::parse("x{1").unwrap();
    assert_eq!(port.request_name().unwrap(), "x{1");
    assert_eq!(port.to_register().nr_mode, NR_REG_ALL_NIC);
}

#[test]
fn flags_region_and_wishes_stand_in_the_body() {
    let expected = NmreqRegister {
        nr_tx_slots: 256,
        nr_rx_slots: 512,
        nr_tx_rings: 2,
        nr_rx_rings: 3,
        nr_host_tx_rings: 4,
        nr_host_rx_rings: 5,
        nr_mem_id: 7,
        nr_flags: NR_EXCLUSIVE | NR_TX_RINGS_ONLY,
        ..all_nic()
    };
    let name = "vale0:a/xT@7@conf:tx-rings=2,rx-rings=3,host-tx-rings=4,host-rx-rings=5,\
                tx-slots=256,rx-slots=512";
    assert_eq!(register(name), expected);
}

#[test]
fn the_header_carries_the_name_without_prefix_and_suffix() {
    let header = |name| PortName::parse(name).unwrap().to_header();
    let bound = header("netmap:br--lan-2/x").unwrap();
    assert_eq!(bound.nr_version, NETMAP_API);
    assert_eq!(bound.nr_reqtype, NETMAP_REQ_REGISTER);
    assert_eq!(&bound.nr_name[..7], b"br-lan\0");
    assert_eq!(&header("vale0:a}9").unwrap().nr_name[..10], b"vale0:a}9\0");
    for name in ["xdp:eth0", "tap:t", "null:", "pcap:f", "vfio:03:00.0"] {
        assert_eq!(header(name), None, "{name}");
    }
}

#[test]
fn a_name_of_63_bytes_fits_its_header() {
    let name = format!("{}{{1", "n".repeat(61));
    let header = PortName::parse(&name).unwrap().to_header().unwrap();
    assert_eq!(&header.nr_name[..63], name.as_bytes());
    assert_eq!(header.nr_name[63], 0);
}

#[test]
fn names_survive_the_way_through_a_request() {
    let names = [
        "netmap:eth0",
        "netmap:br--lan-2/xT@9",
        "netmap:eth0*@conf:rings=2,host-rings=1,slots=64",
        "netmap:eth0^1",
        "netmap:a--b{1/R",
        "vale0:a",
        "vale:a}7-1",
    ];
    for name in names {
        let port = PortName::parse(name).unwrap();
        let header = port.to_header().unwrap();
        let back = PortName::from_request(&header.nr_name, &port.to_register());
        assert_eq!(back, Ok(port), "{name}");
    }
}

#[test]
fn flags_without_a_letter_are_left_out_of_the_name() {
    let register = NmreqRegister { nr_flags: NR_EXCLUSIVE | NR_NO_TX_POLL, ..all_nic() };
    let port = PortName::from_request(b"eth0\0junk", &register).unwrap();
    assert_eq!(port.to_string(), "netmap:eth0/x");
}

#[test]
fn requests_that_no_name_amounts_to_are_refused() {
    let from = |name: &[u8]| PortName::from_request(name, &all_nic()).unwrap_err();
    assert_eq!(from(b""), RequestError::Unreadable);
    assert_eq!(from(b"\0eth0"), RequestError::Unreadable);
    assert_eq!(from(b"\xff\xfe\0"), RequestError::Unreadable);
    for name in
        ["a b", "a/b", "{1", "x{", "x{a-b", "a{b{1", "vale-:a", "vale0:", "sixteenbytesname"]
    {
        assert_eq!(from(name.as_bytes()), RequestError::NoPort(name.into()));
    }
    for nr_mode in [0, NR_REG_PIPE_MASTER, NR_REG_NULL, 99] {
        let register = NmreqRegister { nr_mode, ..Default::default() };
        let refused = PortName::from_request(b"eth0\0", &register);
        assert_eq!(refused, Err(RequestError::Mode(nr_mode)));
    }
}
