//! The commands of the qtest protocol, one line each (QEMU, `system/qtest.c`).

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use crate::bar::Width;

/// Address port of configuration mechanism 1.
const CONFIG_ADDRESS: u16 = 0xcf8;
/// Data port of configuration mechanism 1.
const CONFIG_DATA: u16 = 0xcfc;
/// Number of inputs of the I/O APIC.
pub(super) const NUM_LINES: usize = 24;

/// A connection to QEMU.
pub(super) struct QtestSession {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The levels of the interrupt lines.
    lines: [bool; NUM_LINES],
}

impl QtestSession {
    /// Takes the pipes of a process, and requests reports about interrupt lines.
    pub(super) fn start(process: &mut Child) -> io::Result<Self> {
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or(io::ErrorKind::NotConnected)?;
        let mut session = Self { input, output: BufReader::new(output), lines: [false; NUM_LINES] };
        session.command("irq_intercept_in ioapic")?;
        Ok(session)
    }

    /// Returns whether an interrupt line is asserted.
    pub(super) fn line(&self, number: usize) -> bool {
        self.lines.get(number).copied().unwrap_or(false)
    }

    /// Executes a command and returns the words after `OK`.
    pub(super) fn command(&mut self, command: &str) -> io::Result<String> {
        self.input.write_all(format!("{command}\n").as_bytes())?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if let Some(result) = line.strip_prefix("OK") {
                return Ok(result.trim_start().to_owned());
            }
            if !self.note_line(line) {
                return Err(io::Error::other(format!("`{command}`: {line}")));
            }
        }
    }

    /// Records a change of an interrupt line, such as `IRQ raise 23`. Returns whether `line` is
    /// such a change.
    fn note_line(&mut self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace();
        let (Some("IRQ"), Some(change), Some(number)) = (words.next(), words.next(), words.next())
        else {
            return false;
        };
        let number = number.parse().ok().and_then(|number: usize| self.lines.get_mut(number));
        number.map(|level| *level = change == "raise").is_some()
    }

    /// Advances the clock.
    pub(super) fn step(&mut self, nanoseconds: u64) -> io::Result<()> {
        self.command(&format!("clock_step {nanoseconds}")).map(drop)
    }

    /// Reads from the configuration space of a device of bus 0.
    pub(super) fn config_read(&mut self, slot: u8, at: u16, width: Width) -> io::Result<u32> {
        self.select(slot, at)?;
        let port = CONFIG_DATA + (at & 3);
        let value = self.command(&format!("in{} {port:#x}", suffix(width)))?;
        number(&value)
    }

    /// Writes to the configuration space of a device of bus 0.
    pub(super) fn config_write(
        &mut self,
        slot: u8,
        at: u16,
        width: Width,
        value: u32,
    ) -> io::Result<()> {
        self.select(slot, at)?;
        let port = CONFIG_DATA + (at & 3);
        self.command(&format!("out{} {port:#x} {value:#x}", suffix(width))).map(drop)
    }

    fn select(&mut self, slot: u8, at: u16) -> io::Result<()> {
        let address = 0x8000_0000 | u32::from(slot) << 11 | u32::from(at & 0xfc);
        self.command(&format!("outl {CONFIG_ADDRESS:#x} {address:#x}")).map(drop)
    }

    /// Reads from memory, such as a register.
    pub(super) fn read(&mut self, at: u64, width: Width) -> io::Result<u32> {
        let value = self.command(&format!("read{} {at:#x}", suffix(width)))?;
        number(&value)
    }

    /// Writes to memory, such as a register.
    pub(super) fn write(&mut self, at: u64, width: Width, value: u32) -> io::Result<()> {
        self.command(&format!("write{} {at:#x} {value:#x}", suffix(width))).map(drop)
    }
}

/// Returns the letter that stands for the width in commands.
fn suffix(width: Width) -> char {
    match width {
        Width::Byte => 'b',
        Width::Word => 'w',
        Width::Long => 'l',
    }
}

/// Reads a number such as `0x0000000000000007`.
fn number(text: &str) -> io::Result<u32> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let value = u64::from_str_radix(digits, 16).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(value as u32)
}
