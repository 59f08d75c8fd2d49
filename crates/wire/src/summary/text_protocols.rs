//! Prints text protocols over TCP: HTTP, RTSP, FTP, SMTP.

use super::text::{DecodeResult, SummaryLine, put};

/// A text protocol, and how to recognise its lines.
pub(super) struct TextProtocol {
    name: &'static str,
    cut: &'static str,
    ports: &'static [u16],
    commands: &'static [&'static str],
    /// Whether the code of a reply is its second word, after the version of the protocol.
    code_is_second: bool,
}

static PROTOCOLS: [TextProtocol; 4] = [
    TextProtocol {
        name: "HTTP",
        cut: "http",
        ports: &[80, 8080],
        commands: &[
            "GET",
            "PUT",
            "COPY",
            "HEAD",
            "LOCK",
            "MOVE",
            "POLL",
            "POST",
            "BCOPY",
            "BMOVE",
            "MKCOL",
            "TRACE",
            "LABEL",
            "MERGE",
            "DELETE",
            "SEARCH",
            "UNLOCK",
            "REPORT",
            "UPDATE",
            "NOTIFY",
            "BDELETE",
            "CONNECT",
            "OPTIONS",
            "CHECKIN",
            "PROPFIND",
            "CHECKOUT",
            "CCM_POST",
            "SUBSCRIBE",
            "PROPPATCH",
            "BPROPFIND",
            "BPROPPATCH",
            "UNCHECKOUT",
            "MKACTIVITY",
            "MKWORKSPACE",
            "UNSUBSCRIBE",
            "RPC_CONNECT",
            "VERSION-CONTROL",
            "BASELINE-CONTROL",
        ],
        code_is_second: true,
    },
    TextProtocol {
        name: "RTSP",
        cut: "rtsp",
        ports: &[554, 8554],
        commands: &[
            "OPTIONS",
            "DESCRIBE",
            "ANNOUNCE",
            "SETUP",
            "PLAY",
            "PAUSE",
            "TEARDOWN",
            "GET_PARAMETER",
            "SET_PARAMETER",
            "REDIRECT",
            "RECORD",
        ],
        code_is_second: true,
    },
    TextProtocol {
        name: "FTP",
        cut: "ftp",
        ports: &[21],
        commands: &[
            "ACCT", "ALLO", "APPE", "CWD", "DELE", "EPRT", "EPSV", "HELP", "LIST", "MDTM", "MKD",
            "MODE", "MLSD", "MLST", "NLST", "NOOP", "PASS", "PASV", "PORT", "PWD", "QUIT", "REIN",
            "REST", "RETR", "RMD", "RNFR", "RNTO", "SITE", "SIZE", "SMNT", "STAT", "STOR", "STOU",
            "STRU", "SYST", "TYPE", "USER",
        ],
        code_is_second: false,
    },
    TextProtocol {
        name: "SMTP",
        cut: "smtp",
        ports: &[25],
        commands: &[
            "DATA", "EHLO", "EXPN", "HELO", "HELP", "MAIL", "NOOP", "QUIT", "RCPT", "RSET", "VRFY",
        ],
        code_is_second: false,
    },
];

/// Returns the text protocol that uses one of the two ports; `None` if there is none.
pub(super) fn of_ports(from: u16, to: u16) -> Option<&'static TextProtocol> {
    PROTOCOLS.iter().find(|one| one.ports.contains(&from) || one.ports.contains(&to))
}

/// Writes the first line of a request or reply. With `-v`, writes all lines up to the first that is
/// not text.
pub(super) fn line(
    line: &mut SummaryLine<'_>,
    protocol: &TextProtocol,
    bytes: &[u8],
    length: usize,
) -> DecodeResult {
    line.protocol = protocol.cut;
    put!(line, ": {}", protocol.name);
    if !protocol.begins(bytes) {
        return Ok(());
    }
    if !line.is_verbose() {
        put!(line, ": ");
        one_line(line, bytes);
        return Ok(());
    }
    put!(line, ", length: {length}");
    let mut left = bytes;
    while !left.is_empty() {
        let Some(used) = verbose_line(line, left) else { break };
        left = &left[used..];
    }
    // The captured bytes end with a whole line, but the segment on the wire had more bytes, so the
    // summary is marked as cut off.
    if left.is_empty() && bytes.len() < length && bytes.ends_with(b"\n") {
        line.cut();
    }
    Ok(())
}

fn verbose_line(line: &mut SummaryLine<'_>, bytes: &[u8]) -> Option<usize> {
    let (text, used) = text_of(bytes)?;
    put!(line, "\n\t");
    write(line, text);
    if used.is_none() {
        line.cut();
    }
    Some(used.unwrap_or(bytes.len()))
}

fn one_line(line: &mut SummaryLine<'_>, bytes: &[u8]) {
    match text_of(bytes) {
        Some((text, used)) => {
            write(line, text);
            if used.is_none() {
                line.cut();
            }
        }
        None => {
            // The bytes are not text. So the line gets only the name of the protocol, and `: ` is
            // removed.
            let len = line.text.len() - 2;
            line.text.truncate(len);
        }
    }
}

fn write(line: &mut SummaryLine<'_>, text: &[u8]) {
    line.text.extend(text.iter().map(|&byte| char::from(byte)));
}

/// Returns the first line of `bytes` without its line end, and the length of the line with its
/// line end. The length is `None` if `bytes` has no line end. The whole result is `None` if the
/// bytes are not text.
fn text_of(bytes: &[u8]) -> Option<(&[u8], Option<usize>)> {
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' => return Some((&bytes[..at], Some(at + 1))),
            b'\r' => match bytes.get(at + 1) {
                Some(b'\n') => return Some((&bytes[..at], Some(at + 2))),
                Some(_) => return None,
                None => return Some((&bytes[..at], None)),
            },
            b'\t' | b' '..=b'~' => {}
            _ => return None,
        }
    }
    Some((bytes, None))
}

impl TextProtocol {
    /// Returns whether `bytes` start with a command or with the code of a reply.
    fn begins(&self, bytes: &[u8]) -> bool {
        let mut words =
            bytes.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let Some(first) = words.next() else { return false };
        let is_first = |command: &&str| command.as_bytes().eq_ignore_ascii_case(first);
        if self.commands.iter().any(is_first) {
            return true;
        }
        let code = if self.code_is_second { words.next() } else { Some(first) };
        code.is_some_and(|code| code.len() == 3 && code.iter().all(u8::is_ascii_digit))
    }
}
