//! Tests the documented example, unchanged: two hosts that only the example connects can ping each
//! other.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use slipring_core::netns::Netns;
use slipring_port::netlink::Netlink;

/// Ends the example when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_example_of_the_documentation_connects_two_hosts() {
    let (Ok(middle), Ok(left), Ok(right)) = (Netns::new(), Netns::new(), Netns::new()) else {
        slipring_test_support::skip!("network namespaces need root");
        return;
    };
    for (near, host, address) in [("left", &left, "10.0.0.1/24"), ("right", &right, "10.0.0.2/24")]
    {
        middle
            .run(|| {
                let netlink = Netlink::open()?;
                netlink.add_veth(near, "far", Some(host.as_fd()))?;
                ip(&["link", "set", "dev", near, "up"])
            })
            .unwrap();
        host.run(|| {
            ip(&["addr", "add", address, "dev", "far"])?;
            ip(&["link", "set", "dev", "far", "up"])
        })
        .unwrap();
    }
    let mut example = middle
        .run(|| {
            Command::new(built_example())
                .args(["netmap:left", "netmap:right"])
                .stdout(Stdio::piped())
                .spawn()
        })
        .map(Running)
        .unwrap();
    // The second line of the output shows that both ports are open.
    let output = BufReader::new(example.0.stdout.take().unwrap());
    let modes: Vec<String> = output.lines().take(2).map(Result::unwrap).collect();
    assert!(modes[1].starts_with("netmap:right kind="), "{modes:?}");
    let ping = left.run(|| {
        Command::new("ping").args(["-c", "3", "-i", "0.1", "-w", "60", "10.0.0.2"]).output()
    });
    let ping = String::from_utf8(ping.unwrap().stdout).unwrap();
    assert!(ping.contains(" 3 received"), "{ping}");
}

fn ip(words: &[&str]) -> std::io::Result<()> {
    let status = Command::new("ip").args(words).status()?;
    assert!(status.success(), "ip {words:?}");
    Ok(())
}

/// `cargo test` builds examples next to the directory of test programs, unless it builds a single
/// test.
fn built_example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.parent().unwrap().with_file_name("examples").join("forward");
    assert!(example.exists(), "build it: cargo build -p slipring-core --example forward");
    example
}
