//! Tests of `daemon.toml`, the control socket and the parameters, with a running daemon.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use slipring_cli::Verb;
use slipring_datapath::captured_run::run_captured;
use slipring_test_support::sandbox::NOBODY;
use slipring_test_support::{FinishedProgram, Program, Sandbox, eventually, skip};

use crate::SLIPRING;

fn ctl(site: &Sandbox, words: &str) -> FinishedProgram {
    let mut command = Command::new(SLIPRING);
    command.args(["daemon", "ctl"]).args(words.split_ascii_whitespace());
    command.arg("--run-dir").arg(site.run_dir());
    Program::launch(&site.inside, command).finish()
}

static VERBS: [Verb; 1] = [slipring_vale::VERB];

/// Runs `slipring vale` with these arguments. Returns its error output, which is empty if it
/// succeeds.
pub(crate) fn vale(site: &Sandbox, words: &str) -> String {
    let words = format!("{words} --device {}", site.run_dir().join("netmap").display());
    site.inside.run(move || run_captured(&VERBS, "vale", &words, Path::new("")).stderr)
}

fn with_file(site: &Sandbox, text: &str) -> String {
    let path = site.path("daemon.toml");
    fs::write(&path, text).unwrap();
    format!("--config {}", path.display())
}

/// Runs a script that sees the same files as the daemon. Returns all its output.
fn shell(site: &Sandbox, daemon: &Program, script: &str, uid: u32) -> String {
    let mut command = Command::new("nsenter");
    command.arg(format!("--mount=/proc/{}/ns/mnt", daemon.pid()));
    if uid != 0 {
        command.args([format!("--setuid={uid}"), format!("--setgid={uid}")]);
    }
    command.args(["sh", "-c", script]).arg("sh").arg(site.run_dir().join("fuse/parameters"));
    let ended = Program::launch(&site.inside, command).finish();
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn the_file_holds_where_flags_say_nothing() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let output = "mode = \"640\"\nworkers = 3\nuring = \"off\"\nlink = \"none\"\n";
    let words = with_file(&site, output);
    let daemon = site.launch_with_default_link(&format!("{words} --workers 5"));
    daemon.wait_for_text("workers=5 mode=640");
}

#[test]
fn a_file_that_cannot_be_obeyed_keeps_the_daemon_from_starting() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let words = with_file(&site, "mode = \"640\"\nworker = 3\n");
    let ended = site.launch(&words).finish();
    assert_eq!(ended.code(), 2, "{ended:?}");
    let output = &ended.stderr;
    assert!(output.contains("daemon.toml") && output.contains("line 2, column 1"), "{output}");
    assert!(output.contains("`workers`") && output.contains("help: "), "{output}");
    assert_eq!(site.launch("--config /no/such/file").finish().code(), 2);
}

#[test]
fn rules_say_who_may_bind_what_and_hup_reads_them_anew() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let words = with_file(
        &site,
        &format!(
            "[[allow]]\nusers = [{NOBODY}]\ninterfaces = [\"e?\"]\n[[deny]]\nports = [\"z*\"]\n"
        ),
    );
    let daemon = site.daemon(&format!("{words} --mode 666"));
    daemon.wait_for_text("rules=2");
    assert_eq!(site.bind_as_nobody("e0"), "bound");
    assert_eq!((site.bind_as_nobody("z{1"), site.bind("z{1")), ("EPERM".into(), "EPERM".into()));
    assert_eq!(site.bind_as_nobody("nosuch0"), "ENXIO");
    let held = site.client("hold e1");
    held.wait_for_text("bound");
    with_file(&site, "[[deny]]\ninterfaces = [\"e0\", \"e1\"]\n");
    daemon.signal(Signal::HUP);
    eventually("the new rules", || (site.bind("e0") == "EPERM").then_some(()));
    assert_eq!(site.bind("e1"), "EPERM", "also one that somebody has");
    assert_eq!(site.bind_as_nobody("e0"), "EPERM");
    assert_eq!(site.bind("z{1"), "bound");
}

