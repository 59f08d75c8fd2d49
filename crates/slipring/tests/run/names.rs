//! Tests of name resolution: a stub resolver in the outer namespace answers the command.

use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

use slipring_test_support::{
    FinishedProgram, Namespace, Program, installed, user_namespaces_allowed,
};

use crate::support::SLIPRING;
use crate::users::{OrdinaryUser, as_ordinary_user};
use crate::world;

/// Starts a name server in `world`. It answers queries for IPv4 addresses with 192.0.2.7; its
/// answers to other queries contain no record.
fn resolver(world: &Namespace, address: &'static str) {
    let socket = world.run(move || UdpSocket::bind((address, 53)).unwrap());
    std::thread::spawn(move || {
        let mut bytes = [0; 512];
        while let Ok((len, from)) = socket.recv_from(&mut bytes) {
            answer(&socket, &bytes[..len], from);
        }
    });
}

fn answer(socket: &UdpSocket, question: &[u8], to: SocketAddr) {
    // The question ends with type and class, after the zero that ends the name.
    let end = 12 + question[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    let is_a = question[end - 3] == 1;
    let mut bytes = question[..end].to_vec();
    bytes[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    if is_a {
        bytes.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
    }
    socket.send_to(&bytes, to).unwrap();
}

/// Resolves a name in a run, while the outer namespace has this `resolv.conf`.
fn look_up(
    world: &Namespace,
    resolv_conf: &str,
    person: Option<&OrdinaryUser>,
    nat: &str,
) -> FinishedProgram {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), resolv_conf).unwrap();
    let program = person.map_or(SLIPRING.into(), OrdinaryUser::words);
    let script = format!(
        "mount --bind {} /etc/resolv.conf && exec {program} run -q --nat {nat} --delay 1ms \
         -- getent ahostsv4 name.test",
        file.path().display()
    );
    // Every user may read this file, as with the real `/etc/resolv.conf`.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(file.path(), open).unwrap();
    let mut command = Command::new("unshare");
    // No file can be created in this directory, as if it belonged to another user.
    command.args(["-m", "sh", "-c", &script]).env("TMPDIR", "/proc/no-such-directory");
    Program::launch(world, command).finish()
}

#[test]
fn names_are_asked_of_a_resolver_on_loopback() {
    let Some(world) = world() else { return };
    resolver(&world, "127.0.0.53");
    let ended = look_up(&world, "nameserver 127.0.0.53\n", None, "kernel").well();
    assert!(ended.stdout.contains("192.0.2.7"), "{ended:#?}");
}

#[test]
fn names_are_asked_of_a_resolver_on_an_address_of_the_host() {
    let Some(world) = world() else { return };
    resolver(&world, "10.9.0.1");
    let ended = look_up(&world, "nameserver 10.9.0.1\n", None, "kernel").well();
    assert!(ended.stdout.contains("192.0.2.7"), "{ended:#?}");
}

#[test]
fn an_ordinary_users_names_are_asked_as_well() {
    let (Some(world), Some(person)) = (world(), as_ordinary_user()) else { return };
    if !user_namespaces_allowed() {
        return;
    }
    for program in ["pasta", "slirp4netns"] {
        if !installed(program) {
            continue;
        }
        let person = person.with_only(program);
        let world = &world;
        resolver_once(world);
        let ended = look_up(world, "nameserver 127.0.0.53\n", Some(&person), "user").well();
        assert!(ended.stdout.contains("192.0.2.7"), "{program}: {ended:#?}");
    }
}

fn resolver_once(world: &Namespace) {
    let free = world.run(|| UdpSocket::bind(("127.0.0.53", 53)).is_ok());
    if free {
        resolver(world, "127.0.0.53");
    }
}
