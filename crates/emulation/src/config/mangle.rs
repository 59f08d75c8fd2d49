//! What else happens to frames: the settings of `hold`, `police`, `mangle`, `corrupt`, `duplicate`
//! and `profile`.

use slipring_link::{
    Action, BitErrors, CorruptSpec, DuplicateSpec, Edit, HoldSpec, MangleSpec, Meter, PoliceSpec,
    Profile,
};
use slipring_model::Chance;
use slipring_model::format::DummynetProfile;

use super::error::ConfigError;
use super::files::Files;
use super::quantity;
use super::section::{self, Section};
use super::theaterq::Trace;
use super::tree::Node;

/// Reads a hold.
pub(super) fn hold(path: &str, node: &Node) -> Result<HoldSpec, ConfigError> {
    let mut section = Section::new(path, node)?;
    section.word("model", &[("const", ())])?;
    let hold = HoldSpec {
        chance: section.need("p", section::chance)?,
        hold_ns: section.need("time", quantity::time_ns)?,
    };
    section.finish()?;
    Ok(hold)
}

const ACTIONS: [(&str, Action); 3] =
    [("pass", Action::Pass), ("mark", Action::Mark), ("drop", Action::Drop)];

#[derive(Clone, Copy)]
enum Meters {
    Bucket,
    Rfc2698,
    Rfc4115,
}

/// Reads a policer.
pub(super) fn police(path: &str, node: &Node) -> Result<PoliceSpec, ConfigError> {
    let names =
        [("bucket", Meters::Bucket), ("rfc2698", Meters::Rfc2698), ("rfc4115", Meters::Rfc4115)];
    let mut section = Section::new(path, node)?;
    let model = section.word("model", &names)?.unwrap_or(Meters::Bucket);
    let police = PoliceSpec {
        meter: meter(&mut section, model)?,
        exceed: section.word("exceed", &ACTIONS)?.unwrap_or_default(),
        violate: section.word("violate", &ACTIONS)?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(police)
}

fn meter(section: &mut Section<'_>, model: Meters) -> Result<Meter, ConfigError> {
    let rate = |section: &mut Section<'_>, key| section.need(key, quantity::rate_bps);
    let size = |section: &mut Section<'_>, key| section.need(key, quantity::size_bytes);
    Ok(match model {
        Meters::Bucket => {
            let bps = rate(section, "bps")?;
            Meter::Bucket { bps, burst: section.size("burst")?.unwrap_or(usual_burst(bps)) }
        }
        Meters::Rfc2698 => Meter::Rfc2698 {
            committed_bps: rate(section, "cir")?,
            committed_burst: size(section, "cbs")?,
            peak_bps: rate(section, "pir")?,
            peak_burst: size(section, "pbs")?,
        },
        Meters::Rfc4115 => Meter::Rfc4115 {
            committed_bps: rate(section, "cir")?,
            committed_burst: size(section, "cbs")?,
            excess_bps: rate(section, "eir")?,
            excess_burst: size(section, "ebs")?,
        },
    })
}

/// Ten milliseconds of the rate, and room for two of the longest ordinary frames.
fn usual_burst(bps: u64) -> u64 {
    (bps / 800).max(2 * 1514)
}

#[derive(Clone, Copy)]
enum Edits {
    Set,
    Invert,
    Random,
}

/// Reads what is written over frames.
pub(super) fn mangle(path: &str, node: &Node) -> Result<MangleSpec, ConfigError> {
    let names = [("set", Edits::Set), ("invert", Edits::Invert), ("random", Edits::Random)];
    let mut section = Section::new(path, node)?;
    let edit = match section.word("model", &names)?.unwrap_or(Edits::Set) {
        Edits::Set => Edit::Set(section.need("bytes", hex)?),
        Edits::Invert => Edit::Invert(section.need("mask", hex)?),
        Edits::Random => Edit::Random(section.need("count", section::small)?),
    };
    let mangle = MangleSpec {
        chance: section.chance("p")?.unwrap_or(Chance::ALWAYS),
        at: section.need("at", section::small)?,
        edit,
        fix_checksum: section.flag("fix_checksum")?.unwrap_or(false),
    };
    section.finish()?;
    Ok(mangle)
}

/// Bytes as `0a00ff` or `0a:00:ff`.
fn hex(path: &str, node: &Node) -> Result<Vec<u8>, ConfigError> {
    let text = node.shown();
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |digit: u8| char::from(digit).to_digit(16);
        Some((digit(*high)? * 16 + digit(*low)?) as u8)
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
        let error = ConfigError::value(path, &text, "these are no bytes").at(&node.place);
        error.help("write two hexadecimal digits for each: 0a00ff or 0a:00:ff")
    })
}

/// Reads bit errors.
pub(super) fn corrupt(path: &str, node: &Node) -> Result<CorruptSpec, ConfigError> {
    let mut section = Section::new(path, node)?;
    let burst = section.word("model", &[("ber", false), ("burst", true)])?;
    let errors = match burst.unwrap_or(section.has("p")) {
        false => BitErrors::Ber(section.need("ber", quantity::probability)?),
        true => BitErrors::Burst {
            chance: section.need("p", section::chance)?,
            bits: section.small("bits")?.unwrap_or(1),
        },
    };
    let corrupt = CorruptSpec {
        errors,
        from_byte: section.small("from_byte")?.unwrap_or(0),
        until_byte: section.small("until_byte")?,
        fix_checksum: section.flag("fix_checksum")?.unwrap_or(false),
    };
    section.finish()?;
    Ok(corrupt)
}

/// Reads a duplication.
pub(super) fn duplicate(
    path: &str,
    node: &Node,
    files: &Files,
) -> Result<DuplicateSpec, ConfigError> {
    let mut section = Section::new(path, node)?;
    let traced = section.word("model", &[("const", false), ("trace", true)])?.unwrap_or(false);
    if traced {
        let duplicate = Trace::read(&mut section, "file", files)?.duplicate()?;
        return section.finish().map(|()| duplicate);
    }
    let duplicate = DuplicateSpec {
        chance: section.need("p", section::chance)?,
        copies: section.small("copies")?.unwrap_or(1),
        after_ns: section.time("after")?.unwrap_or(0),
    };
    section.finish()?;
    Ok(duplicate)
}

/// Reads a dummynet profile, and the rate that it may set.
pub(super) fn profile(
    path: &str,
    node: &Node,
    files: &Files,
) -> Result<(Profile, Option<u64>), ConfigError> {
    let name = section::text(path, node)?;
    let profile = files.parsed(&name, node, DummynetProfile::parse)?;
    let samples_ns = profile.extra_ms.iter().map(|ms| u64::from(*ms) * 1_000_000).collect();
    Ok((Profile { samples_ns, loss_level: profile.loss_level }, profile.bits_per_sec))
}