#[test]
fn rules_hold_for_persistent_ports() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let words = with_file(&site, "");
    let daemon = site.daemon(&words);
    assert_eq!(vale(&site, "-n v0"), "");
    with_file(
        &site,
        "[[deny]]\nports = [\"w*\"]\n[[deny]]\nkinds = [\"switch\"]\nports = [\"v*\"]\n",
    );
    daemon.signal(Signal::HUP);
    eventually("the new rules", || (site.bind("v0") == "EPERM").then_some(()));
    for words in ["-n w0", "-n x0", "-a vale0:v0"] {
        let output = vale(&site, words);
        assert!(output.contains("Operation not permitted"), "{words}: {output}");
    }
    assert_eq!(site.bind("w0"), "ENXIO");
}

#[test]
fn a_file_that_became_wrong_changes_nothing() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let words = with_file(&site, "[[deny]]\nports = [\"z*\"]\n");
    let daemon = site.daemon(&words);
    with_file(&site, "[parameters]\nbuf_num = 1000\n[[deny]]\nport = []\n");
    let refused = ctl(&site, "reload");
    assert_eq!(refused.code(), 2, "{refused:?}");
    assert!(refused.stderr.contains("line 4, column 1"), "{refused:?}");
    daemon.signal(Signal::HUP);
    daemon.wait_for_text("line 4, column 1");
    assert_eq!((site.bind("z{1"), site.bind("y{1")), ("EPERM".into(), "bound".into()));
    assert_eq!(ctl(&site, "params buf_num").well().stdout, "buf_num = 163840\n");
    with_file(&site, "[parameters]\nbuf_num = 1000\n");
    ctl(&site, "reload").well();
    assert_eq!(site.bind("z{1"), "bound");
    assert_eq!(ctl(&site, "params buf_num").well().stdout, "buf_num = 1000\n");
}

#[test]
fn parameters_are_files_that_all_may_read_and_root_may_write() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    let list = shell(&site, &daemon, "ls \"$1\" | wc -l; cat \"$1/ring_size\"", 0);
    assert_eq!(list.split_whitespace().collect::<Vec<_>>(), ["33", "36864"]);
    let set = shell(
        &site,
        &daemon,
        "echo 128 > \"$1/generic_ringsize\" && cat \"$1/generic_ringsize\"",
        0,
    );
    assert_eq!(set, "128\n");
    assert_eq!(ctl(&site, "params generic_ringsize").well().stdout, "generic_ringsize = 128\n");
    for (script, uid, error) in [
        ("printf 1 > \"$1/generic_ringsize\"", 0, "error"),
        ("echo 1 > \"$1/nosuch\"", 0, ""),
        ("echo 512 > \"$1/generic_ringsize\"", NOBODY, "Permission denied"),
    ] {
        let output = shell(&site, &daemon, script, uid);
        assert!(output.contains(error) && !output.is_empty(), "{script}: {output}");
    }
    assert_eq!(shell(&site, &daemon, "cat \"$1/generic_ringsize\"", NOBODY), "128\n");
}

#[test]
fn parameters_are_listed_and_set_by_the_control_socket() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let all = ctl(&site, "params").well().stdout;
    assert!(all.contains("buf_num = 163840    # 4 to 1000000\n"), "{all}");
    assert!(all.contains("kept, without effect"), "{all}");
    ctl(&site, "params buf_num=2000 priv_buf_num=5").well();
    assert_eq!(ctl(&site, "params buf_num").well().stdout, "buf_num = 2000\n");
    let refused = ctl(&site, "params buf_size=3000");
    assert!(
        refused.code() != 0
            && refused.stderr.contains("allowed: a multiple of 64 from 2048 to 4096"),
        "{refused:?}"
    );
    assert!(ctl(&site, "params bufnum").stderr.contains("no parameter `bufnum`"));
}

#[test]
fn an_interface_that_is_deleted_leaves_its_switch_which_is_logged() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let daemon = site.launch("--json");
    daemon.wait_for_text("\"event\":\"start\"");
    assert_eq!(vale(&site, "-a vale0:e0"), "");
    site.inside.ip("link del e0");
    daemon.wait_for_text("vale0:e0 has left its switch: the interface is no more");
    daemon.wait_for_text("\"event\":\"detach\"");
    let output = vale(&site, "-d vale0:e0");
    assert!(output.contains("No such device or address"), "{output}");
    site.inside.ip("link add e0 type veth peer name e1");
    site.inside.ip("link set e0 up");
    site.inside.ip("link set e1 up");
    assert_eq!(vale(&site, "-a vale0:e0"), "", "the name is free for the next one");
}

