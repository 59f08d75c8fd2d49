//! The test network of a contender, in its own network namespace: pairs of veth links, programs
//! that drop received frames, and a fast source of frames: an XDP program that the kernel runs on
//! generated frames and whose redirects it performs (live frames of `BPF_PROG_TEST_RUN`).

use std::mem::forget;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slipring_bpf::insn::{BpfHelper, BpfInsn, BpfReg, call, exit, mov_imm};
use slipring_bpf::{
    BpfAttachType, BpfLink, BpfLinkFlags, BpfProgram, BpfProgramFlags, BpfProgramKind,
};
use slipring_core::netns::Netns;
use slipring_port::OpenCause;
use slipring_port::iface::{Feature, Iface};
use slipring_port::netlink::Netlink;
use slipring_wire::frame::FrameSpec;

use super::measure::{BenchError, FEEDER_CPU, pin};

/// The veth pair on the input side. This is the source's end; the next constant is the end on which
/// a program receives.
pub(super) const SOURCE_IFNAME: &str = "srbench0a";
pub(super) const INPUT_IFNAME: &str = "srbench0b";
/// The veth pair on the output side. This is the end on which a program sends; the next constant is
/// the far end.
pub(super) const OUTPUT_IFNAME: &str = "srbench1a";
pub(super) const SINK_IFNAME: &str = "srbench1b";

/// The instructions of a BPF program that drops all frames: it returns `XDP_DROP`.
const XDP_DROP_ALL: [BpfInsn; 2] = [mov_imm(BpfReg::R0, 1), exit()];
/// Number of frames per run of the source. A run takes about 4 ms. The next constant is the number
/// of frames per batch in a run.
const FRAMES_PER_RUN: u32 = 50_000;
const FRAMES_PER_BATCH: u32 = 64;

/// A namespace with both veth pairs, which are up. The far end of the output drops all frames, or
/// has no program.
pub(super) struct BenchLab {
    netns: Netns,
    _drop: Option<BpfLink>,
}

impl BenchLab {
    /// Creates a test network.
    pub(super) fn new() -> Result<Rc<Self>, BenchError> {
        let lab = Self::open()?;
        let drop = within(&lab.netns, || drop_all(SINK_IFNAME))?;
        Ok(Rc::new(Self { _drop: Some(drop), ..lab }))
    }

    /// Creates a test network whose far end does not drop frames, for sockets that receive them.
    pub(super) fn without_sink() -> Result<Rc<Self>, BenchError> {
        Ok(Rc::new(Self::open()?))
    }

    fn open() -> Result<Self, BenchError> {
        let netns = Netns::new()?;
        within(&netns, || {
            pair(SOURCE_IFNAME, INPUT_IFNAME)?;
            pair(OUTPUT_IFNAME, SINK_IFNAME)
        })?;
        Ok(Self { netns, _drop: None })
    }

    /// Runs `work` in a thread in this namespace.
    pub(super) fn within<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, BenchError> + Send,
    ) -> Result<T, BenchError> {
        within(&self.netns, work)
    }

    /// Calls `make` in the namespace. The returned value will also be dropped in the namespace.
    pub(super) fn hold<T: Send>(
        self: &Rc<Self>,
        make: impl FnOnce() -> Result<T, BenchError> + Send,
    ) -> Result<InNetns<T>, BenchError> {
        Ok(InNetns { value: Some(self.within(make)?), lab: self.clone() })
    }

    /// Runs `work` in the namespace. During this, copies of `frame` are sent from `ifname` on
    /// [`FEEDER_CPU`].
    pub(super) fn while_feeding<T: Send>(
        &self,
        ifname: &str,
        frame: &[u8],
        work: impl FnOnce() -> Result<T, BenchError> + Send,
    ) -> Result<T, BenchError> {
        let (program, _attached) = self.within(|| source(ifname))?;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let source = scope.spawn(|| {
                self.netns.enter()?;
                feed(&program, frame, &stop)
            });
            // Waits until the first frames are in flight.
            thread::sleep(Duration::from_millis(20));
            let worked = self.within(work);
            stop.store(true, Ordering::Relaxed);
            source.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            worked
        })
    }
}

/// A value that belongs to a test network. It is created and dropped in the network's namespace.
pub(super) struct InNetns<T: Send> {
    value: Option<T>,
    pub(super) lab: Rc<BenchLab>,
}

