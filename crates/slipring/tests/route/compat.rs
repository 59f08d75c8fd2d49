//! Tests of netmap-fwd's command line, configuration and command socket. Tests that guard against
//! defects of netmap-fwd name these defects.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::{Namespace, Program, eventually};

use crate::packet::Packet;
use crate::rig::{Rig, Setup, ip, v4};
use crate::topology::SLIPRING;

crate::program_checks! {
    for crate::rig::Setup:
    the_socket_answers_in_the_columns_of_netmap_fwd,
    a_table_of_more_than_4096_bytes_does_not_disconnect_the_client,
    a_route_that_is_added_by_command_forwards_packets_and_goes_with_delete,
    routes_that_a_command_cannot_change_are_refused_with_the_reason,
    a_neighbour_that_is_removed_by_command_is_removed_in_the_kernel,
    more_clients_than_allowed_are_disconnected,
    a_confirmed_shutdown_ends_the_program_and_removes_its_files,
    a_router_that_takes_over_gets_the_command_socket,
    a_takeover_of_a_router_with_another_command_socket_is_refused,
}

/// A rig with the command socket.
struct CompatRig {
    rig: Rig,
    socket: PathBuf,
    _dir: tempfile::TempDir,
}

fn start(setup: Setup) -> CompatRig {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let config = format!(
        "cli_socket_path = {};\npidfile = {};\ncli_max_clients = 2;\n",
        path("nf.sock").display(),
        path("nf.pid").display()
    );
    std::fs::write(path("nf.conf"), config).unwrap();
    let flags = format!("--compat -f {} -b 512 -v", path("nf.conf").display());
    let (rig, socket) = (setup.with_flags(&flags).start(), path("nf.sock"));
    CompatRig { rig, socket, _dir: dir }
}

