//! Serves a client of the command socket: reads a line, writes the answer and a prompt.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;

use super::answers::CompatAnswers;
use super::command::{CompatCommand, is_short_for};
use crate::service::terminate;

const BANNER: &str = "netmap-fwd cli interface\n";
const PROMPT: &str = "> ";
const CONFIRMATION: &str = "shutdown netmap-fwd ? [N/y] ";
/// Maximum length of a line in bytes. A longer line ends the connection.
const MAX_LINE: u64 = 4096;

/// Serves a client until it leaves. `clients` returns the number of clients.
///
/// # Errors
/// If the connection fails.
pub(crate) fn serve(
    stream: &UnixStream,
    answers: &CompatAnswers,
    clients: impl Fn() -> usize,
) -> io::Result<()> {
    let (mut input, mut out) = (BufReader::new(stream), BufWriter::new(stream));
    write!(out, "{BANNER}{PROMPT}")?;
    let mut is_confirming = false;
    loop {
        out.flush()?;
        let mut line = Vec::new();
        input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        let words: Vec<_> = line.split_whitespace().collect();
        let confirms = words.first().is_some_and(|word| is_short_for(word, "yes"));
        if std::mem::take(&mut is_confirming) {
            if confirms {
                terminate();
                return Ok(());
            }
        } else if !words.is_empty() {
            match CompatCommand::parse(&words) {
                None => out.write_all(b"invalid command\n")?,
                Some(CompatCommand::Quit) => return Ok(()),
                Some(CompatCommand::Shutdown) => {
                    out.write_all(CONFIRMATION.as_bytes())?;
                    is_confirming = true;
                    continue;
                }
                Some(command) => answers.answer(command, clients(), &mut out)?,
            }
        }
        out.write_all(PROMPT.as_bytes())?;
    }
}
