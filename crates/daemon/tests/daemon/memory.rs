//! Tests of how much memory users have, and of when it is freed.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::sandbox::NOBODY;
use slipring_test_support::{Program, Sandbox, eventually};

use crate::SLIPRING;
use crate::settings::vale;

/// How much memory a hostile program uses, in MiB.
const MIB: u64 = 64;

/// Returns the line about a user's memory; `None` if the user has no memory.
fn shown(site: &Sandbox, uid: u32) -> Option<String> {
    let mut command = Command::new(SLIPRING);
    command.args(["daemon", "ctl", "memory", "--run-dir"]).arg(site.run_dir());
    let shown = Program::launch(&site.inside, command).finish().well().stdout;
    shown.lines().find(|line| line.starts_with(&format!("user {uid} "))).map(str::to_owned)
}

/// Returns the number before the word `word` in a line. A unit is between the two.
fn figure(line: &str, word: &str) -> u64 {
    let words: Vec<_> = line.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|&one| one == word).unwrap();
    words[at - 2].parse().unwrap()
}

/// Returns how many memory files of users the daemon has open.
fn files(daemon: &Program) -> usize {
    let fds = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
    let names = fds.filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    names.filter(|name| name.to_string_lossy().contains("slipring-domain")).count()
}

#[test]
fn hostile_memory_left_behind_goes_with_the_last_file_of_its_user() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("--mode 666");
    assert_eq!(shown(&site, NOBODY), None);
    for verb in ["touch", "touch-closed"] {
        let hostile = site.client_of_nobody(&format!("{verb} x{{1 {MIB}"));
        hostile.wait_for_text("touched");
        if verb == "touch" {
            let line = shown(&site, NOBODY).unwrap();
            assert!(figure(&line, "touched") >= MIB, "{line}");
        }
        hostile.stop(Signal::KILL);
        eventually("its memory to go", || shown(&site, NOBODY).is_none().then_some(()));
        eventually("its file to be closed", || (files(&daemon) == 0).then_some(()));
    }
    assert_eq!(site.bind_as_nobody("x{1"), "bound");
    site.exchange("x{1", "x}1", 500);
    daemon.stop(Signal::TERM).well();
    site.is_clean();
}

#[test]
fn a_users_memory_is_at_most_a_quarter_of_the_machines() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("--mode 666");
    let holder = site.client_of_nobody("hold x{1");
    holder.wait_for_text("bound");
    let line = shown(&site, NOBODY).unwrap();

    let limit: u64 =
        line.split_once("at most ").unwrap().1.split(' ').next().unwrap().parse().unwrap();
    let total = fs::read_to_string("/proc/meminfo").unwrap();
    let total = total.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let kib: u64 = total.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(limit > 0 && limit <= kib / 1024 / 4, "{line}");
}

#[test]
fn a_user_who_opens_and_closes_in_turns_always_finds_the_device() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    std::thread::scope(|scope| {
        for name in ["a{1", "b{1", "c{1"] {
            let site = &site;
            scope.spawn(move || (0..30).for_each(|_| assert_eq!(site.bind(name), "bound")));
        }
    });
}

#[test]
fn persistent_ports_are_shown_by_their_owner_and_keep_memory_until_they_are_removed() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    assert_eq!(vale(&site, "-n keep0"), "");
    eventually("the port to be shown", || {
        shown(&site, 0).filter(|line| line.ends_with("; persistent: keep0")).map(drop)
    });
    assert_eq!(files(&daemon), 1);
    assert_eq!(vale(&site, "-r keep0"), "");
    eventually("its memory to go", || shown(&site, 0).is_none().then_some(()));
    eventually("its file to be closed", || (files(&daemon) == 0).then_some(()));
}