#[test]
fn what_an_interface_lost_is_told_of_its_port() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    // These programs do not take anything out of their rings.
    let holders = [site.client("outlive e0"), site.client("hold x{1")];
    holders.iter().for_each(|holder| holder.wait_for_text("bound"));
    site.client("send e1 5000").finish().well();
    eventually("the frames to be counted", || {
        let outcome = ctl(&site, "ports --json").well().stdout;
        let outcome: serde_json::Value = serde_json::from_str(&outcome).unwrap();
        let port =
            outcome["answer"]["ports"].as_array().unwrap().iter().find(|port| port["port"] == "e0");
        let port = port.unwrap();
        let lost = port["drops"].as_object().unwrap().values().filter_map(|count| count.as_u64());
        let (came, lost) = (port["rx"]["packets"].as_u64().unwrap(), lost.sum::<u64>());
        // One frame may wait in the kernel's ring for a slot.
        (lost > 0 && came + lost >= 4999).then_some(())
    });
    let outcome = ctl(&site, "ports").well().stdout;
    let words = ["e0 ", " interface, user 0, received ", ", dropped ", "x{1 ", " pipe, user 0\n"];
    words.iter().for_each(|word| assert!(outcome.contains(word), "{outcome}"));
}

/// Returns the contents of the `/proc` file `file` for each thread of the daemon and, if there is a
/// supervisor, of the worker that it has started. A thread that ends before its file is read is
/// left out.
fn of_threads(daemon: &Program, file: &str) -> Vec<String> {
    let tasks = |pid: &str| fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let pid = daemon.pid().to_string();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let processes = [&*pid].into_iter().chain(children.split_whitespace());
    let texts: Vec<_> = processes
        .flat_map(tasks)
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join(file)).ok())
        .collect();
    assert!(texts.len() > 1, "a daemon has several threads");
    texts
}

#[test]
fn all_threads_have_the_scheduling_that_is_asked_for() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let file = site.path("daemon.toml");
    fs::write(&file, "[service]\nscheduling = \"fifo:5\"\n").unwrap();
    for words in
        [format!("--config {}", file.display()), "--supervise --scheduling fifo:5".to_owned()]
    {
        let daemon = site.launch(&words);
        let started = daemon.wait_for("its start or refusal", |output| {
            let refused = output.stderr.contains("cannot have the scheduling");
            let started = output.stdout.contains("scheduling=fifo:5\n");
            (refused || started).then_some(started)
        });
        if !started {
            return skip!("real-time scheduling is not allowed here");
        }
        for stat in of_threads(&daemon, "stat") {
            // The fields 40 and 41, priority and policy. The first of `fields` is field 3, which
            // follows the name.
            let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
            assert_eq!(fields[37..39], ["5", "1"], "{stat}");
        }
        daemon.stop(Signal::TERM).well();
    }
}

#[test]
fn metrics_are_served_on_a_port_that_takes_a_right_to_listen_on() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    site.inside.ip("link set lo up");
    let daemon = site.daemon("--metrics 127.0.0.1:80");
    let answer = site.inside.run(|| {
        let mut client = TcpStream::connect("127.0.0.1:80").unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    });
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    daemon.stop(Signal::TERM).well();
}

#[test]
fn no_thread_of_a_daemon_keeps_what_it_does_not_need() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    // CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_SETUID, CAP_SETGID, CAP_KILL.
    let unneeded: u64 = [16, 17, 22, 25, 7, 6, 5].into_iter().map(|bit| 1 << bit).sum();
    let daemon = site.daemon("");
    if daemon.so_far().stderr.contains("stay") {
        return skip!("{}", daemon.so_far().stderr);
    }
    for status in of_threads(&daemon, "status") {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim().to_owned()
        };
        assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".to_owned(), "2".to_owned()));
        for set in ["CapPrm:", "CapEff:", "CapBnd:", "CapInh:", "CapAmb:"] {
            let bits = u64::from_str_radix(&field(set), 16).unwrap();
            assert_eq!(bits & unneeded, 0, "{set} {status}");
        }
    }
    site.exchange("x{1", "x}1", 500);
    daemon.stop(Signal::TERM).well();
    site.is_clean();
}
