//! Network namespaces for tests. Each has a thread of its own, which keeps it open and runs jobs in
//! it.
//!
//! A namespace has no name on disk, so a killed test leaves nothing behind.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use crate::{TIMEOUT, closing, eventually, skip, sys};

type NamespaceJob = Box<dyn FnOnce() + Send>;

/// A namespace whose loopback interface is up. On drop, its thread ends, and every program that
/// [`Self::spawn`] started is killed.
#[derive(Debug)]
pub struct Namespace {
    jobs: Option<Sender<NamespaceJob>>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
}

impl Namespace {
    /// Creates a namespace. Returns `None`, after printing why, if this is not permitted.
    pub fn new() -> Option<Self> {
        let (jobs, todo) = channel::<NamespaceJob>();
        let (report, reported) = channel();
        let thread = std::thread::spawn(move || {
            let made = sys::unshare_network();
            open_tun();
            let well = made.is_ok();
            report.send(made.map(|()| rustix::thread::gettid().as_raw_nonzero().get())).unwrap();
            if well {
                todo.into_iter().for_each(|job| job());
            }
        });
        match reported.recv().unwrap() {
            Ok(tid) => {
                let namespace = Self { jobs: Some(jobs), thread: Some(thread), tid };
                namespace.ip("link set lo up");
                Some(namespace)
            }
            Err(error) => {
                skip!("cannot make a network namespace: {error}");
                None
            }
        }
    }

    /// Runs `job` in the namespace and returns its result. Panics if `job` panics.
    pub fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (give, take) = channel();
        let job: NamespaceJob = Box::new(move || {
            give.send(catch_unwind(AssertUnwindSafe(job))).unwrap_or(());
        });
        self.jobs.as_ref().unwrap().send(job).unwrap();
        take.recv().unwrap().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Moves the namespace's thread to a separate mount namespace. Mounts that are made in it from
    /// now on are visible only to programs that were started in it, and disappear with these.
    pub fn unshare_mounts(&self) {
        self.run(sys::unshare_mounts).unwrap();
    }

    /// Gives programs that are started from now on priority over all others on this machine.
    pub fn prioritize(&self) {
        // Sets the priority of the namespace's thread. Programs that the thread starts inherit it.
        self.run(|| rustix::process::setpriority_process(None, -20)).unwrap();
    }

    /// Gives programs that are started from now on a real-time priority.
    pub fn real_time(&self) {
        let thread = self.run(rustix::thread::gettid).as_raw_nonzero();
        self.command("chrt", &format!("--fifo --pid 10 {thread}"));
    }

    /// Starts a program in the namespace. It is killed when the namespace is dropped.
    pub fn spawn(&self, mut command: Command) -> Child {
        self.run(move || closing::spawn(sys::kill_with_parent(&mut command)).unwrap())
    }

    /// Runs `ip`, which must succeed; returns its output. `words` are its arguments, separated by
    /// spaces.
    pub fn ip(&self, words: &str) -> String {
        self.command("ip", words)
    }

