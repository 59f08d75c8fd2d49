//! The rows for a native driver: that of the RTL8168h, on a model of the card whose cable is a loop.
//! The port sends and receives each frame. As with `pkt-gen`, frames are sent unchanged, and not
//! read.

mod bare_rings;

use std::hint::spin_loop;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use slipring_drivers::{NicSetup, open_port};
use slipring_pci::PciDevice;
use slipring_pci::vfio_user::VfioUserDevice;
use slipring_port::{Nanos, OpenOptions, Port, now};
use slipring_ring::{BUF_SIZE_FOR_DEVICES, Geometry, HugePages, Region, SlotFlags};
use slipring_rtl_model::vfio_user::Server;
use slipring_rtl_model::{Chip, Device, Loop, ModelDevice, SharedModel, locked};

use super::measure::{
    BenchError, BenchReading, BenchTally, FEEDER_CPU, PROGRAM_CPU, on_cpu, pin, tally, thread_cpu,
};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use bare_rings::BareRings;

const SLOTS: u32 = 1024;
/// Length of a frame of 64 B without its CRC, which the card adds.
const FRAME_LEN: usize = 60;
const MAC: [u8; 6] = [2, 0, 0, 0x16, 0x81, 0x68];
/// The goal for a batch of 32 frames.
const MIN_RATE: f64 = 3e6;
/// How long the port waits for frames before it counts them as lost.
const LAST_FRAMES_TIMEOUT: Nanos = 1_000_000_000;

/// Returns the rows.
pub(crate) fn rows(full: bool) -> Vec<BenchRow> {
    let mut rows = vec![in_process_row(32).goal(GoalMetric::Value, MIN_RATE)];
    if full {
        rows.push(in_process_row(1));
    }
    rows.push(socket_row(32));
    rows
}

fn in_process_row(batch: u32) -> BenchRow {
    let title = format!("driver rtl, model in process, 64 B, batch {batch}");
    BenchRow::new(format!("nic-rtl-{batch}"), title, RowUnit::PacketsPerSec)
        .with(ContenderRole::Ours, "slipring", move || in_process(batch))
        .with(ContenderRole::Floor, "bare descriptors", move || bare(batch))
}

fn socket_row(batch: u32) -> BenchRow {
    let title = format!("driver rtl, model over a socket, 64 B, batch {batch}");
    BenchRow::new(format!("nic-rtl-socket-{batch}"), title, RowUnit::PacketsPerSec).with(
        ContenderRole::Ours,
        "slipring",
        move || Ok(over_socket(batch)),
    )
}

fn new_model() -> SharedModel {
    Arc::new(Mutex::new(Device::new(Chip::Rtl8168h, MAC, Box::<Loop>::default())))
}

/// A port of the driver, and the frames that it has sent but not received.
struct LoopedPort {
    port: Port,
    batch: u32,
    batches: u64,
    in_flight: u32,
}

impl LoopedPort {
    fn open(device: Box<dyn PciDevice>, batch: u32) -> Result<Self, BenchError> {
        let geometry =
            Geometry { ring_bytes: 1 << 18, bufs: 4 * SLOTS, buf_size: BUF_SIZE_FOR_DEVICES };
        let region = Region::create_shared(geometry, HugePages::Never)?;
        let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
        let port = open_port(device, &NicSetup::new("model", &region, &options))
            .map_err(|cause| BenchError::Failed(cause.to_string()))?;
        Ok(Self { port, batch, batches: 0, in_flight: 0 })
    }

    /// Sends a batch if there is space, and receives what has arrived. Returns how many frames have
    /// arrived.
    #[inline(always)]
    fn step(&mut self) -> Result<u64, BenchError> {
        let queue = self.port.queues[0].as_mut();
        let (tx, batch) = (queue.rings().tx, self.batch);
        // The card drops a frame for which it has no receive slot. It may lack the slots of the
        // frames that were received last, which are at most half of all.
        if tx.avail() >= batch && self.in_flight + batch < SLOTS / 2 {
            for i in 0..batch {
                tx.set(i, FRAME_LEN, SlotFlags::default());
            }
            tx.advance(batch);
            self.in_flight += batch;
            self.batches += 1;
        }
        self.sync()
    }

