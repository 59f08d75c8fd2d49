//! A model of an RTL8168 or RTL8125 on a UNIX socket, for QEMU's `vfio-user-pci` and for drivers.
//!
//! It serves one client after the other. Lines on its standard input are commands; `report` prints
//! the counters and violations so far as one line of JSON. The program ends when its standard input
//! is closed.

use std::io::BufRead as _;
use std::os::unix::net::UnixListener;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use slipring_rtl_model::vfio_user::Server;
use slipring_rtl_model::{Chip, Device, Loop, Peer, RxFault, Speed, Wire};

const USAGE: &str = "usage: slipring-rtl-model SOCKET CHIP loop|A.B.C.D [noreset]
  SOCKET   path of the UNIX socket, which must not exist
  CHIP     8168g, 8168h, 8125a or 8125b
  loop     sent frames come back; an address: a station with it answers ARP and pings
  noreset  the bus cannot reset the card
commands on standard input:
  cable off|10|100|1000|2500    gone on|off    lose N    overflow N    txerror N    rxerror
  report";

struct ModelOptions {
    socket: String,
    chip: Chip,
    wire: Box<dyn Wire>,
    has_reset: bool,
}

impl ModelOptions {
    fn parse(words: &[String]) -> Result<Self, String> {
        let [socket, chip, wire, rest @ ..] = words else { return Err(USAGE.to_owned()) };
        let has_reset = match rest {
            [] => true,
            [word] if word == "noreset" => false,
            _ => return Err(USAGE.to_owned()),
        };
        let wire = wire_of(wire)?;
        Ok(Self { socket: socket.clone(), chip: chip.parse()?, wire, has_reset })
    }
}

fn wire_of(word: &str) -> Result<Box<dyn Wire>, String> {
    if word == "loop" {
        return Ok(Box::<Loop>::default());
    }
    let address: std::net::Ipv4Addr = word.parse().map_err(|e| format!("{word}: {e}\n{USAGE}"))?;
    Ok(Box::new(Peer::new(address.octets())))
}

/// Executes a command from standard input; returns the output.
fn command(device: &mut Device, line: &str) -> Result<Option<String>, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let number = |word: &str| word.parse().map_err(|e| format!("{word}: {e}"));
    match words.as_slice() {
        [] => {}
        ["cable", "off"] => device.set_cable(None),
        ["cable", mbits] => {
            let speed = Speed::from_mbits(number(mbits)?).ok_or("no such speed")?;
            device.set_cable(Some(speed));
        }
        ["gone", "on"] => device.set_gone(true),
        ["gone", "off"] => device.set_gone(false),
        ["lose", count] => device.lose_doorbells(number(count)?),
        ["overflow", count] => device.overflow_fifo(number(count)?),
        ["txerror", count] => device.fail_sends(number(count)?),
        ["rxerror"] => device.fail_receive(RxFault::Crc),
        ["report"] => return Ok(Some(report(device))),
        _ => return Err(format!("no command: {line}\n{USAGE}")),
    }
    Ok(None)
}

fn report(device: &mut Device) -> String {
    let tally = device.tally();
    let accesses = device.accesses();
    let violations: Vec<_> = device.violations().list().iter().map(ToString::to_string).collect();
    json!({
        "violations": device.violations().count(),
        "first_violations": violations,
        "tx_frames": tally.tx_frames,
        "rx_frames": tally.rx_frames,
        "rx_missed": tally.rx_missed,
        "rx_errors": tally.rx_errors,
        "tx_errors": tally.tx_errors,
        "rx_filtered": tally.rx_filtered,
        "rx_stopped": tally.rx_stopped,
        "reads": accesses.reads,
        "writes": accesses.writes,
        "doorbells": accesses.doorbells,
        "interrupts": device.interrupts().fired(),
        "link_mbits": device.link().map(Speed::mbits),
    })
    .to_string()
}

/// Serves clients, one after the other.
fn serve(listener: &UnixListener, device: &Arc<Mutex<Device>>, has_reset: bool) {
    for socket in listener.incoming() {
        let Ok(socket) = socket else { return };
        let server = Server::new(socket, Arc::clone(device));
        let server = if has_reset { server } else { server.without_reset() };
        if let Err(error) = server.run() {
            eprintln!("slipring-rtl-model: {error}");
        }
    }
}

fn run(options: ModelOptions) -> Result<(), String> {
    let socket = options.socket;
    let listener = UnixListener::bind(&socket).map_err(|e| format!("{socket}: {e}"))?;
    let address = [2, 0, 0, 0x16, 0x81, 0x68];
    let device = Arc::new(Mutex::new(Device::new(options.chip, address, options.wire)));
    let served = Arc::clone(&device);
    // The thread ends with the process. The name of its socket does not, so it is removed below.
    std::thread::spawn(move || serve(&listener, &served, options.has_reset));
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
        match command(&mut device, &line) {
            Ok(Some(text)) => println!("{text}"),
            Ok(None) => {}
            Err(text) => eprintln!("{text}"),
        }
    }
    // The socket's name is useless without a server. It is no error if it was already removed.
    let _ = std::fs::remove_file(&socket);
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match ModelOptions::parse(&words).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}