impl<T: Send> InNetns<T> {
    /// Returns the value and its test network.
    pub(super) fn parts(&mut self) -> (&mut T, &BenchLab) {
        let value = self.value.as_mut().expect("only the destructor takes it");
        (value, &self.lab)
    }
}

impl<T: Send> Drop for InNetns<T> {
    /// The value is dropped in the namespace, because some values restore interfaces by their
    /// names.
    fn drop(&mut self) {
        let value = self.value.take();
        // If the namespace cannot be entered, the value is dropped together with the closure.
        let _ = self.lab.within(move || {
            drop(value);
            Ok(())
        });
    }
}

fn within<T: Send>(
    netns: &Netns,
    work: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    netns.run(|| Ok(work()))?
}

/// Creates a veth pair in the network namespace of the calling thread. Sets both ends up, and
/// switches their GRO on.
pub(super) fn pair(one: &str, other: &str) -> Result<(), BenchError> {
    let netlink = Netlink::open()?;
    netlink.add_veth(one, other, None)?;
    for name in [one, other] {
        let iface = find(name)?;
        netlink.set_up(iface.index)?;
        receive_by_napi(&iface);
    }
    Ok(())
}

/// Makes the kernel coalesce the frames that `iface` receives (GRO). Otherwise, frames that BPF
/// redirects into its veth pair would be lost, unless `iface` has a native XDP program.
pub(super) fn receive_by_napi(iface: &Iface) {
    // The interface belongs to this benchmark alone. So its features need not be restored.
    forget(iface.with_features(&[(Feature::Gro, true)]));
}

/// Finds an interface in the network namespace of the calling thread.
pub(super) fn find(name: &str) -> Result<Iface, BenchError> {
    Iface::find(name).map_err(failed)
}

/// Drops all frames that are received on an interface, as long as the returned link exists.
pub(super) fn drop_all(ifname: &str) -> Result<BpfLink, BenchError> {
    attach(ifname, &XDP_DROP_ALL)
}

/// Attaches a BPF program in the driver (natively).
pub(super) fn attach(ifname: &str, insns: &[BpfInsn]) -> Result<BpfLink, BenchError> {
    Ok(load(insns)?.attach(find(ifname)?.index, BpfAttachType::Xdp, BpfLinkFlags::XdpNative)?)
}

pub(super) fn load(insns: &[BpfInsn]) -> Result<BpfProgram, BenchError> {
    let flags = BpfProgramFlags { frags: true, bound_to: None };
    BpfProgram::load(BpfProgramKind::Xdp, "slipring_bench", insns, flags)
        .map_err(|error| failed(error.into()))
}

fn failed(cause: OpenCause) -> BenchError {
    match cause {
        OpenCause::Privilege { .. } | OpenCause::ClosedNode { .. } => {
            BenchError::Skipped(format!("needs root: {cause}"))
        }
        _ => BenchError::Failed(cause.to_string()),
    }
}

/// Loads a program that redirects each frame to `ifname`, which sends the frame.
///
/// The program is also attached to an interface on which no frame arrives. The kernel waits for a
/// grace period when a program gets its first user or loses its last one. Without the attachment,
/// each run would take tens of milliseconds.
fn source(ifname: &str) -> Result<(BpfProgram, BpfLink), BenchError> {
    let out = find(ifname)?.index as i32;
    let program = load(&[
        mov_imm(BpfReg::R1, out),
        mov_imm(BpfReg::R2, 0),
        call(BpfHelper::Redirect),
        exit(),
    ])?;
    let attached =
        program.attach(find(SOURCE_IFNAME)?.index, BpfAttachType::Xdp, BpfLinkFlags::XdpNative)?;
    Ok((program, attached))
}

/// Sends copies of `frame` until `stop` is set.
fn feed(program: &BpfProgram, frame: &[u8], stop: &AtomicBool) -> Result<(), BenchError> {
    pin(FEEDER_CPU);
    while !stop.load(Ordering::Relaxed) {
        program.run_live(frame, FRAMES_PER_RUN, FRAMES_PER_BATCH)?;
    }
    Ok(())
}

/// Returns a UDP frame. `len` includes the CRC, so in memory the frame is four bytes shorter.
pub(super) fn frame(spec: &FrameSpec, len: usize) -> Result<Vec<u8>, BenchError> {
    let template = spec.build(len - 4);
    Ok(template.map_err(|error| BenchError::Failed(error.to_string()))?.bytes)
}
