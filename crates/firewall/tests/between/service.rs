//! Tests of the service under a systemd that the test starts. This systemd is PID 1 of new
//! namespaces. It has a disposable overlay of this machine's files, and a cgroup that is removed
//! afterwards.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use slipring_test_support::program::output;
use slipring_test_support::skip;

use super::*;
use crate::SLIPRING;

const UNIT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/slipring-firewall@.service");

/// The script that runs as PID 1. It mounts filesystems, overlays the files of the test on those of
/// the machine, and execs systemd. `$1` is the directory of the test.
const BOOT: &str = r#"
set -e
mount -t tmpfs tmpfs "$1/over"
mkdir "$1/over/upper" "$1/over/work" "$1/over/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/over/upper,workdir=$1/over/work" "$1/over/root"
cd "$1/over/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs dev
mkdir dev/net
for device in null zero full random urandom tty net/tun; do
    [ ! -e "/dev/$device" ] || { touch "dev/$device"; mount --bind "/dev/$device" "dev/$device"; }
done
rm -rf etc/systemd/system etc/machine-id
mkdir -p etc/systemd/system result
: > etc/machine-id
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-journald.service \
    systemd-journald.socket systemd-logind.service systemd-networkd.service getty.target; do
    ln -s /dev/null "etc/systemd/system/$unit"
done
cp -r "$1/files/." .
mount --bind "$1/result" result
exec chroot . /usr/bin/env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=try.target --log-target=console --show-status=no
"#;

/// The script that exercises the service. Each of its steps prints a result.
const TRY: &str = r#"
exec > /result/said 2>&1
export SLIPRING_RUN=/run/slipring
step() { echo "== $*"; }
service() { systemctl "$1" slipring-firewall@edge; echo "$1: $?"; }
ip link set lo up
for n in 1 2; do
    ip netns add "host$n"
    ip link add "port$n" type veth peer name e0
    ip link set e0 netns "host$n"
    ip link set "port$n" up
    ip -n "host$n" addr add "10.9.0.$n/24" dev e0
    ip -n "host$n" link set e0 up
done
ping() { ip netns exec host1 ping -n -c 1 -W "$1" 10.9.0.2 > /dev/null; echo "ping: $?"; }
main() { systemctl show -P MainPID slipring-firewall@edge; }
rules=/etc/slipring/firewall/edge.rules
step start
service start
slipring ipfw --name edge list
ping 5
grep -E 'CapEff|NoNewPrivs|Seccomp:' "/proc/$(main)/status"
step command
slipring ipfw -q add 50 count icmp from any to any keep-state
ping 5
service restart
slipring ipfw list 50
slipring ipfw -D list
step reload
echo 'add 100 deny icmp from any to any' > $rules
service reload
tries=0
until slipring ipfw list | grep -q '00100 deny' || [ $((tries += 1)) -gt 100 ]; do :; done
slipring ipfw list 100
ping 1
step crash
before=$(main)
kill -9 "$before"
until now=$(main); [ "$now" != 0 ] && [ "$now" != "$before" ] && systemctl is-active -q slipring-firewall@edge; do :; done
slipring ipfw list 100
step crashes
for crash in 1 2 3 4 5 6 7 8; do
    before=$(main)
    kill -9 "$before"
    tries=0
    until now=$(main); [ "$now" != 0 ] && [ "$now" != "$before" ] && systemctl is-active -q slipring-firewall@edge; do
        [ $((tries += 1)) -lt 2000 ] || break
    done
done
systemctl is-active slipring-firewall@edge
slipring ipfw list 100
step stop
service stop
systemctl is-failed slipring-firewall@edge
step mistake
rm /var/lib/slipring-firewall/edge.rules
echo 'add 100 alow ip from any to any' > $rules
service start
systemctl stop slipring-firewall@edge
step end
"#;

/// A cgroup. Dropping this value ends all processes in the cgroup and removes it.
struct Group(PathBuf);

