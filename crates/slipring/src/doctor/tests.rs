//! Tests that `doctor NAME` agrees with opening the port of that name, for every name of one list.

use std::os::unix::net::UnixListener;
use std::path::Path;

use slipring_abi::name::PortName;
use slipring_cli::Diagnose;
use slipring_core::Host;
use slipring_core::kinds::{self, DoctorContext, Finding, FindingState};
use slipring_port::{OpenCause, OpenError, OpenOptions};
use slipring_test_support::Namespace;

use super::privilege::Privileges;
use super::{exit_of, port};

/// Port names to test. `here` and `big` are ends of veth pairs with one queue, which are up; `big`
/// has an MTU of 65535. `tun` and `tap` are devices of these modes. `DIR` is a directory that at
/// first only contains a socket on which somebody listens (`used.sock`), a symbolic link to it
/// (`link`), and an empty file (`file`).
const NAMES: &[&str] = &[
    "null:",
    "null",
    "null:@conf:rings=2",
    "null:@conf:rings=257",
    "null:@conf:slots=64",
    "null:@conf:slots=63",
    "null:@conf:slots=1",
    "null:@conf:tx-slots=128,rx-slots=65537",
    "null:@conf:slots=4294967295",
    "null:^",
    "null:*",
    "null:/t",
    "null:@1",
    "null:@share:port=x",
    "null:@extmem:file=/dev/shm/x",
    "null:@offset:initial=64",
    "x{1",
    "x}1",
    "x{1@conf:rings=2",
    "x{1@conf:rings=300",
    "x{1@conf:slots=1",
    "x{1@7",
    "x{1/r",
    "netmap:x{1",
    "tap:new",
    "tap:new@conf:rings=2",
    "tap:new@conf:rings=4096",
    "tap:new@conf:slots=1",
    "tap:new^",
    "tap:new@3",
    "tap:here",
    "tap:tun",
    "tap:tap",
    "netmap:here",
    "netmap:here-0",
    "netmap:here-1",
    "netmap:here@conf:rings=64",
    "netmap:here@conf:slots=1",
    "netmap:here^",
    "netmap:here^@conf:host-rings=2",
    "netmap:here^0",
    "netmap:here^1",
    "netmap:here*",
    "netmap:here@7",
    "netmap:here@offset:initial=64",
    "netmap:here/t",
    "netmap:here/x",
    "netmap:nowhere",
    "netmap:nowhere^",
    "here",
    "xdp:here",
    "xdp:here-1",
    "xdp:here^1",
    "xdp:here@conf:rings=2",
    "xdp:big",
    "netmap:big",
    "netmap:big^",
    "netmap:big*",
    "packet:big",
    "packet:here",
    "packet:here-1",
    "packet:here/r",
    "packet:here@conf:slots=100000",
    "packet:nowhere",
    "pcap:DIR/new.pcap",
    "pcap:DIR/no/new.pcap",
    "pcap:DIR",
    "vhost:DIR/new.sock",
    "vhost:DIR/new.sock@conf:rings=16",
    "vhost:DIR/new.sock@conf:rings=17",
    "vhost:DIR/new.sock@conf:slots=1",
    "vhost:DIR/new.sock@7",
    "vhost:DIR/no/new.sock",
    "vhost:DIR/used.sock",
    "vhostclient:DIR/used.sock@conf:rings=17",
    "vhostclient:DIR/new.sock",
    "vhostclient:DIR/file",
    "vhostclient:DIR/link",
    "vhost:DIR/file",
    "kernel:here@conf:slots=1",
    "kernel:here@extmem:file=/dev/shm/x",
    "kernel:x{1@offset:initial=64",
    "vale0:a@share:port=x",
    "vale0:a",
    "vfio:03:00.0",
    "vfio:03:00.0@conf:slots=1",
];

/// Doctor's findings for a name, and the result of opening the port.
struct Answers {
    name: String,
    findings: Vec<Finding>,
    opened: Result<(), OpenError>,
}

impl Answers {
    /// Runs doctor before opening the port, because opening may create what the name refers to.
    fn of(name: &str, dir: &Path) -> Self {
        let name = name.replace("DIR", &dir.display().to_string());
        let port = PortName::parse_classic(&name).unwrap();
        let privileges = Privileges::of_this_process();
        let context = DoctorContext {
            run_dir: dir,
            may_make_devices: privileges.may_make_devices(),
            interface: &|named| port::examine(named, &privileges),
        };
        let findings = kinds::examine(&port, &context);
        let opened = Host::new().open_all(&[port], &OpenOptions::default()).map(drop);
        Self { name, findings, opened }
    }

    fn failure(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.state == FindingState::Fail)
    }

    /// Describes how doctor and opening disagree; `None` if they agree.
    fn disagreement(&self) -> Option<String> {
        let Self { name, opened, .. } = self;
        match (opened, self.failure()) {
            (Err(error), Some(_)) if exit_of(&self.findings) != Diagnose::exit(error) => {
                Some(format!("{name}: another exit status than that of {error}"))
            }
            (Ok(()), None) | (Err(_), Some(_)) => None,
            (Ok(()), Some(finding)) => Some(format!("{name} opens, and doctor says {finding:?}")),
            (Err(error), None) => Some(format!("doctor says that {name} is well, and {error}")),
        }
    }
}

/// Returns the answers for all names, in a namespace with the interfaces that [`NAMES`] describes;
/// `None` if this machine allows no namespace.
fn all_answers() -> Option<Vec<Answers>> {
    let namespace = Namespace::new()?;
    namespace.veth("here", &namespace, "there", "");
    namespace.silence("there");
    namespace.ip("link set there up");
    namespace.veth("big", &namespace, "bigger", "");
    for end in ["big", "bigger"] {
        namespace.ip(&format!("link set {end} up mtu 65535"));
    }
    namespace.ip("tuntap add dev tun mode tun");
    namespace.ip("tuntap add dev tap mode tap");
    Some(namespace.run(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = |name| dir.path().join(name);
        let _listener = UnixListener::bind(path("used.sock")).unwrap();
        std::os::unix::fs::symlink(path("used.sock"), path("link")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        NAMES.iter().map(|name| Answers::of(name, dir.path())).collect()
    }))
}

#[test]
fn doctor_and_opening_agree_on_every_name() {
    let Some(answers) = all_answers() else { return };
    let differ: Vec<_> = answers.iter().filter_map(Answers::disagreement).collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn doctor_refuses_an_option_with_the_words_code_and_advice_of_opening() {
    let Some(answers) = all_answers() else { return };
    let of_the_name = |error: &&OpenError| {
        use OpenCause::{QueueRange, Setting, Unsupported};
        matches!(*error.cause, Setting { .. } | QueueRange { .. } | Unsupported { .. })
    };
    for answers in &answers {
        let Some(error) = answers.opened.as_ref().err().filter(of_the_name) else { continue };
        assert_eq!(answers.failure(), Some(&Finding::port_refused(error)), "{}", answers.name);
    }
}
