//! Tests of programs that end, and of programs that are killed.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use slipring_drivers::{NicSetup, open_port};
use slipring_pci::vfio_user::VfioUserDevice;
use slipring_port::{OpenOptions, QueueRings};
use slipring_ring::{HugePages, Region, SlotFlags};
use slipring_rtl_model::vfio_user::Server;
use slipring_rtl_model::{Chip, Loop, MemoryWire, ModelDevice, locked};

use crate::rig::{Rig, SLOTS, frame, geometry, model, open, open_on};

#[test]
fn a_closed_port_leaves_a_card_that_accesses_no_memory() {
    for chip in Chip::ALL {
        let Rig { model, cable: _cable, port } = Rig::new(chip);
        drop(port);
        let mut model = locked(&model);
        assert!(model.dma().is_empty());
        assert_eq!(model.violations().list(), []);
    }
}

/// When the next program starts, the card's engines still run from the killed program. The next
/// program stops them before it lets the card access memory again.
#[test]
fn the_next_program_takes_over_a_card_whose_program_was_killed_in_mid_traffic() {
    for chip in Chip::ALL {
        let (near, cable) = MemoryWire::pair();
        let model = model(chip, Box::new(near));
        for _ in 0..3 {
            let port = open(&model, SLOTS).unwrap();
            let mut rig = Rig { model: model.clone(), cable: cable.clone(), port };
            for i in 0..10 {
                rig.send(&frame(60, i));
                rig.deliver(&frame(60, i));
            }
            assert!(rig.received().is_some());
            while rig.sent().is_some() {}
            // A killed program runs no destructors. The kernel closes the device.
            std::mem::forget(std::mem::take(&mut rig.port.queues));
            locked(&model).detach();
            rig.deliver(&frame(60, 0));
            rig.check();
        }
    }
}

/// This is how a daemon restarts: the rings and buffers of its ports outlive it, but the card's
/// descriptors do not.
#[test]
fn the_next_daemon_opens_the_card_again_over_the_same_rings_and_loses_no_buffer() {
    for chip in Chip::ALL {
        let (near, cable) = MemoryWire::pair();
        let model = model(chip, Box::new(near));
        let region = Region::create_shared(geometry(SLOTS), HugePages::Never).unwrap();
        let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
        let open = |options: &OpenOptions| {
            let setup = NicSetup::new("vfio:03:00.0", &region, options);
            open_port(Box::new(ModelDevice::new(&model)), &setup).unwrap()
        };
        let port = open(&options);
        let free_bufs = region.free_bufs();
        let mut rig = Rig { model: model.clone(), cable, port };
        for round in 0..5 {
            // Two received frames that the program has not read, and a sent frame whose slot has
            // not come back.
            rig.deliver(&frame(60, round));
            rig.deliver(&frame(4000, round));
            rig.queue().rx_sync().unwrap();
            rig.send(&frame(60, 100 + round));
            assert_eq!(rig.sent(), Some(frame(60, 100 + round)));
            let QueueRings { tx, rx } = rig.queue().rings();
            let rings = vec![[tx.view(), rx.view()]];
            std::mem::forget(std::mem::take(&mut rig.port.queues));
            locked(&model).detach();
            // Meanwhile the card can access no memory, although no process has stopped it.
            assert!(locked(&model).dma().is_empty());
            rig.deliver(&frame(61, round));
            rig.port = open(&OpenOptions { rings, ..options.clone() });
            assert_eq!(region.free_bufs(), free_bufs);
            assert_eq!(rig.received(), Some((frame(60, round), 1)));
            assert_eq!(rig.received(), Some((frame(4000, round), 2)));
            // Every slot has a buffer that the card can use.
            for i in 0..2 * SLOTS {
                rig.deliver(&frame(60, i as u8));
                assert_eq!(rig.received(), Some((frame(60, i as u8), 1)));
                rig.send(&frame(64, i as u8));
                assert_eq!(rig.sent(), Some(frame(64, i as u8)));
            }
        }
        rig.check();
    }
}

/// The environment variable with the path of the socket, for a separate process.
const SOCKET: &str = "SLIPRING_TEST_MODEL";
/// The environment variable with the number of frames that the process must receive before it ends.
/// Without it, the process sends and receives until it is killed.
const FRAMES: &str = "SLIPRING_TEST_FRAMES";

/// Not a test of its own: the next test runs this function in separate processes.
#[test]
fn program_on_a_socket() {
    let Some(path) = std::env::var_os(SOCKET) else { return };
    let wanted = std::env::var(FRAMES).ok().map(|count| count.parse::<u32>().unwrap());
    let device = VfioUserDevice::connect(Path::new(&path)).unwrap();
    let mut port = open_on(Box::new(device), SLOTS).unwrap();
    let queue = port.queues[0].as_mut();
    let mut received = 0;
    while wanted.is_none_or(|wanted| received < wanted) {
        let tx = queue.rings().tx;
        for i in 0..tx.avail().min(8) {
            tx.set(i, 60, SlotFlags::default());
            tx.bytes(i).unwrap().copy_in(&frame(60, i as u8));
        }
        let count = tx.avail().min(8);
        tx.advance(count);
        queue.tx_sync().unwrap();
        queue.rx_sync().unwrap();
        let rx = queue.rings().rx;
        let arrived = rx.avail();
        rx.advance(arrived);
        if arrived > 0 && received == 0 {
            println!("\nframes flow");
        }
        received += arrived;
    }
    println!("\nall arrived");
}

/// Starts a process that drives the model, and reads its output up to a line with this text.
fn program(
    socket: &Path,
    frames: Option<u32>,
    until: &str,
) -> (Child, impl Iterator<Item = String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "restart::program_on_a_socket", "--nocapture"]);
    command.env(SOCKET, socket).stdout(Stdio::piped());
    if let Some(frames) = frames {
        command.env(FRAMES, frames.to_string());
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == until), "it ended before: {until}");
    (child, lines)
}

/// The model and the programs run in different processes. The model survives a program that is
/// killed, and the next program can use it.
#[test]
fn a_model_in_another_process_outlives_a_killed_program() {
    for chip in [Chip::Rtl8168h, Chip::Rtl8125b] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model");
        let listener = UnixListener::bind(&path).unwrap();
        let model = model(chip, Box::<Loop>::default());
        let served = model.clone();
        let server = std::thread::spawn(move || {
            for socket in listener.incoming().take(2) {
                // A killed program may end in the middle of a message, so an error is possible.
                let _ = Server::new(socket.unwrap(), served.clone()).run();
            }
        });
        let (mut killed, _) = program(&path, None, "frames flow");
        killed.kill().unwrap();
        killed.wait().unwrap();
        let (mut next, rest) = program(&path, Some(1000), "all arrived");
        rest.for_each(drop);
        assert!(next.wait().unwrap().success());
        server.join().unwrap();
        let mut model = locked(&model);
        assert!(model.dma().is_empty());
        assert_eq!(model.violations().list(), []);
    }
}
