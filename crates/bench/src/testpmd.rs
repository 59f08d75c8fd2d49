//! DPDK's testpmd as a peer. It is started once per row, runs only during its turns, and is
//! measured with its own counters.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use slipring_port::{Nanos, now};
use slipring_wire::FrameSpec;

use super::lab::{BenchLab, INPUT_IFNAME, OUTPUT_IFNAME, SOURCE_IFNAME, frame};
use super::measure::{BenchError, BenchTally, FEEDER_CPU, PROGRAM_CPU, process_cpu};
use super::row::BenchRound;
use super::scratch::ScratchDir;
use super::veth::VethJob;

/// Name of the contender that uses a ring in one process.
pub(super) const RING_NAME: &str = "testpmd net_ring";
/// Name of the contender that uses a pipe between two processes.
pub(super) const MEMIF_NAME: &str = "testpmd net_memif";

/// Name of the contender that uses AF_XDP over veth links.
pub(super) const AF_XDP_NAME: &str = "testpmd net_af_xdp";
/// Name of the contender that uses AF_PACKET over veth links.
pub(super) const AF_PACKET_NAME: &str = "testpmd net_af_packet";

const PROMPT: &[u8] = b"testpmd> ";
/// Maximum time to wait for a reply. Replies take milliseconds, but the start of testpmd takes long
/// if it waits for a socket.
const REPLY_TIMEOUT_NS: Nanos = 20_000_000_000;

/// The forwarding mode of testpmd (`--forward-mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TestpmdMode {
    Io,
    RxOnly,
    TxOnly,
}

impl TestpmdMode {
    fn name(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::RxOnly => "rxonly",
            Self::TxOnly => "txonly",
        }
    }
}

/// How to start testpmd.
#[derive(Debug, Clone)]
pub(super) struct TestpmdSetup {
    /// The value of `--vdev` for each port.
    pub(super) devices: Vec<String>,
    pub(super) mode: TestpmdMode,
    pub(super) burst: u32,
    /// Length of generated frames, in bytes without CRC.
    pub(super) len: usize,
    /// The CPU on which frames are moved.
    pub(super) cpu: usize,
    /// Number of buffers. There should be no more than needed, because more buffers cause more
    /// cache misses.
    pub(super) bufs: u32,
}

/// Number of buffers for devices that only use memory.
const MEMORY_RING_BUFS: u32 = 16_384;
/// Number of buffers for AF_XDP and AF_PACKET. With fewer, net_af_xdp does not make progress
/// between two ports.
const AF_XDP_BUFS: u32 = 65_536;

/// A running testpmd, which waits for commands.
pub(super) struct Testpmd {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    _files: ScratchDir,
}

/// How many packets all ports have received and sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct TestpmdCounters {
    rx: u64,
    tx: u64,
}

