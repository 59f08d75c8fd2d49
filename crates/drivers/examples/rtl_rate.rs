//! Measures how many frames of 60 bytes per second go out and come back over the model of an
//! RTL8168h whose cable is a loop: with the model in this process, and in another process behind a
//! socket.
//!
//! ```text
//! $ cargo run --release -p slipring-drivers --example rtl_rate
//! ```
#![allow(clippy::unwrap_used)]

use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use slipring_drivers::{NicSetup, open_port};
use slipring_pci::PciDevice;
use slipring_pci::vfio_user::VfioUserDevice;
use slipring_port::{OpenOptions, Queue};
use slipring_ring::{Geometry, HugePages, Region, SlotFlags};
use slipring_rtl_model::vfio_user::Server;
use slipring_rtl_model::{Chip, Device, Loop};

#[path = "../tests/rtl/model.rs"]
mod model;

const SLOTS: u32 = 1024;
const FRAMES: u32 = 4_000_000;
/// Time without an arrival after which frames count as lost.
const STALL: Duration = Duration::from_secs(5);

fn new_model() -> model::SharedModel {
    Arc::new(Mutex::new(Device::new(
        Chip::Rtl8168h,
        [2, 0, 0, 0x16, 0x81, 0x68],
        Box::<Loop>::default(),
    )))
}

/// Sends frames in batches until all have come back; returns the number of batches.
fn carry(queue: &mut dyn Queue, batch: u32) -> u32 {
    let (mut sent, mut received, mut batches) = (0, 0, 0);
    let mut last_arrival = Instant::now();
    while received < FRAMES {
        let tx = queue.rings().tx;
        // The card drops a frame for which it has no receive slot. Up to half of the slots may not
        // be back at the card yet, because their frames have just been received. So fewer frames
        // than half of the slots are on their way at a time.
        let room = tx.avail().min(SLOTS / 2 - 1 - (sent - received));
        if sent < FRAMES && room >= batch {
            for i in 0..batch {
                tx.set(i, 60, SlotFlags::default());
            }
            tx.advance(batch);
            sent += batch;
            batches += 1;
        }
        queue.tx_sync().unwrap();
        queue.rx_sync().unwrap();
        let rx = queue.rings().rx;
        let count = rx.avail();
        received += count;
        rx.advance(count);
        if count > 0 {
            last_arrival = Instant::now();
        } else if last_arrival.elapsed() > STALL {
            queue.update_stats();
            panic!("{received} of {sent} frames arrived: {:?}", queue.counters().snapshot());
        }
    }
    batches
}

/// Returns the CPU time of this thread, on which other load of the machine has little effect.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn measure(what: &str, device: Box<dyn PciDevice>, batch: u32) -> u32 {
    let geometry = Geometry { ring_bytes: 1 << 18, bufs: 4 * SLOTS, buf_size: 2048 };
    let region = Region::create_shared(geometry, HugePages::Never).unwrap();
    let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
    let setup = NicSetup::new("model", &region, &options);
    let mut port = open_port(device, &setup).unwrap();
    let queue = port.queues[0].as_mut();
    let (start, cpu_start) = (Instant::now(), cpu_seconds());
    let batches = carry(queue, batch);
    let rate = f64::from(FRAMES) / start.elapsed().as_secs_f64() / 1e6;
    let cpu_rate = f64::from(FRAMES) / (cpu_seconds() - cpu_start) / 1e6;
    let snapshot = queue.counters().snapshot();
    let lost = snapshot.drops().map(|(_, count)| count).sum::<u64>();
    println!(
        "{what:<24} batch {batch:>4}: {rate:>6.2} Mpps, {cpu_rate:>6.2} per second of CPU time, {lost} lost"
    );
    batches
}

/// A process that ends with this one, also if this one panics.
struct KilledAtEnd(Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(path: &str) {
    let listener = UnixListener::bind(path).unwrap();
    println!("ready");
    let model = new_model();
    for socket in listener.incoming() {
        let _ = Server::new(socket.unwrap(), Arc::clone(&model)).run();
    }
}

fn main() {
    if let Some(path) = std::env::args().nth(1) {
        return serve(&path);
    }
    for batch in [1, 32, 128] {
        let model = new_model();
        let device = Box::new(model::ModelDevice::new(&model));
        let batches = measure("model in this process", device, batch);
        let doorbells = model::locked(&model).accesses().doorbells;
        println!("{:>24} {:.3} doorbells per batch", "", doorbells as f64 / f64::from(batches));
        assert_eq!(model::locked(&model).violations().count(), 0);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = server.stdout.take().unwrap();
    let _server = KilledAtEnd(server);
    let mut said = std::io::BufReader::new(said);
    std::io::BufRead::read_line(&mut said, &mut String::new()).unwrap();
    for batch in [32, 128] {
        let socket = UnixStream::connect(&path).unwrap();
        let device = VfioUserDevice::over(socket, "model").unwrap();
        measure("model behind a socket", Box::new(device), batch);
    }
}
