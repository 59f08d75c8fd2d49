//! Tests of objects that a user left in the device and that root removes.

use std::os::unix::process::CommandExt;
use std::process::Command;

use slipring_test_support::sandbox::NOBODY;
use slipring_test_support::{FinishedProgram, Program, Sandbox, eventually};

use crate::support::SLIPRING;

/// Returns the daemon's line about the memory of user `uid`, or `None` if it has no such line.
fn shown(site: &Sandbox, uid: u32) -> Option<String> {
    let shown = site.ask("daemon ctl memory").well().stdout;
    shown.lines().find(|line| line.starts_with(&format!("user {uid} "))).map(str::to_owned)
}

/// Runs `slipring vale` with these arguments as user `uid`. The program may fail.
fn vale_as(site: &Sandbox, uid: u32, words: &str) -> FinishedProgram {
    let mut command = Command::new(site.copy_of(SLIPRING));
    command.arg("vale").args(words.split_ascii_whitespace());
    command.arg("--device").arg(site.run_dir().join("netmap"));
    command.arg("--run-dir").arg(site.run_dir());
    command.uid(uid).gid(uid);
    Program::launch(&site.inside, command).finish()
}

#[test]
fn root_removes_what_another_user_has_left_and_its_memory_goes() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("--mode 666");
    vale_as(&site, NOBODY, "-n keep0").well();
    vale_as(&site, NOBODY, "-a vale0:keep0").well();
    eventually("the port to be shown", || {
        shown(&site, NOBODY).filter(|line| line.ends_with("; persistent: keep0")).map(drop)
    });
    let own = vale_as(&site, 0, "-r keep0");
    assert!(own.stderr.contains("with --owner USER, as root"), "{own:?}");
    let plugged = vale_as(&site, 0, &format!("-r keep0 --owner {NOBODY}"));
    let help = format!("help: plug it out: slipring vale -d SWITCH:keep0 --owner {NOBODY}");
    assert!(plugged.stderr.contains(&help), "{plugged:?}");
    let out = vale_as(&site, 0, "-d vale0:keep0 --owner nobody").well();
    assert_eq!(out.stdout, "port_index: 0\n");
    assert_eq!(vale_as(&site, 0, &format!("-r keep0 --owner {NOBODY}")).well().stdout, "");
    eventually("its memory to go", || shown(&site, NOBODY).is_none().then_some(()));
    let gone = vale_as(&site, 0, &format!("-r keep0 --owner {NOBODY}"));
    assert!(gone.stderr.contains(&format!("user {NOBODY} has no port keep0")), "{gone:?}");
}

#[test]
fn nobody_but_root_removes_what_another_user_has_left() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("--mode 666");
    vale_as(&site, 0, "-n keep0").well();
    let refused = vale_as(&site, NOBODY, "-r keep0 --owner 0");
    assert!(refused.stderr.contains("only that user and root are answered"), "{refused:?}");
    assert!(shown(&site, 0).unwrap().ends_with("; persistent: keep0"));
    vale_as(&site, 0, "-r keep0").well();
}

#[test]
fn an_interface_that_another_user_has_in_a_switch_leaves_it_also_while_it_is_polled() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("--mode 666 --nics-for-all");
    vale_as(&site, NOBODY, "-a vale0:e0").well();
    vale_as(&site, NOBODY, "-p vale0:e0").well();
    assert_eq!(site.bind("e0"), "EBUSY");
    vale_as(&site, 0, &format!("-d vale0:e0 --owner {NOBODY}")).well();
    eventually("the interface to be free", || (site.bind("e0") == "bound").then_some(()));
    let program = site.client_of_nobody("hold vale0:a");
    program.wait_for_text("bound");
    let stays = vale_as(&site, 0, &format!("-d vale0:a --owner {NOBODY}"));
    assert!(stays.stderr.contains("help: end the program"), "{stays:?}");
}