impl Testpmd {
    /// Starts testpmd in the network namespace of the calling thread.
    pub(super) fn start(setup: &TestpmdSetup) -> Result<Self, BenchError> {
        let files = ScratchDir::new()?;
        let mut child = command(setup, &files).spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                BenchError::Skipped("dpdk-testpmd or stdbuf is not installed".into())
            }
            _ => error.into(),
        })?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(BenchError::Failed("no pipes to testpmd".into()));
        };
        let mut testpmd = Self { child, input, output, _files: files };
        testpmd.read_reply()?;
        Ok(testpmd)
    }

    /// Sends a command. Returns all output up to the next prompt.
    pub(super) fn send_command(&mut self, command: &str) -> Result<String, BenchError> {
        self.input.write_all(format!("{command}\n").as_bytes())?;
        self.read_reply()
    }

    fn read_reply(&mut self) -> Result<String, BenchError> {
        let (mut text, until) = (Vec::new(), now() + REPLY_TIMEOUT_NS);
        while !text.ends_with(PROMPT) {
            let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
            let mut fds = [PollFd::from_borrowed_fd(self.output.as_fd(), PollFlags::IN)];
            if poll(&mut fds, Some(&timeout))? > 0 {
                let mut chunk = [0; 4096];
                let got = self.output.read(&mut chunk)?;
                if got == 0 {
                    return Err(BenchError::Failed(startup_error(&text)));
                }
                text.extend_from_slice(&chunk[..got]);
            } else if now() > until {
                return Err(BenchError::Failed("testpmd does not answer".into()));
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the CPU time of all threads of testpmd, in ns; 0 if testpmd has ended.
    pub(super) fn cpu(&self) -> Nanos {
        process_cpu(self.child.id()).unwrap_or(0)
    }

    fn counters(&mut self) -> Result<TestpmdCounters, BenchError> {
        Ok(counted(&self.send_command("show port stats all")?))
    }

    /// Starts forwarding with the command `start`, counts packets for `time` after a warm-up, and
    /// stops forwarding.
    pub(super) fn run(
        &mut self,
        mode: TestpmdMode,
        time: Duration,
        start: &str,
    ) -> Result<BenchTally, BenchError> {
        self.send_command(start)?;
        // Frames that are sent during this warm-up do not count for the rate.
        std::thread::sleep(time / 10);
        let tally = self.count(mode, time);
        self.send_command("stop")?;
        tally
    }

    /// Counts the packets in `time` while testpmd runs.
    fn count(&mut self, mode: TestpmdMode, time: Duration) -> Result<BenchTally, BenchError> {
        let (start, cpu, before) = (now(), self.cpu(), self.counters()?);
        std::thread::sleep(time);
        let wall = now() - start;
        let cpu = self.cpu() - cpu;
        let after = self.counters()?;
        // The counters are read a little after the clock. The delay is the same at the start and at
        // the end, so the measured time is right.
        let packets = match mode {
            TestpmdMode::TxOnly | TestpmdMode::Io => after.tx - before.tx,
            TestpmdMode::RxOnly => after.rx - before.rx,
        };
        Ok(BenchTally { packets, wall, cpu })
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // An error means that the program has already ended.
        let _ = self.input.write_all(b"quit\n");
        let until = now() + 1_000_000_000;
        while now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command. With `stdbuf`, replies come immediately instead of waiting in a buffer.
fn command(setup: &TestpmdSetup, files: &ScratchDir) -> Command {
    let cpu = setup.cpu;
    let mut command = Command::new("stdbuf");
    command.args(["-o0", "dpdk-testpmd", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry"]);
    command.args(["--lcores", &format!("0@{cpu},1@{cpu}")]);
    for device in &setup.devices {
        command.args(["--vdev", device]);
    }
    // Bursts of 256 do not fit in testpmd's default buffer cache, so a larger one is requested.
    command.args(["--", "-i", "--nb-cores=1", "--mbcache=512"]);
    command.arg(format!("--total-num-mbufs={}", setup.bufs));
    command.arg(format!("--forward-mode={}", setup.mode.name()));
    command.arg(format!("--burst={}", setup.burst));
    command.arg(format!("--txpkts={}", setup.len));
    // testpmd creates its sockets and other runtime files in this directory, not in the run
    // directory of the system.
    command.env("RUNTIME_DIRECTORY", files.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn counted(text: &str) -> TestpmdCounters {
    let sum = |key: &str| {
        let values = text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(key)?;
            rest.split_whitespace().next()?.parse::<u64>().ok()
        });
        values.sum()
    };
    TestpmdCounters { rx: sum("RX-packets:"), tx: sum("TX-packets:") }
}

fn startup_error(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).rev();
    let cause = lines.clone().find(|line| line.contains("Cause:"));
    format!("testpmd ended: {}", cause.or_else(|| lines.next()).unwrap_or("").trim())
}

/// Measures a single testpmd process.
pub(super) fn single_process(
    setup: &TestpmdSetup,
    start: &'static str,
) -> Result<BenchRound, BenchError> {
    let (mut testpmd, mode) = (Testpmd::start(setup)?, setup.mode);
    Ok(Box::new(move |time| Ok(testpmd.run(mode, time, start)?.into())))
}

/// Measures frames that circulate through a ring in one thread.
pub(super) fn ring(burst: u32) -> Result<BenchRound, BenchError> {
    let devices = vec!["net_ring0".to_owned()];
    let setup = TestpmdSetup {
        devices,
        mode: TestpmdMode::Io,
        burst,
        len: 64,
        cpu: PROGRAM_CPU,
        bufs: MEMORY_RING_BUFS,
    };
    single_process(&setup, "start tx_first 8")
}

/// Measures frames between two `net_null` devices. These generate frames and discard them.
pub(super) fn null(burst: u32) -> Result<BenchRound, BenchError> {
    let devices = vec!["net_null0,copy=0".to_owned(), "net_null1,copy=0".to_owned()];
    let setup = TestpmdSetup {
        devices,
        mode: TestpmdMode::Io,
        burst,
        len: 64,
        cpu: PROGRAM_CPU,
        bufs: MEMORY_RING_BUFS,
    };
    single_process(&setup, "start")
}

/// Measures a process that sends to another one through shared memory.
pub(super) fn memif(len: usize, burst: u32) -> Result<BenchRound, BenchError> {
    let files = ScratchDir::new()?;
    let socket = files.path().join("memif.sock");
    let device = |role: &str| {
        let socket = socket.display();
        vec![format!("net_memif0,role={role},id=0,socket={socket},socket-abstract=no")]
    };
    let setup = |role, mode, cpu| TestpmdSetup {
        devices: device(role),
        mode,
        burst,
        len,
        cpu,
        bufs: MEMORY_RING_BUFS,
    };
    let mut reader = Testpmd::start(&setup("server", TestpmdMode::RxOnly, PROGRAM_CPU))?;
    let mut writer = Testpmd::start(&setup("client", TestpmdMode::TxOnly, FEEDER_CPU))?;
    Ok(Box::new(move |time| {
        let _ = &files;
        reader.send_command("start")?;
        writer.send_command("start")?;
        std::thread::sleep(time / 10);
        let cpu = writer.cpu();
        let tally = reader.count(TestpmdMode::RxOnly, time);
        let cpu = writer.cpu() - cpu;
        writer.send_command("stop")?;
        reader.send_command("stop")?;
        let tally = tally?;
        Ok(BenchTally { cpu: tally.cpu + cpu, ..tally }.into())
    }))
}

/// Measures AF_XDP over veth links.
pub(super) fn af_xdp(job: VethJob, len: usize) -> Result<BenchRound, BenchError> {
    over_veth(job, len, |i, ifname| {
        format!("net_af_xdp{i},iface={ifname},start_queue=0,queue_count=1")
    })
}

/// Measures AF_PACKET over veth links.
pub(super) fn af_packet(job: VethJob, len: usize) -> Result<BenchRound, BenchError> {
    over_veth(job, len, |i, ifname| {
        format!("net_af_packet{i},iface={ifname},qpairs=1,qdisc_bypass=1")
    })
}

fn over_veth(
    job: VethJob,
    len: usize,
    device: impl Fn(usize, &str) -> String,
) -> Result<BenchRound, BenchError> {
    let (mode, interfaces): (_, &[&str]) = match job {
        VethJob::Tx => (TestpmdMode::TxOnly, &[OUTPUT_IFNAME]),
        VethJob::Rx => (TestpmdMode::RxOnly, &[INPUT_IFNAME]),
        VethJob::Forward => (TestpmdMode::Io, &[INPUT_IFNAME, OUTPUT_IFNAME]),
    };
    let frame = frame(&FrameSpec::default(), len)?;
    let devices = interfaces.iter().enumerate().map(|(i, name)| device(i, name)).collect();
    let setup = TestpmdSetup {
        devices,
        mode,
        burst: 64,
        len: frame.len(),
        cpu: PROGRAM_CPU,
        bufs: AF_XDP_BUFS,
    };
    let mut testpmd = BenchLab::new()?.hold(|| Testpmd::start(&setup))?;
    Ok(Box::new(move |time| {
        let (testpmd, lab) = testpmd.parts();
        let run = || testpmd.run(mode, time, "start");
        Ok(match job {
            VethJob::Tx => lab.within(run)?,
            VethJob::Rx | VethJob::Forward => lab.while_feeding(SOURCE_IFNAME, &frame, run)?,
        }
        .into())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_ports() {
        let text = "  RX-packets: 10   RX-missed: 1\n  TX-packets: 20         TX-errors: 0\n\
                    \n  RX-packets: 3\n  TX-packets: 4   TX-errors: 5\ntestpmd> ";
        assert_eq!(counted(text), TestpmdCounters { rx: 13, tx: 24 });
    }

    #[test]
    fn the_cause_is_its_last_word() {
        let text = "EAL: x\n  Cause: no memory\nPort 0 is closed\n";
        assert_eq!(startup_error(text.as_bytes()), "testpmd ended: Cause: no memory");
    }
}