impl Group {
    /// Creates a cgroup; `None` where there is no writable cgroup v2 hierarchy.
    fn new() -> Option<Self> {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists())?;
        let group = root.join(format!("slipring-test-{}", std::process::id()));
        std::fs::create_dir(&group).ok().map(|()| Self(group))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("cgroup.kill"), "1");
        // Child groups are removed first. A group can only be removed after its last process has
        // exited, so the removal is repeated.
        for _ in 0..1000 {
            let _ = Command::new("find")
                .arg(&self.0)
                .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", ";"])
                .output();
            if !self.0.exists() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Returns the output of the script's steps, or the reason why they could not run.
fn tried(dir: &Path) -> Result<String, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can start a systemd".to_owned());
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        return Err("there is no systemd".to_owned());
    }
    let group = Group::new().ok_or("there is no group of processes to start it in")?;
    for place in [
        "over",
        "result",
        "files/etc/systemd/system",
        "files/etc/slipring/firewall",
        "files/usr/bin",
    ] {
        std::fs::create_dir_all(dir.join(place)).unwrap();
    }
    let unit = std::fs::read_to_string(UNIT).unwrap().replace("@BIN@", "/usr/bin");
    let target = "[Unit]\nRequires=try.service\nAfter=try.service\n";
    let attempt = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nTimeoutStartSec=170\n\
                   ExecStart=/bin/sh /etc/try\nExecStopPost=/bin/systemctl --no-block exit\n";
    for (path, text) in [
        ("etc/systemd/system/slipring-firewall@.service", unit.as_str()),
        ("etc/systemd/system/try.target", target),
        ("etc/systemd/system/try.service", attempt),
        (
            "etc/slipring/firewall/edge.env",
            "PORTS=\"netmap:port1 netmap:port2\"\nARGS=\"--state-dynamic --threads 2\"\n",
        ),
        ("etc/slipring/firewall/edge.rules", "add 100 allow ip from any to any\n"),
        ("etc/try", TRY),
    ] {
        std::fs::write(dir.join("files").join(path), text).unwrap();
    }
    std::fs::write(dir.join("boot"), BOOT).unwrap();
    assert!(
        output(Command::new("cp").arg(SLIPRING).arg(dir.join("files/usr/bin/slipring")))
            .status
            .success()
    );
    let mut systemd = Command::new("timeout");
    systemd.args([
        "-k",
        "5",
        "180",
        "unshare",
        "-pfmniuC",
        "--propagation",
        "private",
        "--kill-child",
    ]);
    systemd.arg("sh").arg(dir.join("boot")).arg(dir);
    let procs = group.0.join("cgroup.procs");
    // The process that calls unshare must be in the cgroup, because its current cgroup becomes the
    // root of the new cgroup namespace.
    let mut inside = Command::new("sh");
    inside.args(["-c", r#"echo $$ > "$0" && exec "$@""#]).arg(procs);
    inside.arg(systemd.get_program()).args(systemd.get_args()).process_group(0);
    let ended = output(&mut inside);
    std::fs::read_to_string(dir.join("result/said")).map_err(|_| {
        let output = String::from_utf8_lossy(&ended.stderr).into_owned();
        format!(
            "no systemd can be started here: {}",
            output.lines().last().unwrap_or("it said nothing")
        )
    })
}

#[test]
fn the_service_starts_passes_frames_reloads_comes_back_and_tells_a_mistake_under_systemd() {
    let dir = tempfile::tempdir().unwrap();
    let output = match tried(dir.path()) {
        Ok(output) => output,
        Err(why) => return skip!("{why}"),
    };
    let step = |name: &str| {
        let (_, rest) =
            output.split_once(&format!("== {name}\n")).unwrap_or_else(|| panic!("{output}"));
        rest.split("== ").next().unwrap().to_owned()
    };
    let holds = |name: &str, lines: &[&str]| {
        let step = step(name);
        for line in lines {
            assert!(step.lines().any(|output| output == *line), "{name}: no `{line}`\n{output}");
        }
    };
    // Once the service reports that it is ready, it answers commands and forwards frames.
    let rules = ["00100 allow ip from any to any", "65535 deny ip from any to any"];
    holds("start", &["start: 0", rules[0], rules[1], "ping: 0", "NoNewPrivs:\t1", "Seccomp:\t2"]);
    holds("command", &["restart: 0", "00050 count icmp from any to any keep-state :default"]);
    let states = step("command");
    assert!(states.contains("STATE icmp 10.9.0.1"), "{output}");
    holds("reload", &["reload: 0", "00100 deny icmp from any to any", "ping: 1"]);
    holds("crash", &["00100 deny icmp from any to any"]);
    holds("crashes", &["active", "00100 deny icmp from any to any"]);
    holds("stop", &["stop: 0", "inactive"]);
    holds("mistake", &["start: 1"]);
    assert!(output.contains("== end"), "{output}");
}
