//! `profile-values`: the contents of a profile file as one word of a command. A command with this
//! word does not need the file.
//!
//! ```text
//! bad_wireless/8/200x8,300x2      NAME/FIRST_LOST/MS[xTIMES],…
//! ```
//!
//! Bytes of the name other than letters, digits, `-`, `_` and `.` are written as `%` with two
//! hexadecimal digits.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Formatter, Write};

use super::cursor::ShaperWord;
use super::error::ShaperTextError;
use super::number;
use crate::spec::PipeProfile;

const EXPECTED: &str = "NAME/FIRST_LOST/MS[xTIMES],..., as `save` writes it: wifi/8/200x8,300x2";

/// Parses a profile in the form of [`write`].
pub(super) fn read(word: ShaperWord<'_>) -> Result<PipeProfile, ShaperTextError> {
    let wrong = || word.wrong(EXPECTED);
    let mut parts = word.text.splitn(3, '/');
    let mut part = || parts.next().ok_or_else(wrong);
    let name = name(part()?).ok_or_else(wrong)?;
    let first_lost = number::whole(part()?).ok_or_else(wrong)?;
    let mut extra_ms = Vec::new();
    for run in part()?.split(',') {
        let (ms, times) = run.split_once('x').unwrap_or((run, "1"));
        let ms = number::whole(ms).and_then(|ms| u32::try_from(ms).ok()).ok_or_else(wrong)?;
        let times = number::whole(times).ok_or_else(wrong)?;
        if times == 0 || times > (PipeProfile::MAX_ENTRIES - extra_ms.len()) as u64 {
            let most = PipeProfile::MAX_ENTRIES;
            return Err(word.error(
                format!("`{run}` makes no entry, or more than {most} of them"),
                format!("1 to {most} entries"),
            ));
        }
        extra_ms.extend(core::iter::repeat_n(ms, times as usize));
    }
    if first_lost > extra_ms.len() as u64 {
        let what = format!("entry {first_lost} is lost first, and there are {}", extra_ms.len());
        return Err(word.error(what, "0 to the number of entries"));
    }
    Ok(PipeProfile { name, extra_ms, first_lost: first_lost as u32 })
}

/// Prints a profile as one word.
pub(super) fn write(f: &mut Formatter<'_>, profile: &PipeProfile) -> fmt::Result {
    for byte in profile.name.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                f.write_char(byte.into())?;
            }
            _ => write!(f, "%{byte:02x}")?,
        }
    }
    write!(f, "/{}", profile.first_lost)?;
    let runs = profile.extra_ms.chunk_by(|one, other| one == other);
    for (run, sign) in runs.zip(core::iter::once('/').chain(core::iter::repeat(','))) {
        write!(f, "{sign}{}", run[0])?;
        if run.len() > 1 {
            write!(f, "x{}", run.len())?;
        }
    }
    Ok(())
}

fn name(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = Vec::from(parts.next()?.as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_plain)?);
        bytes.extend(rest.bytes());
    }
    let name = String::from_utf8(bytes).ok()?;
    (name.len() <= PipeProfile::MAX_NAME_BYTES).then_some(name)
}
