//! Tests of the number of host rings that a name opens, and of aliases in entered namespaces.
#![allow(clippy::unwrap_used)]

use slipring_core::netns::Netns;
use slipring_core::{Host, parse};
use slipring_port::host::REQUESTED;
use slipring_port::netlink::Netlink;
use slipring_port::{OpenError, OpenOptions, taken, tap};

/// Opens a port; returns the number of its queues, and the number of requested host rings if the
/// port's mode contains it.
fn opened(netns: &Netns, name: &str) -> Result<(usize, Option<String>), OpenError> {
    let opened = netns.run(|| {
        let options = OpenOptions { slots: 64, ..OpenOptions::default() };
        let opened = Host::new().open_all(&[parse(name).unwrap()], &options);
        // The port is dropped here, because its hidden veth pair must be removed in its own
        // namespace.
        Ok(opened.map(|ports| {
            let requested = ports[0].info.mode.get(REQUESTED).map(str::to_owned);
            (ports[0].queues.len(), requested)
        }))
    });
    opened.unwrap()
}

#[test]
fn a_name_opens_as_many_host_rings_as_it_says_or_the_mode_names_what_it_says() {
    let Ok(netns) = Netns::new() else {
        return slipring_test_support::skip!("network namespaces need root");
    };
    let made = netns.run(|| {
        let netlink = Netlink::open()?;
        netlink.add_veth_with_queues("near", "far", None, [3, 3])?;
        netlink.links()?.iter().try_for_each(|link| netlink.set_up(link.index))
    });
    made.unwrap();
    match opened(&netns, "netmap:near^") {
        Err(error) if matches!(error.code(), "SR0104" | "SR0111") => {
            return slipring_test_support::skip!("{error}");
        }
        opened => assert_eq!(opened.unwrap(), (1, None)),
    }
    for (name, count, requested) in [
        ("netmap:near^@conf:host-rings=2", 2, None),
        ("netmap:near^@conf:host-tx-rings=1,host-rx-rings=3", 3, None),
        ("netmap:near^@conf:host-rings=60", 3, Some("60")),
        ("netmap:near^@conf:host-tx-rings=60,host-rx-rings=1", 3, Some("60")),
        ("netmap:near*@conf:host-rings=2", 5, None),
        ("netmap:near*@conf:host-rings=65535", 6, Some("65535")),
        ("netmap:near^0@conf:host-rings=2", 1, None),
        ("netmap:near", 3, None),
    ] {
        let expected = (count, requested.map(str::to_owned));
        assert_eq!(opened(&netns, name).unwrap(), expected, "{name}");
    }
    let error = opened(&netns, "netmap:near^1").unwrap_err();
    let help = "leave the number behind the ^ out for all: netmap:IF^@conf:host-rings=N";
    assert_eq!(error.help().as_deref(), Some(help));
}

/// The owner of a namespace can set the alias of a TAP device in it. A thread of the daemon that
/// enters the namespace for a client must not use its own rights to open the card that the alias
/// names.
#[test]
fn an_alias_in_an_entered_namespace_names_no_card_of_the_host() {
    let Ok(netns) = Netns::new() else {
        return slipring_test_support::skip!("network namespaces need root");
    };
    let made = netns.run(|| {
        for name in ["taken0", "plain0"] {
            let index = match tap::create_persistent(name) {
                Ok(index) => index,
                Err(error) => return Ok(Some(error)),
            };
            let netlink = Netlink::open().unwrap();
            if name == "taken0" {
                netlink.set_alias(index, &taken::alias_of("ffff:ff:1f.7")).unwrap();
                assert_eq!(netlink.alias(index).unwrap().as_deref(), Some("vfio:ffff:ff:1f.7"));
            }
            netlink.set_up(index)?;
        }
        Ok(None)
    });
    if let Some(error) = made.unwrap() {
        return slipring_test_support::skip!("{error}");
    }
    let kind_of = |name: &str| {
        let opened = netns.run(|| {
            let options = OpenOptions { slots: 64, ..OpenOptions::default() };
            let opened = Host::new().open_all(&[parse(name).unwrap()], &options);
            Ok(opened.map(|ports| ports[0].info.kind))
        });
        opened.unwrap().map_err(|error: OpenError| error.to_string())
    };
    assert_ne!(kind_of("netmap:taken0^"), Ok("tap"));
    for name in ["netmap:taken0", "netmap:taken0-1"] {
        if let Err(error) = kind_of(name) {
            assert!(!error.contains("ffff:ff:1f.7"), "{name}: {error}");
        }
    }
}
