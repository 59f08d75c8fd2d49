//! The socket on which a program that has a card open receives requests of `slipring nic set`.
//!
//! ```text
//!   slipring nic set            the program: a thread of its own
//!   connect ------------------> accept: only root and the same user (SO_PEERCRED)
//!   "speed=100 autoneg=off\n" > CardControl::request
//!   < "ok", settings, link; or "refused", reason, help: a line of fields between tabs
//! ```
//! The socket has an abstract name, with the process and the card in it. So it needs no directory
//! that both users share, and leaves nothing behind when the program is killed. Both ends must be
//! in the same network namespace. Any program can bind such a name, so the client checks that it
//! has reached the process that has the card.
//!
//! The same thread waits for the event by which the kernel asks for the card.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::chip::LinkState;
use crate::control::{CardControl, CardStatus};
use crate::settings::{MalformedSettings, SettingRefusal, SettingsRequest};

/// How long the other end may take for a line. Longer than a program may take for its next sync.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait after a client could not be accepted, before the next attempt.
const ACCEPT_RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Longest line in bytes.
const MAX_LINE_BYTES: u64 = 4096;

/// The name of the socket of a process for a card.
fn address(pid: u32, card: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("slipring/{pid}/nic/{card}"))
}

/// Creates the socket for requests for the card with this PCI address. A thread serves it from the
/// port's first sync until the port is closed. Before the first sync, clients wait. The thread also
/// ends the port when `removal` becomes readable, the event by which the kernel asks for the card.
///
/// # Errors
/// The system's error if the name is taken, or no descriptor is free.
pub fn listen(card: &str, control: &Arc<CardControl>, removal: Option<OwnedFd>) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&address(std::process::id(), card)?)?;
    listener.set_nonblocking(true)?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    control.wake_by(wake.try_clone()?);
    control.serve(SettingsSocket { listener, wake, removal });
    Ok(())
}

/// A socket to which clients connect, and the eventfds by which [`CardControl`] and the kernel wake
/// its thread.
#[derive(Debug)]
pub(crate) struct SettingsSocket {
    listener: UnixListener,
    wake: OwnedFd,
    /// The kernel's request for the card; `None` if it never comes, or has come.
    removal: Option<OwnedFd>,
}

impl SettingsSocket {
    /// Starts the thread that serves the clients until the control is closed.
    ///
    /// # Errors
    /// The system's error if no thread can be started.
    pub(crate) fn start_thread(mut self, control: Arc<CardControl>) -> io::Result<JoinHandle<()>> {
        let serve = move || self.serve(&control);
        std::thread::Builder::new().name("card-settings".into()).spawn(serve)
    }

    fn serve(&mut self, control: &CardControl) {
        while let Ok(is_wanted) = self.wait() {
            if is_wanted {
                // The kernel repeats its request until the card is closed.
                self.removal = None;
                control.revoke();
            }
            // Reads the event before the check. In the opposite order, the event of a close between
            // the two steps would be lost.
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            if control.is_closed() {
                return;
            }
            if let Err(error) = self.serve_next(control)
                && error.kind() != io::ErrorKind::WouldBlock
            {
                // The client could not be accepted, for example because no descriptor is free. It
                // still waits, so a poll of the listener would return immediately. Therefore this
                // polls only `wake`, for a limited time.
                let mut fds = [PollFd::new(&self.wake, PollFlags::IN)];
                let _ = poll(&mut fds, Some(&ACCEPT_RETRY));
            }
        }
    }

    /// Waits for a client or an event. Returns whether the kernel wants the card.
    fn wait(&self) -> rustix::io::Result<bool> {
        let (listener, wake) = (self.listener.as_fd(), self.wake.as_fd());
        let removal = self.removal.as_ref().map_or(wake, AsFd::as_fd);
        let fds = [listener, wake, removal];
        let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
        Ok(self.removal.is_some() && fds[2].revents().contains(PollFlags::IN))
    }

    /// Serves the next client, if there is one. Errors of the connection to the client are ignored.
    ///
    /// # Errors
    /// The system's error if no client can be accepted; `WouldBlock` if none waits.
    fn serve_next(&self, control: &CardControl) -> io::Result<()> {
        let (client, _) = self.listener.accept()?;
        let own = geteuid();
        let is_trusted =
            socket_peercred(&client).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own);
        if is_trusted && client.set_nonblocking(false).is_ok() {
            let client = Arc::new(client);
            if control.set_client(Some(client.clone())) {
                let _ = answer(&client, |request| control.request(request));
            }
            control.set_client(None);
        }
        Ok(())
    }
}

