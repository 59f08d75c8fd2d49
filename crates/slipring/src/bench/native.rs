//! The pipe of a daemon by its native door, between two processes, beside one of a process's own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use slipring_abi::name::PortName;
use slipring_port::native::{self, NativeEnd};
use slipring_ring::{RxRing, TxRing};

use super::measure::{PROGRAM_CPU, Tally, Why, pin};
use super::netmap::Device;
use super::party;
use super::pipe::{End, Reader, Way, Writer, beside_writer, two_threads};
use super::row::{Bout, Of, Role, Row, Unit};

pub(super) const OWN: &str = "own pipe, 2 threads";
const BATCH: u32 = 256;
const SLOTS: u32 = super::pipe::SLOTS;

impl End for NativeEnd {
    fn tx(&mut self) -> &mut TxRing {
        &mut self.tx
    }

    fn rx(&mut self) -> &mut RxRing {
        &mut self.rx
    }

    #[inline(always)]
    fn tx_sync(&mut self) -> Result<(), Why> {
        Self::tx_sync(self).map_err(|error| Why::Failed(error.to_string()))
    }

    #[inline(always)]
    fn rx_sync(&mut self) -> Result<(), Why> {
        Self::rx_sync(self).map_err(|error| Why::Failed(error.to_string()))
    }
}

/// The row: held to what a pipe of this process does in the same run.
pub(crate) fn row() -> Row {
    let title = "native door, pipe between two processes, 64 B, batch 256";
    Row::new("native-pipe-64", title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring", between)
        .with(Role::Peer, OWN, || two_threads::<64>(Way::Swap, BATCH))
        .goal(Of::RatioTo(OWN), 0.9)
}

fn between() -> Result<Bout, Why> {
    let device = Device::new("off")?;
    Ok(Box::new(move |time| {
        let door = native::door(&device.run_dir());
        let end = open(&door, "bench{1")?;
        let part = format!("{}:{}", time.as_nanos(), door.display());
        let child = Command::new("/proc/self/exe")
            .args(["bench", "--part", &part])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        beside_writer::<64>(&mut Writer::new(end), BATCH, || party::result(child))
    }))
}

fn open(door: &Path, name: &str) -> Result<NativeEnd, Why> {
    let name = PortName::parse(&format!("{name}@conf:slots={SLOTS}"));
    let name = name.map_err(|error| Why::Failed(error.to_string()))?;
    let ends = native::ends(&name, door).map_err(|cause| Why::Failed(cause.to_string()))?;
    ends.into_iter().next().ok_or_else(|| Why::Failed("a pipe without rings".into()))
}

/// The other process's whole life.
pub(super) fn read(door: &Path, time: Duration) -> Result<Tally, Why> {
    let end = open(door, "bench}1")?;
    pin(PROGRAM_CPU);
    Reader::new(end, Way::Swap)?.run::<64>(BATCH, time)
}
