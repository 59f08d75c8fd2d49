use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;

const OWN: u32 = 100;
const IFINDEX: u32 = 3;
const FILL_RING: &str = "7f0f8c000000-7f0f8c003000 rw-s 100000000 00:09 4711      socket:[4711]\n";

/// A directory of the form of `/proc`.
struct FakeProc(tempfile::TempDir);

impl FakeProc {
    /// Creates a directory with this process alone, in the network namespace 1.
    fn new() -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        it.process(OWN, "own", "net:[1]");
        symlink(OWN.to_string(), it.0.path().join("thread-self")).unwrap();
        it
    }

    fn process(&self, pid: u32, name: &str, netns: &str) {
        let dir = self.dir(pid);
        for part in ["ns", "fd", "fdinfo"] {
            fs::create_dir_all(dir.join(part)).unwrap();
        }
        symlink(netns, dir.join("ns/net")).unwrap();
        fs::write(dir.join("comm"), format!("{name}\n")).unwrap();
        fs::write(dir.join("maps"), "").unwrap();
    }

    /// Creates a process of which this one sees nothing but its name.
    fn hidden_process(&self, pid: u32) {
        fs::create_dir(self.dir(pid)).unwrap();
        fs::write(self.dir(pid).join("comm"), "hidden\n").unwrap();
    }

    fn dir(&self, pid: u32) -> PathBuf {
        self.0.path().join(pid.to_string())
    }

    fn map(&self, pid: u32, mapping: &str) {
        fs::write(self.dir(pid).join("maps"), mapping).unwrap();
    }

    fn hold_socket(&self, pid: u32, inode: u64) {
        symlink(format!("socket:[{inode}]"), self.dir(pid).join("fd/7")).unwrap();
    }

    fn hold_xdp_link(&self, pid: u32, ifindex: u32) {
        symlink("anon_inode:bpf_link", self.dir(pid).join("fd/8")).unwrap();
        let info = format!("pos:\t0\nlink_type:\txdp\nlink_id:\t7\nifindex:\t{ifindex}\n");
        fs::write(self.dir(pid).join("fdinfo/8"), info).unwrap();
    }

    fn table(&self, sees_other_users: bool) -> ProcessTable {
        ProcessTable::in_directory(self.0.path().to_owned(), OWN, sees_other_users)
    }
}

fn by(label: &str) -> QueueOwner {
    QueueOwner::Process(label.into())
}

fn queue(queue: u32) -> BoundQueue {
    BoundQueue { ifindex: IFINDEX, queue }
}

#[test]
fn without_the_right_to_look_at_other_users_processes_an_owner_that_is_not_found_is_unknown() {
    let proc = FakeProc::new();
    proc.process(200, "reader", "net:[1]");
    proc.hidden_process(300);
    assert_eq!(probable_owner(&proc.table(false), IFINDEX), QueueOwner::Unknown);
    // With the right, a process that stays hidden counts as one outside of this container.
    assert_eq!(probable_owner(&proc.table(true), IFINDEX), QueueOwner::Nobody);
}

#[test]
fn a_process_of_this_namespace_with_a_fill_ring_is_suspected_whatever_else_is_hidden() {
    let proc = FakeProc::new();
    proc.map(OWN, FILL_RING);
    proc.process(200, "reader", "net:[1]");
    proc.map(200, FILL_RING);
    proc.process(300, "elsewhere", "net:[2]");
    proc.map(300, FILL_RING);
    proc.process(400, "packets", "net:[1]");
    proc.map(400, &FILL_RING.replace("100000000", "00000000"));
    proc.hidden_process(500);
    for sees_other_users in [false, true] {
        let owner = probable_owner(&proc.table(sees_other_users), IFINDEX);
        assert_eq!(owner, QueueOwner::Suspects("reader (200)".into()));
    }
}

#[test]
fn a_program_of_another_process_shows_the_owner_of_the_queues() {
    let proc = FakeProc::new();
    proc.process(200, "reader", "net:[1]");
    proc.hold_xdp_link(200, IFINDEX);
    proc.process(300, "elsewhere", "net:[2]");
    proc.hold_xdp_link(300, IFINDEX + 1);
    assert_eq!(probable_owner(&proc.table(true), IFINDEX), by("reader (200)"));
    assert_eq!(probable_owner(&proc.table(true), IFINDEX + 1), QueueOwner::Nobody);
}

#[test]
fn a_program_of_this_process_and_its_copies_show_no_owner() {
    let proc = FakeProc::new();
    proc.hold_xdp_link(OWN, IFINDEX);
    proc.process(200, "child", "net:[1]");
    proc.hold_xdp_link(200, IFINDEX);
    assert_eq!(probable_owner(&proc.table(true), IFINDEX), QueueOwner::Nobody);
}

#[test]
fn a_queue_without_a_socket_has_no_owner_and_one_whose_process_is_hidden_an_unknown_one() {
    let proc = FakeProc::new();
    proc.hidden_process(200);
    let sockets = [(4711, queue(1))].into();
    let owner = |wanted| owner_among(&proc.table(true), &sockets, wanted);
    assert_eq!(owner(queue(0)), QueueOwner::Nobody);
    assert_eq!(owner(queue(1)), QueueOwner::Unknown);
}

#[test]
fn listed_sockets_lead_to_the_processes_with_their_descriptors_or_rings() {
    let proc = FakeProc::new();
    let sockets = [(4711, queue(0)), (5, queue(1)), (6, queue(2))].into();
    // Sockets are found by their inode numbers, so the namespace of the process does not matter.
    proc.process(200, "lender", "net:[2]");
    proc.hold_socket(200, 4711);
    proc.process(300, "other", "net:[1]");
    proc.hold_socket(300, 5);
    let owner = |wanted| owner_among(&proc.table(false), &sockets, wanted);
    assert_eq!(owner(queue(0)), by("lender (200)"));
    assert_eq!(owner(queue(1)), by("other (300)"));
    proc.map(300, FILL_RING);
    let QueueOwner::Process(both) = owner(queue(0)) else { panic!("{:?}", owner(queue(0))) };
    let mut labels: Vec<_> = both.split(" and ").collect();
    labels.sort_unstable();
    assert_eq!(labels, ["lender (200)", "other (300)"]);
    proc.hold_socket(OWN, 6);
    assert_eq!(owner(queue(2)), by("this process"));
}

#[test]
fn a_listed_socket_of_this_process_is_its_own() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let inode = rustix::fs::fstat(socket.as_fd()).unwrap().st_ino;
    let sockets = [(inode, queue(0))].into();
    assert_eq!(owner_among(&ProcessTable::visible(), &sockets, queue(0)), by("this process"));
}