fn answer(
    mut client: &UnixStream,
    request: impl FnOnce(SettingsRequest) -> Result<CardStatus, SettingRefusal>,
) -> io::Result<()> {
    let line = read_line(client)?;
    if has_gone(client) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let result = match line.parse() {
        Ok(parsed) => request(parsed),
        Err(malformed) => Err(refusal(&malformed)),
    };
    client.write_all(written(&result).as_bytes())
}

/// Returns whether the client has closed its socket. Such a client has already told its user that
/// the request has failed, so the request must not be executed. A client that has only shut down
/// its writing side has not gone: it still reads the answer.
pub(crate) fn has_gone(client: &UnixStream) -> bool {
    // A poll always reports HUP, which the kernel sets only when both directions are shut down.
    let mut fds = [PollFd::new(client, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&now)));
    polled.is_err() || fds[0].revents().contains(PollFlags::HUP)
}

fn refusal(malformed: &MalformedSettings) -> SettingRefusal {
    SettingRefusal::new(malformed.to_string(), "slipring nic set --help")
}

fn read_line(stream: &UnixStream) -> io::Result<String> {
    stream.set_read_timeout(Some(LINE_TIMEOUT))?;
    stream.set_write_timeout(Some(LINE_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_LINE_BYTES)).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_owned()),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn written(result: &Result<CardStatus, SettingRefusal>) -> String {
    let mut line = match result {
        Ok(CardStatus { settings, .. }) => format!("ok\t{settings}\t"),
        Err(SettingRefusal { reason, help }) => format!("refused\t{reason}\t{help}"),
    };
    if let Ok(CardStatus { link, .. }) = result {
        let duplex = if link.is_full_duplex { "full" } else { "half" };
        let _ = match link.is_up {
            true => write!(line, "{} {duplex}", link.mbit_per_s),
            false => write!(line, "down"),
        };
    }
    line.replace('\n', " ") + "\n"
}

fn read(line: &str) -> Option<Result<CardStatus, SettingRefusal>> {
    let mut fields = line.splitn(3, '\t');
    let [kind, first, second] = [fields.next()?, fields.next()?, fields.next()?];
    match kind {
        "ok" => Some(Ok(CardStatus { settings: first.parse().ok()?, link: read_link(second)? })),
        "refused" => Some(Err(SettingRefusal::new(first.to_owned(), second))),
        _ => None,
    }
}

fn read_link(text: &str) -> Option<LinkState> {
    let Some((speed, duplex)) = text.split_once(' ') else {
        return (text == "down").then_some(LinkState::DOWN);
    };
    let is_full_duplex = match duplex {
        "full" => true,
        "half" => false,
        _ => return None,
    };
    Some(LinkState { is_up: true, mbit_per_s: speed.parse().ok()?, is_full_duplex })
}

