//! Fuzzes a daemon's control socket with arbitrary bytes, and with requests of every kind with
//! arbitrary arguments. Each line must get one answer, an object with either `ok` or `error`, and
//! the daemon must keep running.
#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, OnceLock};

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use slipring_control::ControlServer;
use slipring_netmap::{
    Adapter, AdapterRequest, CallerMemory, Domain, Errno, MemoryParams, Netmap, Notify, Opener,
    Parameters, Provider,
};

const NIOCREGIF: u32 = 0xc03c_6992;
/// Names of requests. In the input, a byte `n` below 8 at the start of a line stands for the start
/// of a request named `WORDS[n]`.
const WORDS: [&str; 8] =
    ["hello", "params", "set-param", "reload", "switches", "flush", "set", "nonsense"];
/// Maximum number of bytes that are sent. It is far below the size of a socket buffer, so all of
/// them can be written before any answer is read.
const LONGEST: usize = 16 << 10;

fuzz_target!(|data: &[u8]| {
    let asked = lines(&data[..data.len().min(LONGEST / 4)]);
    let mut stream = UnixStream::connect_addr(socket()).expect("the daemon listens");
    stream.write_all(&asked).expect("it reads");
    stream.shutdown(Shutdown::Write).expect("it is still there");
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).expect("it answers");
    let answers = String::from_utf8(answers).expect("answers are text");
    let wanted = asked.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(answers.lines().count(), wanted);
    for line in answers.lines() {
        let answer: Value = serde_json::from_str(line).expect("an answer is JSON");
        assert!(answer.get("ok").is_some() != answer.get("error").is_some(), "{line}");
    }
});

/// Returns the input with each byte below 8 at the start of a line replaced by the start of a
/// request.
fn lines(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in data.split_inclusive(|&byte| byte == b'\n') {
        let word = line.first().and_then(|&first| WORDS.get(usize::from(first)));
        match word {
            Some(word) => {
                out.extend_from_slice(format!("{{\"id\":1,\"do\":\"{word}\",").as_bytes());
                out.extend_from_slice(&line[1..]);
            }
            None => out.extend_from_slice(line),
        }
        out.truncate(LONGEST);
    }
    out
}

/// Returns the address of the control socket of a daemon in this process. The daemon has a switch
/// with one port, which a program has bound.
fn socket() -> &'static SocketAddr {
    static SOCKET: OnceLock<SocketAddr> = OnceLock::new();
    SOCKET.get_or_init(|| {
        let parameters =
            Parameters::new(&MemoryParams { domain_bytes: 1 << 30, ..MemoryParams::default() });
        let domain = Domain::sharing(0, &parameters, None).expect("a small domain");
        let netmap = Netmap::new(Box::new(Nothing));
        let opener = Opener { netns: 1, netns_fd: None, gids: Vec::new() };
        let open = netmap.open(domain.clone(), opener, Arc::new(Nothing));
        let mut bind = [0; 60];
        bind[..7].copy_from_slice(b"vale0:a");
        bind[16..20].copy_from_slice(&14u32.to_ne_bytes());
        netmap.ioctl(&open, NIOCREGIF, &mut bind, &mut Nothing).expect("a port of a switch");
        // Leaked, because both must exist as long as the process.
        Box::leak(Box::new((netmap, open)));
        // An abstract socket name, which leaves no file behind.
        let name = format!("slipring-fuzz-{}", std::process::id());
        let addr = SocketAddr::from_abstract_name(name).expect("a name");
        let listener = UnixListener::bind_addr(&addr).expect("a socket");
        let answers = slipring_daemon::answers(&parameters, move || vec![domain.clone()]);
        Box::leak(Box::new(ControlServer::on_listener(listener, answers).expect("a server")));
        addr
    })
}

#[derive(Debug)]
struct Nothing;

impl Provider for Nothing {
    fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

impl Notify for Nothing {
    fn notify(&self, _: u64) {}
}

impl CallerMemory for Nothing {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }
}
