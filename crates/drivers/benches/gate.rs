//! Instruction counts of the RTL8168h's driver for one batch, measured by valgrind. Other load on
//! the machine does not affect them. A count that is more than 5 % above the expected one fails the
//! run. When a count shrinks, update the expected one here.
//!
//! A batch has 32 frames of 60 bytes. The card is a model in the same process, whose cable is a
//! loop. `send` and `receive` are the driver's part: the model does nothing meanwhile.
#![allow(missing_docs, reason = "the macros make public items")]

use std::sync::{Arc, Mutex};

use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig};
use gungraun::{library_benchmark, library_benchmark_group, main};
use slipring_drivers::{NicSetup, open_port};
use slipring_port::{OpenOptions, Port};
use slipring_ring::{Geometry, HugePages, Region, SlotFlags};
use slipring_rtl_model::{Chip, Device, Loop, ModelDevice, locked};

const SLOTS: u32 = 256;
const BATCH: u32 = 32;

/// Makes the benchmark fail if it executes over 5 % more instructions than `expected`.
fn limit(expected: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, expected + expected / 20)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// Opens a port, and moves some batches: the first ones allocate memory, and probe the card. The
/// card then misses `lost_doorbells` doorbells.
fn busy_port(lost_doorbells: u32) -> Port {
    let wire = Box::<Loop>::default();
    let model = Device::new(Chip::Rtl8168h, [2, 0, 0, 0x16, 0x81, 0x68], wire);
    let model = Arc::new(Mutex::new(model));
    let geometry = Geometry { ring_bytes: 1 << 18, bufs: 4 * SLOTS, buf_size: 2048 };
    let region = Region::create_shared(geometry, HugePages::Never).expect("2 MiB of memory");
    let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
    let setup = NicSetup::new("model", &region, &options);
    let device = Box::new(ModelDevice::new(&model));
    let mut port = open_port(device, &setup).expect("the model is a card of the driver");
    for _ in 0..4 {
        send_batch(&mut port);
        receive_batch(&mut port);
    }
    locked(&model).lose_doorbells(lost_doorbells);
    port
}

/// Like [`busy_port`], with a batch that the card has received.
fn waiting_frames() -> Port {
    let mut port = busy_port(0);
    send_batch(&mut port);
    port
}

/// Hands a batch to the card. Also takes back the buffers of the batch before.
fn send_batch(port: &mut Port) {
    let queue = port.queues[0].as_mut();
    let tx = queue.rings().tx;
    assert!(tx.avail() >= BATCH);
    for i in 0..BATCH {
        tx.set(i, 60, SlotFlags::default());
    }
    tx.advance(BATCH);
    queue.tx_sync().expect("the card works");
}

/// Takes a batch from the card. Also hands it the buffers of the batch before.
fn receive_batch(port: &mut Port) {
    let queue = port.queues[0].as_mut();
    queue.rx_sync().expect("the card works");
    let rx = queue.rings().rx;
    assert_eq!(rx.avail(), BATCH);
    rx.advance(BATCH);
}

// The card misses the doorbell, so it sends nothing.
#[library_benchmark]
#[bench::batch(args = (1), setup = busy_port, config = limit(8_143))]
fn send(mut port: Port) -> Port {
    send_batch(&mut port);
    port
}

#[library_benchmark]
#[bench::batch(setup = waiting_frames, config = limit(7_038))]
fn receive(mut port: Port) -> Port {
    receive_batch(&mut port);
    port
}

// Mostly the model. One machine counts 63,078 instructions; other machines may differ, because the
// C library's memcpy differs.
#[library_benchmark]
#[bench::batch(args = (0), setup = busy_port, config = limit(66_000))]
fn with_model(mut port: Port) -> Port {
    send_batch(&mut port);
    receive_batch(&mut port);
    port
}

library_benchmark_group!(name = rtl, benchmarks = [send, receive, with_model]);
main!(library_benchmark_groups = rtl);