/// Asks process `pid` to change the settings of a card that it has open; an empty request asks for
/// the status alone. Returns the answer of that process.
///
/// # Errors
/// `ConnectionRefused` if the process does not listen, or is in another network namespace;
/// `PermissionDenied` if the socket of this name belongs to another process; `TimedOut` or
/// `WouldBlock` if there is no answer in time; `UnexpectedEof` if the process closes the connection
/// without an answer; `InvalidData` if the answer is malformed.
pub fn ask(
    pid: u32,
    card: &str,
    request: &SettingsRequest,
) -> io::Result<Result<CardStatus, SettingRefusal>> {
    let mut stream = UnixStream::connect_addr(&address(pid, card)?)?;
    let peer = socket_peercred(&stream)?;
    if peer.pid.as_raw_nonzero().get().cast_unsigned() != pid {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_write_timeout(Some(LINE_TIMEOUT))?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    read(&read_line(&stream)?).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::CardSettings;

    #[test]
    fn answers_are_read_as_they_were_written() {
        let settings = "speed=100 autoneg=off".parse().unwrap();
        let up = LinkState { is_up: true, mbit_per_s: 100, is_full_duplex: false };
        let refused = SettingRefusal::new("no\nspeed".into(), "try\tanother");
        for (result, expected) in [
            (Ok(CardStatus { settings, link: up }), "ok\tspeed=100 autoneg=off\t100 half\n"),
            (
                Ok(CardStatus { settings: CardSettings::default(), link: LinkState::DOWN }),
                "ok\t\tdown\n",
            ),
            (Err(refused), "refused\tno speed\ttry\tanother\n"),
        ] {
            let line = written(&result);
            assert_eq!(line, expected);
            let again = read(line.trim_end_matches('\n')).unwrap();
            assert_eq!(again.is_ok(), result.is_ok());
            assert_eq!(written(&again), line);
        }
        for line in ["", "ok", "ok\tx\tdown", "ok\t\tsideways", "ok\t\t9 both", "what\ta\tb"] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn a_process_that_has_taken_the_name_of_another_is_not_believed() {
        // Names of sockets belong to a whole network namespace, in which the same test may run
        // twice, so the name contains this process's id.
        let (other, card) = (u32::MAX, format!("of {}", std::process::id()));
        let listener = UnixListener::bind_addr(&address(other, &card).unwrap()).unwrap();
        let error = ask(other, &card, &SettingsRequest::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        drop(listener);
        let error = ask(other, &card, &SettingsRequest::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_request_whose_client_has_gone_before_it_is_served_is_not_executed() {
        let card = format!("left {}", std::process::id());
        let name = address(std::process::id(), &card).unwrap();
        let listener = UnixListener::bind_addr(&name).unwrap();
        let mut gone = UnixStream::connect_addr(&name).unwrap();
        gone.write_all(b"speed=10\n").unwrap();
        drop(gone);
        // This client still waits for its answer.
        let mut waits = UnixStream::connect_addr(&name).unwrap();
        waits.write_all(b"speed=100\n").unwrap();
        waits.shutdown(std::net::Shutdown::Write).unwrap();
        let mut executed = Vec::new();
        let mut serve = || {
            let (client, _) = listener.accept().unwrap();
            answer(&client, |request| {
                executed.push(request.to_string());
                let settings = request.applied_to(CardSettings::default());
                Ok(CardStatus { settings, link: LinkState::DOWN })
            })
        };
        assert_eq!(serve().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        serve().unwrap();
        assert_eq!(executed, ["speed=100"]);
        assert_eq!(read_line(&waits).unwrap(), "ok\tspeed=100\tdown");
    }

    #[test]
    fn a_name_is_free_as_soon_as_the_port_is_closed() {
        let card = format!("closed {}", std::process::id());
        let name = address(std::process::id(), &card).unwrap();
        for has_client in [false, true].repeat(20) {
            let control = Arc::<CardControl>::default();
            listen(&card, &control, None).unwrap();
            // Starts the thread, as a sync does. The thread waits for the line of the client.
            assert!(control.take().is_none());
            let client = has_client.then(|| UnixStream::connect_addr(&name).unwrap());
            control.close();
            drop(client);
        }
    }

    #[test]
    fn the_kernel_s_request_for_the_card_revokes_it_and_wakes_a_sleeping_program() {
        let card = format!("removed {}", std::process::id());
        let control = Arc::<CardControl>::default();
        let new_event = || eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        let (removal, interrupt) = (new_event(), new_event());
        control.wake_by(interrupt.try_clone().unwrap());
        listen(&card, &control, Some(removal.try_clone().unwrap())).unwrap();
        assert!(control.take().is_none() && !control.is_revoked());
        rustix::io::write(&removal, &1u64.to_ne_bytes()).unwrap();
        // Blocks until the event is written.
        rustix::io::read(&interrupt, &mut [0; 8]).unwrap();
        assert!(control.is_revoked() && control.has_request());
        // The socket is still served.
        let asked = SettingsRequest::default();
        let thread = std::thread::spawn(move || ask(std::process::id(), &card, &asked).unwrap());
        while control.take().is_none_or(|(number, _)| {
            let settings = CardSettings::default();
            control.answer(number, Ok(CardStatus { settings, link: LinkState::DOWN }));
            false
        }) {
            std::thread::yield_now();
        }
        assert!(thread.join().unwrap().is_ok());
        control.close();
    }
}
