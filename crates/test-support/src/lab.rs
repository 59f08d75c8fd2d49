//! A test network: two hosts, and between them a namespace for the program that connects them.
//!
//! ```text
//!   left                       mid                       right
//!   e0 10.9.0.1 ---- veth ---- la program ra ---- veth ---- e0 10.9.0.2
//! ```
//! With TAP there are no veth pairs. Instead, the devices of the program are moved to the two
//! sides.

use crate::{Namespace, skip};

/// IPv4 address of the left side.
pub const LEFT: &str = "10.9.0.1";
/// IPv4 address of the right side.
pub const RIGHT: &str = "10.9.0.2";
/// IPv6 address of the right side.
pub const RIGHT6: &str = "fd09::2";

/// The kind of port that a program opens on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabPort {
    /// An `xdp:` port, with XDP in the driver.
    Native,
    /// An `xdp:` port, with XDP in the network stack.
    Generic,
    /// A `packet:` port.
    Packet,
    /// A `tap:` port.
    Tap,
    /// A `netmap:` port, for which the best available kind is chosen.
    Best,
}

impl LabPort {
    /// All kinds of ports, in the order in which this enum declares them.
    pub const ALL: [Self; 5] = [Self::Native, Self::Generic, Self::Packet, Self::Tap, Self::Best];

    /// Returns the prefix of the port's name.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Native | Self::Generic => "xdp",
            Self::Packet => "packet",
            Self::Tap => "tap",
            Self::Best => "netmap",
        }
    }

    /// Returns the command-line flags that select this kind.
    fn flags(self) -> &'static str {
        match self {
            Self::Native => "--mode native",
            Self::Generic => "--mode generic",
            _ => "",
        }
    }
}

/// Three namespaces: the left host, the middle, and the right host.
#[derive(Debug)]
pub struct Lab {
    /// The left host. Its address is [`LEFT`], unless the network is quiet.
    pub left: Namespace,
    /// The namespace of the program.
    pub mid: Namespace,
    /// The right host. Its address is [`RIGHT`], unless the network is quiet.
    pub right: Namespace,
    /// The kind of port with which a program opens the interfaces in the middle.
    pub port: LabPort,
    mtu: u32,
    quiet: bool,
}

impl Lab {
    /// Builds the test network. Returns `None`, after printing why, if this is not permitted.
    pub fn new(port: LabPort) -> Option<Self> {
        Self::build(port, 1500, false)
    }

    /// Like [`Self::new`], but with links of this MTU.
    pub fn with_mtu(port: LabPort, mtu: u32) -> Option<Self> {
        Self::build(port, mtu, false)
    }

    /// Like [`Self::new`], but the two sides have no addresses and send nothing by themselves.
    pub fn quiet(port: LabPort) -> Option<Self> {
        Self::build(port, 1500, true)
    }

    fn build(port: LabPort, mtu: u32, quiet: bool) -> Option<Self> {
        let (left, mid, right) = (Namespace::new()?, Namespace::new()?, Namespace::new()?);
        // TAP devices are created in `mid`. They must not send before they are moved to the two
        // sides.
        mid.silence("default");
        let lab = Self { left, mid, right, port, mtu, quiet };
        if port != LabPort::Tap {
            let options = format!("mtu {mtu}");
            lab.mid.veth("la", &lab.left, "e0", &options);
            lab.mid.veth("ra", &lab.right, "e0", &options);
            lab.inhabit();
            lab.wait_for_carriers();
        }
        Some(lab)
    }

    /// Returns the command-line words that open both ports.
    pub fn ports(&self) -> String {
        let prefix = self.port.prefix();
        format!("-i {prefix}:la -i {prefix}:ra {}", self.port.flags())
    }

    /// If a program has opened `tap:` ports, moves its devices to the two sides. For other kinds of
    /// ports, does nothing.
    pub fn adopt_taps(&self) {
        if self.port == LabPort::Tap {
            self.left.take(&self.mid, "la", "e0");
            self.right.take(&self.mid, "ra", "e0");
            self.inhabit();
        }
    }

    /// Waits until the kernel reports a carrier at both ends of both cables. This is also needed
    /// after a cable was down. See [`Namespace::wait_for_carrier`].
    pub fn wait_for_carriers(&self) {
        for (namespace, ifname) in
            [(&self.mid, "la"), (&self.left, "e0"), (&self.mid, "ra"), (&self.right, "e0")]
        {
            namespace.wait_for_carrier(ifname);
        }
    }

    fn inhabit(&self) {
        for (side, number) in [(&self.left, 1), (&self.right, 2)] {
            if self.quiet {
                side.silence("e0");
            }
            side.ip(&format!("link set e0 mtu {} up", self.mtu));
            if self.quiet {
                continue;
            }
            side.ip(&format!("addr add 10.9.0.{number}/24 dev e0"));
            side.ip(&format!("addr add fd09::{number}/64 dev e0 nodad"));
        }
    }

    /// Stacks VLAN links on both sides, the outermost first. Gives the last link on each side an
    /// address: 10.8.0.1 and 10.8.0.2. Returns false, and prints the reason, if the kernel does not
    /// support VLANs.
    pub fn tag(&self, tags: &[(&str, u16)]) -> bool {
        for (side, number) in [(&self.left, 1), (&self.right, 2)] {
            let mut below = "e0".to_owned();
            for (protocol, id) in tags {
                let words =
                    format!("link add link {below} name v{id} type vlan proto {protocol} id {id}");
                let (made, output) = side.attempt("ip", &words);
                if !made {
                    skip!("this kernel has no VLAN links: {}", output.trim_end());
                    return false;
                }
                side.ip(&format!("link set v{id} up"));
                below = format!("v{id}");
            }
            side.ip(&format!("addr add 10.8.0.{number}/24 dev {below}"));
        }
        true
    }
}

impl Drop for Lab {
    /// If the test has failed, prints the interfaces with their counters.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (name, namespace) in
                [("left", &self.left), ("mid", &self.mid), ("right", &self.right)]
            {
                println!("--- {name}\n{}", namespace.attempt("ip", "-s -d link show").1);
            }
        }
    }
}
