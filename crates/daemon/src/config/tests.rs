use super::*;
use crate::rules::{PortAccess, Requester};

fn accounts() -> Accounts {
    Accounts::of(
        "root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n",
        "net:x:50:\nnetmap:x:51:\n",
    )
}

fn read(text: &str) -> Result<DaemonSettings, Diagnostic> {
    settings("d.toml", text, &accounts())
}

#[test]
fn a_whole_file_is_understood() {
    let settings = read(
        r#"
        mode = "640"
        owner = "alice"
        group = 51
        workers = 3
        uring = "on"
        link = "none"
        run-dir = "/run/x"
        [memory]
        per-user = "8GiB"
        [parameters]
        buf_num = 1000
        [[allow]]
        users = ["alice", 1007]
        interfaces = ["eth*"]
        [[deny]]
        groups = ["net"]
        kinds = ["pipe"]
        [[take-over]]
        users = [0]
        "#,
    )
    .unwrap();
    assert_eq!((settings.mode, settings.uid, settings.gid), (Some(0o640), Some(1000), Some(51)));
    assert_eq!((settings.workers, settings.domain_bytes), (Some(3), Some(8 << 30)));
    assert_eq!(settings.uring, Some(slipring_fuse::UringMode::On));
    assert_eq!(settings.parameters, [("buf_num".to_owned(), 1000)]);
    let alice = Requester { uid: 1000, gids: &[50] };
    assert!(settings.access_rules.admits(alice, PortAccess::of_port("eth1")));
    assert!(!settings.access_rules.admits(alice, PortAccess::of_port("x{1")));
    assert_eq!(settings.access_rules.take_over.len(), 1);
}

#[test]
fn an_empty_file_sets_nothing() {
    assert_eq!(read("").unwrap(), DaemonSettings::default());
}

#[test]
fn what_cannot_be_is_refused_with_its_place_and_what_may_be() {
    for (text, code, place, help) in [
        ("mode = ", "SR0009", "line 1, column 8", ""),
        ("\n mod = \"660\"", "SR0010", "line 2, column 2", ""),
        ("mode = \"rwx\"", "SR0010", "line 1, column 8", "octal number up to 777"),
        ("mode = 660", "SR0010", "line 1, column 8", ""),
        ("workers = 1", "SR0010", "line 1, column 11", "2 to 64"),
        ("uring = \"yes\"", "SR0010", "line 1, column 9", "auto, on, off"),
        ("uring = true", "SR0010", "line 1, column 9", ""),
        ("owner = \"bob\"", "SR0010", "line 1, column 9", "/etc/passwd"),
        ("[memory]\nper-user = \"8\"", "SR0010", "line 2, column 12", "512MiB to 16TiB"),
        ("[memory]\nper-usr = \"8\"", "SR0010", "line 2, column 1", ""),
        ("[parameters]\nbuf_num = 3", "SR0010", "line 2, column 11", "4 to 1000000"),
        ("[parameters]\nbufnum = 3", "SR0010", "line 2, column 1", "buf_num"),
        ("[parameters]\nbuf_curr_num = 3", "SR0010", "line 2, column 16", "only be read"),
        ("[[allow]]\nuser = [\"alice\"]", "SR0010", "line 2, column 1", ""),
        ("[[allow]]\nusers = [\"alice\", \"bob\"]", "SR0010", "line 2, column 19", "a number"),
        ("[[deny]]\nkinds = [\"pip\"]", "SR0010", "line 2, column 10", "interface, pipe"),
    ] {
        let message = read(text).unwrap_err().to_string();
        assert!(message.contains(code) && message.contains("d.toml"), "{text}: {message}");
        assert!(message.contains(place) && message.contains(help), "{text}: {message}");
    }
}

#[test]
fn an_unknown_key_is_told_with_those_that_are_known() {
    let message = read("wrkers = 4").unwrap_err().to_string();
    assert!(message.contains("`workers`") && message.contains("`take-over`"), "{message}");
}

#[test]
fn the_example_that_is_shipped_is_one() {
    let text = include_str!("../../../../packaging/daemon.toml.example");
    let bare = |line: &str| line.strip_prefix("#:").map(str::to_owned);
    let shown: Vec<_> = text.lines().filter_map(bare).collect();
    assert!(shown.len() > 10);
    read(&shown.join("\n")).unwrap();
}