impl CompatRig {
    /// Sends lines and closes the connection. Returns the answers, without banner and prompts.
    fn tell(&self, lines: &str) -> String {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(lines.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let text = text.strip_prefix("netmap-fwd cli interface\n> ").expect("banner and prompt");
        text.split('\n').map(|line| line.trim_start_matches("> ")).collect::<Vec<_>>().join("\n")
    }
}

fn the_socket_answers_in_the_columns_of_netmap_fwd(setup: Setup) {
    let compat = start(setup.ip("route add 10.9.0.0/16 via 10.3.0.2"));
    let mode = compat.socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let routes = compat.tell("route\r\n");
    let head = "Routing tables\n\nInternet:\n\
                Destination        Gateway            Flags        Netif\n";
    assert!(routes.starts_with(head), "{routes}");
    for line in [
        "10.1.0.0/24                           U            e0\n",
        "10.1.0.1                              UH           e0\n",
        "10.9.0.0/16        10.3.0.2           UGS          e1\n",
    ] {
        assert!(routes.contains(line), "{line}: {routes}");
    }
    let found = compat.tell("route get 10.9.1.1\n");
    assert!(found.contains("    gateway: 10.3.0.2\n  interface: e1\n"), "{found}");
    assert_eq!(
        compat.tell("ro get 172.16.0.1\nnonsense\n"),
        "route has not been found\ninvalid command\n"
    );
    let neighbours = compat.tell("arp\n");
    for host in ["10.1.0.1", "10.1.0.2"] {
        assert!(neighbours.contains(&format!("? ({host}) at 02:00:00:00:01:")), "{neighbours}");
    }
    let listing = compat.tell("ifconfig\n");
    let addresses = "\tether: 02:00:00:00:01:01\n\
                     \tinet 10.1.0.1 netmask 255.255.255.0 broadcast 10.1.0.255\n";
    assert!(listing.contains(addresses), "{listing}");
    assert_eq!(compat.tell("status\n").lines().count(), 20);
    let program = compat.rig.take_program();
    eventually("the listing at the start", || {
        program.so_far().stdout.contains(&listing).then_some(())
    });
    program.stop(Signal::INT).well();
}

fn a_table_of_more_than_4096_bytes_does_not_disconnect_the_client(setup: Setup) {
    let line = |i: u32| format!("route add 10.2{}.{}.0/24 via 10.3.0.2\n", i / 250, i % 250);
    let compat = start(setup.ip(&(0..2500).map(line).collect::<String>()));
    let shown = compat.tell("route show\ncli\n");
    assert!(shown.lines().filter(|line| line.contains("UGS")).count() == 2500, "{}", shown.len());
    assert!(shown.ends_with("cli clients: 1\n"));
}

fn a_route_that_is_added_by_command_forwards_packets_and_goes_with_delete(setup: Setup) {
    let compat = start(setup);
    assert_eq!(compat.tell("route add 10.77.0.0/16 10.3.0.2\n"), "");
    assert!(
        compat.tell("route\n").contains("10.77.0.0/16       10.3.0.2           UGS          e1\n")
    );
    let to_it = Packet::udp(v4().a, ip("10.77.1.1"), b"by command");
    compat.rig.until(|| compat.rig.all_arrive_at_b(std::slice::from_ref(&to_it)));
    assert_eq!(compat.tell("route delete 10.77.0.0/16 10.3.0.3\n"), "route has not been found\n");
    assert_eq!(compat.tell("route delete 10.77.0.0/16\n"), "");
    assert!(!compat.rig.router.ip("route").contains("10.77"));
    compat
        .rig
        .until(|| compat.tell("r get 10.77.1.1\n").starts_with("route has not").then_some(()));
}

fn routes_that_a_command_cannot_change_are_refused_with_the_reason(setup: Setup) {
    let compat = start(setup.ip("link add m0 type veth peer name m1
         link set m0 up
         addr add 10.66.0.1/24 dev m0"));
    assert_eq!(compat.tell("route add 10.7.0.0/16 172.16.0.1\n"), "Network is unreachable\n");
    assert_eq!(compat.tell("route delete 10.1.0.0/24\n"), "cannot remove non static route\n");
    let other = compat.tell("route add 10.7.0.0/16 10.66.0.2\n");
    assert!(other.ends_with("use ip route add 10.7.0.0/16 via 10.66.0.2\n"), "{other}");
    compat.tell("route add 10.7.0.0/16 10.3.0.2\n");
    let twice = compat.tell("route add 10.7.0.0/16 10.3.0.2\n");
    assert!(twice.starts_with("cannot add route: File exists"), "{twice}");
}

fn a_neighbour_that_is_removed_by_command_is_removed_in_the_kernel(setup: Setup) {
    let compat = start(setup);
    assert_eq!(compat.tell("arp -d 10.3.0.3\n"), "10.3.0.3 (10.3.0.3) deleted\n");
    assert!(!compat.rig.router.ip("neigh show to 10.3.0.3").contains("PERMANENT"));
    assert_eq!(compat.tell("arp -d 10.3.0.99\n"), "cannot locate 10.3.0.99\n");
}

fn more_clients_than_allowed_are_disconnected(setup: Setup) {
    let compat = start(setup);
    let banner = |stream: &mut UnixStream| {
        let mut text = vec![0; 27];
        stream.read_exact(&mut text).map(|()| text)
    };
    let mut open = [(); 2].map(|()| UnixStream::connect(&compat.socket).unwrap());
    open.iter_mut().for_each(|stream| drop(banner(stream).unwrap()));
    let mut third = UnixStream::connect(&compat.socket).unwrap();
    assert!(banner(&mut third).is_err(), "cli_max_clients is 2");
    drop(open);
    compat.rig.until(|| banner(&mut UnixStream::connect(&compat.socket).unwrap()).ok());
}

fn a_confirmed_shutdown_ends_the_program_and_removes_its_files(setup: Setup) {
    let compat = start(setup);
    let program = compat.rig.take_program();
    let pidfile = compat.socket.with_extension("pid");
    assert_eq!(std::fs::read_to_string(&pidfile).unwrap(), format!("{}\n", program.pid()));
    assert_eq!(
        compat.tell("shutdown\nno\ncli\n"),
        "shutdown netmap-fwd ? [N/y] > cli clients: 1\n"
    );
    assert_eq!(compat.tell("shut\ny\n"), "shutdown netmap-fwd ? [N/y] ");
    program.finish().well();
    assert!(!pidfile.exists() && !compat.socket.exists());
}

fn a_takeover_of_a_router_with_another_command_socket_is_refused(setup: Setup) {
    let rig = setup.start();
    let next = rig.launch_program("--takeover --compat").finish();
    assert_ne!(next.code(), 0, "{next:?}");
    assert!(next.stderr.contains("command socket and pidfile of --compat null"), "{next:?}");
}

fn a_router_that_takes_over_gets_the_command_socket(setup: Setup) {
    let compat = start(setup);
    let running = compat.rig.take_program();
    let next = compat.rig.launch_program("--takeover");
    let pid = next.pid();
    next.wait_for_text("forwarding");
    running.finish().well();
    assert_eq!(compat.tell("cli\n"), "cli clients: 1\n");
    let pidfile = compat.socket.with_extension("pid");
    assert_eq!(std::fs::read_to_string(&pidfile).unwrap(), format!("{pid}\n"));
    next.stop(Signal::INT).well();
    let dir = std::fs::read_dir(compat.socket.parent().unwrap()).unwrap();
    let left: Vec<_> = dir.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["nf.conf"]);
}

/// The original netmap-fwd needs a configuration file, and exits with 1 on any error.
#[test]
fn the_old_name_needs_no_file_and_fails_with_one() {
    let Some(namespace) = Namespace::new() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.conf"), "pidfile = /x\ncli_max_client = 3\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(SLIPRING);
        command.arg("netmap-fwd").args(args).current_dir(dir.path());
        Program::launch(&namespace, command).finish()
    };
    assert_eq!(run(&["e0", "e1", "--check"]).code(), 0);
    let bad = run(&["-f", "bad.conf", "-H", "e0", "e1"]);
    assert_eq!(bad.code(), 1);
    for part in ["line 2", "cli_max_client`", "did you mean `cli_max_clients`?"] {
        assert!(bad.stderr.contains(part), "{part}: {}", bad.stderr);
    }
}
