//! A terminal for a test, and a program that runs on it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::TIMEOUT;

/// Escape sequence by which a full-screen program switches to the alternate screen.
pub const TAKEN: &str = "\x1b[?1049h";
/// Escape sequence by which a full-screen program leaves the alternate screen.
pub const GIVEN_BACK: &str = "\x1b[?1049l";
/// Escape sequence that shows the cursor again.
pub const CURSOR: &str = "\x1b[?25h";

/// A program on a terminal with 120 columns and 30 rows. It is killed on drop.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    /// The user's side of the terminal.
    person: File,
    /// The program's side of the terminal. It is kept open, so that it can be examined after the
    /// program has ended.
    terminal: File,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    /// Starts a command on a new terminal. `spawn` must start it, for example with
    /// [`Command::spawn`], or in a namespace with [`crate::Namespace::spawn`].
    pub fn start(command: &mut Command, spawn: impl FnOnce(Command) -> Child) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).unwrap();
        grantpt(&person).unwrap();
        unlockpt(&person).unwrap();
        let path = ptsname(&person, Vec::new()).unwrap().into_string().unwrap();
        let size = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&person, size).unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut own = Command::new(command.get_program());
        own.args(command.get_args()).env("TERM", "xterm-256color");
        for (key, value) in command.get_envs() {
            value.into_iter().for_each(|value| _ = own.env(key, value));
        }
        let end = || terminal.try_clone().unwrap();
        own.stdin(end()).stdout(end()).stderr(end());
        let child = spawn(own);
        let (person, seen) = (File::from(person), Arc::<Mutex<Vec<u8>>>::default());
        let (mut reader, written) = (person.try_clone().unwrap(), seen.clone());
        // The thread ends when the last descriptor of the terminal's other side is closed.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                let mut seen = written.lock().unwrap_or_else(PoisonError::into_inner);
                seen.extend(&bytes[..count]);
            }
        });
        Self { child, person, terminal, seen }
    }

    /// Returns the program's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes `keys` to the terminal, as if the user pressed them.
    pub fn press(&mut self, keys: &str) {
        self.person.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns everything that was written to the terminal so far.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Returns the start of the output, escaped for an error message.
    fn begin(&self) -> String {
        self.seen().chars().take(4000).collect::<String>().escape_debug().to_string()
    }

    /// Waits until the terminal has shown `text`. `text` must not contain spaces, because programs
    /// may move the cursor instead of writing a space.
    pub fn wait_for(&self, text: &str) {
        let start = Instant::now();
        while !self.seen().contains(text) {
            assert!(start.elapsed() < TIMEOUT, "{text:?} never came:\n{}", self.begin());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns whether the terminal is in raw mode, in which keys are delivered one by one and not
    /// shown.
    pub fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        !modes.intersects(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits for the end of the program.
    pub fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < TIMEOUT, "it does not end:\n{}", self.begin());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
