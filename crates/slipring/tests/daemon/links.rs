//! Tests of the symbolic link by which programs find the device.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::sandbox::{client, output};
use slipring_test_support::{Program, Sandbox};

use crate::SLIPRING;

#[test]
fn the_link_is_made_leads_to_the_device_and_goes_with_the_daemon() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let link = site.path("device");
    let daemon = site.daemon(&format!("--link {}", link.display()));
    assert_eq!(fs::read_link(&link).unwrap(), site.run_dir().join("fuse/netmap"));
    let program = Program::launch(&site.inside, client(&link, "bind x{1"));
    assert_eq!(output(program.finish()), "bound");
    daemon.stop(Signal::TERM).well();
    assert!(fs::symlink_metadata(&link).is_err());
}

#[test]
fn programs_find_the_device_where_they_always_did() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    // Creates a private /dev with the nodes that programs need.
    fs::create_dir(site.path("dev")).unwrap();
    let dev = site.path("dev").display().to_string();
    site.inside.command("mount", &format!("-t tmpfs none {dev}"));
    site.inside.command("mknod", &format!("{dev}/null c 1 3"));
    site.inside.command("mknod", &format!("{dev}/fuse c 10 229"));
    site.inside.command("mount", &format!("--bind {dev} /dev"));
    let daemon = site.launch_with_default_link("");
    daemon.wait_for_text("transport=fuse");
    let program = Program::launch(&site.inside, client("/dev/netmap".as_ref(), "bind x{1"));
    assert_eq!(output(program.finish()), "bound");
    daemon.stop(Signal::TERM).well();
    assert!(!site.inside.command("ls", "/dev").contains("netmap"));
}

#[test]
fn what_is_there_already_is_never_replaced() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let (file, device, other) = (site.path("file"), site.path("device"), site.path("other"));
    fs::write(&file, "mine").unwrap();
    let mut mknod = Command::new("mknod");
    assert!(mknod.arg(&device).args(["c", "1", "3"]).status().unwrap().success());
    symlink(&file, &other).unwrap();
    for taken in [&file, &device, &other] {
        let daemon = site.daemon(&format!("--link {}", taken.display()));
        assert_eq!(site.bind("x{1"), "bound");
        let ended = daemon.stop(Signal::INT).well();
        let message = format!("{} is left as it is", taken.display());
        assert!(ended.stderr.contains(&message), "{ended:?}");
        assert!(ended.stderr.contains("fuse/netmap"), "{ended:?}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert!(fs::symlink_metadata(&device).unwrap().file_type().is_char_device());
    assert_eq!(fs::read_link(&other).unwrap(), file);
}

#[test]
fn a_link_that_somebody_put_in_its_place_stays() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let link = site.path("device");
    let daemon = site.daemon(&format!("--link {}", link.display()));
    fs::remove_file(&link).unwrap();
    fs::write(&link, "a module's").unwrap();
    daemon.stop(Signal::TERM).well();
    assert_eq!(fs::read(&link).unwrap(), b"a module's");
}
