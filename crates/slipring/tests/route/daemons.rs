//! Routing daemons around the router and on it: FRR next to the router program, BIRD at both sides.
//!
//! ```text
//!   hA ---- rA (BIRD, AS 65001) ---- rT (FRR, AS 65000) ---- rB (BIRD, AS 65002) ---- hB
//!                       BGP for IPv4 and IPv6    OSPFv2 with BFD; BGP for IPv6
//! ```
//! The hosts reach each other only by routes that the daemons exchange. FRR gives the kernel routes
//! with next-hop objects, BIRD without.

use std::path::Path;

use slipring_test_support::{Namespace, Program, accepts, eventually, installed, is_root, skip};

use crate::hosts::Chain;

checks! {
    for crate::hosts::Chain:
    bgp_ospf_and_bfd_come_up_and_hosts_reach_each_other_by_their_routes,
}

/// The directory of FRR's daemons in Debian.
const FRR: &str = "/usr/lib/frr";

const BGP_OF_FRR: &str = "
router bgp 65000
 bgp router-id 10.12.0.2
 no bgp ebgp-requires-policy
 neighbor 10.12.0.1 remote-as 65001
 neighbor 10.12.0.1 timers connect 1
 neighbor fd12::1 remote-as 65001
 neighbor fd12::1 timers connect 1
 neighbor fd23::2 remote-as 65002
 neighbor fd23::2 timers connect 1
 address-family ipv4 unicast
  redistribute ospf
 exit-address-family
 address-family ipv6 unicast
  neighbor fd12::1 activate
  neighbor fd23::2 activate
 exit-address-family
";

const OSPF_OF_FRR: &str = "
interface e1
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf bfd
router ospf
 ospf router-id 10.23.0.1
 network 10.23.0.0/24 area 0
 redistribute bgp
";

const BIRD_BEGIN: &str = "
protocol device { scan time 1; }
protocol direct { ipv4; ipv6; }
protocol kernel { ipv4 { export where source != RTS_DEVICE; }; }
protocol kernel { ipv6 { export where source != RTS_DEVICE; }; }
template bgp peer {
  connect delay time 1; connect retry time 1; error wait time 1, 1;
  ipv4 { import all; export where source = RTS_DEVICE; };
  ipv6 { import all; export where source = RTS_DEVICE; };
}
";

const NEAR: &str = "
router id 10.12.0.1;
protocol bgp to4 from peer { local 10.12.0.1 as 65001; neighbor 10.12.0.2 as 65000; ipv6 { import none; export none; }; }
protocol bgp to6 from peer { local fd12::1 as 65001; neighbor fd12::2 as 65000; ipv4 { import none; export none; }; }
";

const FAR: &str = "
router id 10.23.0.2;
protocol bfd { interface \"e0\" { interval 100 ms; }; }
protocol ospf v2 { ipv4 { import all; export where source = RTS_DEVICE; };
  area 0 { interface \"e0\" { type ptp; hello 1; dead count 4; bfd yes; }; };
}
protocol bgp to6 from peer { local fd23::2 as 65002; neighbor fd23::1 as 65000; ipv4 { import none; export none; }; }
";

/// Starts BIRD with this configuration; its control socket is `NAME.ctl`.
fn bird(namespace: &Namespace, dir: &Path, name: &str, configuration: &str) -> Program {
    let path = |end: &str| dir.join(format!("{name}.{end}")).display().to_string();
    std::fs::write(path("conf"), format!("{BIRD_BEGIN}{configuration}")).unwrap();
    let args = ["-f", "-c", &path("conf"), "-s", &path("ctl"), "-P", &path("pid")];
    Program::start_with(namespace, "bird", &args)
}

/// Returns BIRD's answer to a command.
fn birdc(namespace: &Namespace, dir: &Path, name: &str, words: &str) -> String {
    let socket = dir.join(format!("{name}.ctl"));
    namespace.attempt("birdc", &format!("-r -s {} {words}", socket.display())).1
}

/// Starts a daemon of FRR without its default terminal port.
fn frr(namespace: &Namespace, dir: &Path, daemon: &str, configuration: &str) -> Program {
    let path = |end: &str| dir.join(format!("{daemon}.{end}")).display().to_string();
    std::fs::write(path("conf"), configuration).unwrap();
    let zserv = dir.join("zserv.api").display().to_string();
    let sockets = dir.display().to_string();
    let files = ["-f", &path("conf"), "-i", &path("pid"), "-z", &zserv];
    let others = ["--vty_socket", &sockets, "-P", "0"];
    Program::start_with(namespace, &format!("{FRR}/{daemon}"), &[&files[..], &others].concat())
}

fn bgp_ospf_and_bfd_come_up_and_hosts_reach_each_other_by_their_routes(chain: Chain) {
    if !installed("bird") {
        return;
    }
    if !Path::new(FRR).join("zebra").exists() {
        return skip!("frr is not installed");
    }
    if !is_root("to run FRR's daemons as the user frr") {
        return;
    }
    chain.forget_routes();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [near_dir, dir, far_dir] = dirs.each_ref().map(tempfile::TempDir::path);
    let router = &chain.router;
    router.command("chown", &format!("frr:frr {}", dir.display()));
    let zebra = frr(router, dir, "zebra", "");
    eventually("zebra to listen", || accepts(&dir.join("zserv.api")).then_some(()));
    let _daemons = [
        zebra,
        frr(router, dir, "bfdd", ""),
        frr(router, dir, "ospfd", OSPF_OF_FRR),
        frr(router, dir, "bgpd", BGP_OF_FRR),
        bird(&chain.near, near_dir, "near", NEAR),
        bird(&chain.far, far_dir, "far", FAR),
    ];
    for to in crate::hosts::RIGHT {
        eventually(&format!("an answer from {to}"), || {
            chain.left.attempt("ping", &format!("-n -c 1 -W 1 {to}")).0.then_some(())
        });
    }
    // On a busy machine, a session may go down and come up again, so this waits until both are up
    // at the same time.
    eventually("both sessions of BGP", || {
        let protocols = birdc(&chain.near, near_dir, "near", "show protocols");
        (protocols.matches("Established").count() == 2).then_some(())
    });
    eventually("the session of BFD", || {
        birdc(&chain.far, far_dir, "far", "show bfd sessions").contains("Up").then_some(())
    });
    eventually("the daemons' routes in the kernel", || {
        let routes = router.ip("route show 10.1.0.0/24") + &router.ip("-6 route show fd03::/64");
        routes.contains("proto bgp").then_some(())
    });
}