    /// Runs lines of `ip`, such as `addr add 10.1.0.1/24 dev e0`, in one process: far quicker than
    /// one call of [`Self::ip`] for each.
    ///
    /// # Panics
    /// If a line fails. The message contains the output of `ip`.
    pub fn ip_batch(&self, lines: &str) {
        let text = lines.to_owned();
        let mut command = Command::new("ip");
        command.args(["-batch", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done = self.run(move || {
            let mut ip = closing::spawn(&mut command).unwrap();
            // If a line fails, `ip` ends early and prints the error itself, so an error of this
            // write is ignored.
            let _ = ip.stdin.take().unwrap().write_all(text.as_bytes());
            ip.wait_with_output().unwrap()
        });
        assert!(done.status.success(), "{lines}\n{}", String::from_utf8_lossy(&done.stderr));
    }

    /// Runs a program that must succeed; returns its output.
    pub fn command(&self, program: &str, words: &str) -> String {
        let (well, output) = self.attempt(program, words);
        assert!(well, "{program} {words}: {output}");
        output
    }

    /// Runs a program; returns whether it succeeded, and its output.
    pub fn attempt(&self, program: &str, words: &str) -> (bool, String) {
        let mut command = Command::new(program);
        command.args(words.split_ascii_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let done =
            self.run(move || closing::spawn(&mut command).unwrap().wait_with_output().unwrap());
        let text = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Sends `count` echo requests to `to` at once. `words` are further arguments of `ping`,
    /// separated by spaces.
    ///
    /// # Panics
    /// If not all of the requests are answered in time.
    pub fn ping_all(&self, count: u32, words: &str, to: &str) {
        // After the last request, `ping` waits as long as `-W` says only if nothing has been
        // answered yet. Otherwise it waits for the interval, or for twice the longest round trip
        // if that is longer. With `-w`, it would send a further request for each late answer.
        let limit = TIMEOUT.as_secs();
        let all = format!("-n -c {count} -l {count} -i {limit} -W {limit} {words} {to}");
        let report = self.command("ping", &all);
        assert!(report.contains(&format!(" {count} received")), "{report}");
    }

    /// Creates a veth pair. The end `here` is in this namespace, up and [silent](Self::silence).
    /// The end `there` is in `other` and down. `options` are words of `ip link` for both ends, such
    /// as `mtu 9000`.
    pub fn veth(&self, here: &str, other: &Self, there: &str, options: &str) {
        let tid = other.tid;
        self.ip(&format!(
            "link add {here} {options} type veth peer name {there} {options} netns {tid}"
        ));
        self.silence(here);
        self.ip(&format!("link set {here} up"));
    }

    /// Like [`Self::veth`], but both ends are silent and up.
    pub fn cable(&self, here: &str, other: &Self, there: &str, options: &str) {
        self.veth(here, other, there, options);
        other.silence(there);
        other.ip(&format!("link set {there} up"));
        self.wait_for_carrier(here);
        other.wait_for_carrier(there);
    }

    /// Waits until the kernel reports that an interface has a carrier. This happens a moment after
    /// the other end of a cable comes up. Until then, the kernel drops frames that its network
    /// stack sends, and the flags of the interface are out of date.
    pub fn wait_for_carrier(&self, ifname: &str) {
        self.wait_for_state(ifname, &["state UP"]);
    }

    /// Waits until the kernel reports that an interface has no carrier.
    pub fn wait_for_no_carrier(&self, ifname: &str) {
        self.wait_for_state(ifname, &["state DOWN", "state LOWERLAYERDOWN"]);
    }

    fn wait_for_state(&self, ifname: &str, states: &[&str]) {
        eventually(&format!("{ifname} to be in {states:?}"), || {
            let shown = self.ip(&format!("link show dev {ifname}"));
            states.iter().any(|state| shown.contains(state)).then_some(())
        });
    }

    /// Moves the interface `theirs` of `other` into this namespace and renames it to `ours`.
    pub fn take(&self, other: &Self, theirs: &str, ours: &str) {
        other.ip(&format!("link set {theirs} netns {} name {ours}", self.tid));
    }

    /// Disables IPv6 on an interface, so that the kernel sends no router or neighbour discovery on
    /// it. `default` means all interfaces that are created later.
    pub fn silence(&self, ifname: &str) {
        // `/proc/sys/net` shows the namespace of the thread that reads it, so the namespace's
        // thread writes the file.
        let path = format!("/proc/sys/net/ipv6/conf/{ifname}/disable_ipv6");
        self.run(move || std::fs::write(path, "1")).unwrap();
    }
}

/// Gives the calling thread a `/dev/net/tun` that every user may open, as udev would. On a machine
/// without udev, only root may open the device.
fn open_tun() {
    use std::os::unix::fs::PermissionsExt;
    const OWN: &str =
        "dir=$(mktemp -d) && mount -t tmpfs tun $dir && mknod -m 666 $dir/tun c 10 200 &&
        mount --bind $dir/tun /dev/net/tun && umount -l $dir && rmdir $dir";
    let open = |mode: u32| mode & 0o006 == 0o006;
    let tun = std::fs::metadata("/dev/net/tun");
    let is_closed = tun.is_ok_and(|found| !open(found.permissions().mode()));
    if is_closed && rustix::process::geteuid().is_root() && sys::unshare_mounts().is_ok() {
        let done = closing::output(Command::new("sh").args(["-c", OWN])).unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
