//! Sends a first frame by hand, starting from an unconfigured device: the steps of
//! `docs/design/driver.md` on QEMU's 82540, without the drivers of this crate.
//!
//! ```text
//! make qemu
//! cargo run -p slipring-drivers --example first_frame -- target/qemu/qemu-system-x86_64
//! ```

use std::error::Error;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slipring_pci::qtest::QtestMachine;
use slipring_pci::{Bar, DescriptorMemory, DeviceMemory, PciDevice, barrier, config};

/// The slot of the card on bus 0.
const SLOT: u8 = 4;

// Step 3: the registers used here (section 13 of the manual).
const CTRL: u64 = 0x0000;
const CTRL_SET_LINK_UP: u32 = 1 << 6;
const CTRL_RESET: u32 = 1 << 26;
const STATUS: u64 = 0x0008;
const STATUS_LINK_UP: u32 = 1 << 1;
const TCTL: u64 = 0x0400;
const TCTL_ENABLE_AND_PAD: u32 = 1 << 1 | 1 << 3;
const TDBAL: u64 = 0x3800;
const TDBAH: u64 = 0x3804;
const TDLEN: u64 = 0x3808;
const TDH: u64 = 0x3810;
const TDT: u64 = 0x3818;
const RAL0: u64 = 0x5400;
const RAH0: u64 = 0x5404;

// Step 5: the fields of the legacy transmit descriptor (section 3.3.3).
const END_OF_PACKET: u64 = 1 << 24;
const INSERT_CRC: u64 = 1 << 25;
const REPORT_STATUS: u64 = 1 << 27;
const DESCRIPTOR_DONE: u64 = 1 << 32;

fn main() -> Result<(), Box<dyn Error>> {
    let qemu = std::env::args().nth(1).ok_or("name a QEMU 11.1: make qemu fetches one")?;
    let dir = tempfile::tempdir()?;
    let (machine, wire) = machine_with_card(Path::new(&qemu), dir.path())?;
    let card = machine.device(SLOT)?;
    println!("step 1: {} is {}", card.address(), config::id(&card)?);

    config::enable(&card)?;
    let bar = card.bar(0)?;
    println!("step 2: BAR 0 has {} KiB of registers", bar.len() >> 10);

    reset(&bar)?;
    println!("step 3: reset; the address is {:02x?}", address(&bar));

    let ring = DeviceMemory::new(card.dma()).alloc(4096)?;
    let frame = DeviceMemory::new(card.dma()).alloc(4096)?;
    give_ring(&bar, &ring);
    println!("step 4: a ring of 8 descriptors at {:#x}, for the device", ring.address());

    send(&bar, &ring, &frame)?;
    println!("step 5: the device has sent the frame and reported it");

    let mut seen = [0; 2048];
    let len = wire.recv(&mut seen)?;
    println!("step 6: {len} bytes on the wire: {:02x?} ...", &seen[..14]);
    Ok(())
}

/// Starts a machine with an 82540 and a cable, whose other end is a socket.
fn machine_with_card(
    qemu: &Path,
    dir: &Path,
) -> Result<(QtestMachine, UnixDatagram), Box<dyn Error>> {
    let [card, wire] = ["card", "wire"].map(|name| dir.join(name).display().to_string());
    let socket = UnixDatagram::bind(&wire)?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let netdev = format!(
        "dgram,id=net,local.type=unix,local.path={card},remote.type=unix,remote.path={wire}"
    );
    let device = format!("e1000,netdev=net,addr={SLOT}");
    let words = ["-netdev", &netdev, "-device", &device].map(str::to_owned);
    Ok((QtestMachine::start(qemu, &words)?, socket))
}

/// Resets the device, and waits until it has a link.
fn reset(bar: &Bar) -> Result<(), Box<dyn Error>> {
    bar.write32(CTRL, CTRL_RESET);
    wait_until("come out of reset", || bar.read32(CTRL) & CTRL_RESET == 0)?;
    bar.write32(CTRL, bar.read32(CTRL) | CTRL_SET_LINK_UP);
    wait_until("have a link", || bar.read32(STATUS) & STATUS_LINK_UP != 0)
}

/// Reads the hardware address, which the reset has loaded.
fn address(bar: &Bar) -> [u8; 6] {
    let [a, b, c, d] = bar.read32(RAL0).to_le_bytes();
    let [e, f, ..] = bar.read32(RAH0).to_le_bytes();
    [a, b, c, d, e, f]
}

/// Tells the device where the ring is. Head and tail are equal, so the ring is empty.
fn give_ring(bar: &Bar, ring: &DescriptorMemory) {
    bar.write32(TDBAL, ring.address() as u32);
    bar.write32(TDBAH, (ring.address() >> 32) as u32);
    bar.write32(TDLEN, 8 * 16);
    bar.write32(TDH, 0);
    bar.write32(TDT, 0);
    bar.write32(TCTL, TCTL_ENABLE_AND_PAD);
}

/// Sends one broadcast frame of 60 bytes, and waits until the device reports that it was sent.
fn send(
    bar: &Bar,
    ring: &DescriptorMemory,
    frame: &DescriptorMemory,
) -> Result<(), Box<dyn Error>> {
    // Destination ff:ff:ff:ff:ff:ff, source 02:00:00:00:00:01, type 0x88b5 (for experiments).
    let head = [u64::from_le_bytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0]), 0xb588_0100_0000];
    for (word, value) in frame.words64().iter().zip(head) {
        word.store(value, Ordering::Relaxed);
    }
    ring.words64()[0].store(frame.address(), Ordering::Relaxed);
    let command = 60 | END_OF_PACKET | INSERT_CRC | REPORT_STATUS;
    ring.words64()[1].store(command, Ordering::Relaxed);
    // The device must see the descriptor before the tail that makes it read the descriptor.
    barrier::before_doorbell();
    bar.write32(TDT, 1);
    let is_done = || ring.words64()[1].load(Ordering::Acquire) & DESCRIPTOR_DONE != 0;
    wait_until("send the frame", is_done)
}

fn wait_until(what: &str, is_done: impl Fn() -> bool) -> Result<(), Box<dyn Error>> {
    for _ in 0..60_000 {
        if is_done() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(format!("the device does not {what}").into())
}
