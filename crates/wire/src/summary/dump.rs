//! Prints bytes as hex and text, sixteen per line.

use core::fmt;

const BYTES_PER_LINE: usize = 16;

/// Prints lines such as `0x0010:  0a00 0001 0a01 0001 04d2 04d2 001a f1c2  ................`. Each
/// line starts with a tab and ends with a newline.
#[derive(Clone, Copy, Debug)]
pub struct HexDump<'b>(pub &'b [u8]);

impl fmt::Display for HexDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.chunks(BYTES_PER_LINE).enumerate() {
            write!(f, "\t0x{:04x}: ", index * BYTES_PER_LINE)?;
            write_hex(f, line)?;
            write_text(f, line)?;
        }
        Ok(())
    }
}

/// Prints the lines of [`HexDump`] without the column of text.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'b>(pub &'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.chunks(BYTES_PER_LINE).enumerate() {
            write!(f, "\t0x{:04x}: ", index * BYTES_PER_LINE)?;
            for (at, byte) in line.iter().enumerate() {
                f.write_str(if at % 2 == 0 { " " } else { "" })?;
                write!(f, "{byte:02x}")?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

/// Prints bytes of text protocols as text. Line ends are kept, but CR LF becomes LF. Tabs and
/// spaces are kept. All other bytes that are not printable ASCII are replaced by dots. A newline
/// follows the last byte.
#[derive(Clone, Copy, Debug)]
pub struct TextDump<'b>(pub &'b [u8]);

impl fmt::Display for TextDump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let [byte, after @ ..] = rest {
            rest = after;
            match byte {
                b'\r' if after.first() == Some(&b'\n') => {}
                b'\n' | b'\t' | b' ' => write!(f, "{}", char::from(*byte))?,
                byte if byte.is_ascii_graphic() => write!(f, "{}", char::from(*byte))?,
                _ => f.write_str(".")?,
            }
        }
        f.write_str("\n")
    }
}

fn write_hex(f: &mut fmt::Formatter<'_>, line: &[u8]) -> fmt::Result {
    for at in 0..BYTES_PER_LINE {
        if at % 2 == 0 {
            f.write_str(" ")?;
        }
        match line.get(at) {
            Some(byte) => write!(f, "{byte:02x}")?,
            None => f.write_str("  ")?,
        }
    }
    f.write_str("  ")
}

/// Writes bytes as text, with dots for spaces and for bytes that cannot be printed. Bytes from the
/// network must never reach the terminal as control characters.
fn write_text(f: &mut fmt::Formatter<'_>, line: &[u8]) -> fmt::Result {
    for byte in line {
        let shown = if byte.is_ascii_graphic() { char::from(*byte) } else { '.' };
        write!(f, "{shown}")?;
    }
    writeln!(f)
}
