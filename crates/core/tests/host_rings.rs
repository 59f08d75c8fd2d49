//! The number of host rings that a name opens.
#![allow(clippy::unwrap_used)]

use slipring_core::netns::Netns;
use slipring_core::{Host, parse};
use slipring_port::netlink::Netlink;
use slipring_port::{OpenError, OpenOptions};

fn queues(netns: &Netns, name: &str) -> Result<usize, OpenError> {
    let opened = netns.run(|| {
        let options = OpenOptions { slots: 64, ..OpenOptions::default() };
        let opened = Host::new().open_all(&[parse(name).unwrap()], &options);
        // The port is dropped here, since the host connection must be removed in its own namespace.
        Ok(opened.map(|ports| ports[0].queues.len()))
    });
    opened.unwrap()
}

#[test]
fn a_name_opens_as_many_host_rings_as_it_says_up_to_those_of_the_interface() {
    let Ok(netns) = Netns::new() else {
        return slipring_test_support::skip!("network namespaces need root");
    };
    let made = netns.run(|| {
        let netlink = Netlink::open()?;
        netlink.add_veth_with_queues("near", "far", None, [3, 3])?;
        netlink.links()?.iter().try_for_each(|link| netlink.set_up(link.index))
    });
    made.unwrap();
    match queues(&netns, "netmap:near^") {
        Err(error) if matches!(error.code(), "SR0104" | "SR0111") => {
            return slipring_test_support::skip!("{error}");
        }
        opened => assert_eq!(opened.unwrap(), 1),
    }
    for (name, count) in [
        ("netmap:near^@conf:host-rings=2", 2),
        ("netmap:near^@conf:host-tx-rings=1,host-rx-rings=3", 3),
        ("netmap:near^@conf:host-rings=60", 3),
        ("netmap:near*@conf:host-rings=2", 5),
        ("netmap:near^0@conf:host-rings=2", 1),
        ("netmap:near", 3),
    ] {
        assert_eq!(queues(&netns, name).unwrap(), count, "{name}");
    }
    let error = queues(&netns, "netmap:near^1").unwrap_err();
    let help = "leave the number behind the ^ out for all: netmap:IF^@conf:host-rings=N";
    assert_eq!(error.help().as_deref(), Some(help));
}