    fn sync(&mut self) -> Result<u64, BenchError> {
        let queue = self.port.queues[0].as_mut();
        queue.tx_sync()?;
        queue.rx_sync()?;
        let rx = queue.rings().rx;
        let count = rx.avail();
        rx.advance(count);
        if count == 0 {
            spin_loop();
        }
        self.in_flight -= count;
        Ok(count.into())
    }

    /// Moves frames for `time`; returns also the number of doorbells per batch. Fails if a frame is
    /// lost, or if the driver breaks a rule of the chip.
    fn run(
        &mut self,
        model: &SharedModel,
        time: Duration,
    ) -> Result<(BenchTally, f64), BenchError> {
        let (doorbells, batches) = (locked(model).accesses().doorbells, self.batches);
        let tally = tally(time, || self.step())?;
        self.receive_rest()?;
        let model = locked(model);
        if let Some(violation) = model.violations().list().first() {
            return Err(BenchError::Failed(format!("the driver breaks a rule: {violation}")));
        }
        let doorbells = model.accesses().doorbells - doorbells;
        Ok((tally, doorbells as f64 / (self.batches - batches) as f64))
    }

    fn receive_rest(&mut self) -> Result<(), BenchError> {
        let until = now() + LAST_FRAMES_TIMEOUT;
        while self.in_flight > 0 && now() < until {
            self.sync()?;
        }
        match self.in_flight {
            0 => Ok(()),
            lost => Err(BenchError::Failed(format!("{lost} frames are lost"))),
        }
    }
}

fn reading(tally: BenchTally, doorbells_per_batch: f64) -> BenchReading {
    BenchReading { extra: vec![("doorbells per batch", doorbells_per_batch)], ..tally.into() }
}

/// The driver and the model in one thread.
fn in_process(batch: u32) -> Result<BenchRound, BenchError> {
    let model = new_model();
    let mut port = LoopedPort::open(Box::new(ModelDevice::new(&model)), batch)?;
    Ok(Box::new(move |time| {
        let (tally, doorbells) = on_cpu(PROGRAM_CPU, || port.run(&model, time))?;
        Ok(reading(tally, doorbells))
    }))
}

/// The least that a driver must do, and the model, in one thread.
fn bare(batch: u32) -> Result<BenchRound, BenchError> {
    let mut rings = BareRings::start(ModelDevice::new(&new_model()))?;
    Ok(Box::new(move |time| {
        let counted = on_cpu(PROGRAM_CPU, || tally(time, || rings.step(batch)));
        Ok(counted?.into())
    }))
}

/// The driver, and the model in another thread, as a server of vfio-user: a doorbell is a message.
fn over_socket(batch: u32) -> BenchRound {
    Box::new(move |time| {
        let (model, (ours, theirs)) = (new_model(), UnixStream::pair()?);
        thread::scope(|scope| {
            let serving = scope.spawn(|| {
                pin(FEEDER_CPU);
                let cpu = thread_cpu();
                // An error means that the driver has failed, which it reports itself.
                let _ = Server::new(theirs, Arc::clone(&model)).run();
                thread_cpu() - cpu
            });
            let counted = on_cpu(PROGRAM_CPU, || {
                let device = VfioUserDevice::over(ours, "model")
                    .map_err(|cause| BenchError::Failed(cause.to_string()))?;
                LoopedPort::open(Box::new(device), batch)?.run(&model, time)
            });
            let cpu = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (tally, doorbells) = counted?;
            Ok(reading(BenchTally { cpu: tally.cpu + cpu, ..tally }, doorbells))
        })
    })
}
