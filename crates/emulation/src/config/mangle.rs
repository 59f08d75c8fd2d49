//! The settings of `hold`, `police`, `mangle`, `corrupt`, `duplicate` and `profile`.

use slipring_link::{
    BitErrorSpec, CorruptSpec, DuplicateSpec, HoldSpec, LinkProfile, MangleEdit, MangleSpec,
    MeterSpec, PoliceAction, PoliceSpec,
};
use slipring_model::Chance;
use slipring_model::format::DummynetProfile;

use super::error::EmulationConfigError;
use super::files::ConfigFiles;
use super::quantity;
use super::section::{self, ConfigSection};
use super::theaterq::TheaterqTrace;
use super::tree::ConfigNode;

/// Reads the settings of `hold`: which frames are held back, and for how long.
pub(super) fn hold(path: &str, node: &ConfigNode) -> Result<HoldSpec, EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    section.one_of("model", &[("const", ())])?;
    let hold = HoldSpec {
        chance: section.required("p", section::chance)?,
        hold_ns: section.required("time", quantity::time_ns)?,
    };
    section.finish()?;
    Ok(hold)
}

const POLICE_ACTIONS: [(&str, PoliceAction); 3] =
    [("pass", PoliceAction::Pass), ("mark", PoliceAction::Mark), ("drop", PoliceAction::Drop)];

#[derive(Clone, Copy)]
enum PolicerKind {
    Bucket,
    Rfc2698,
    Rfc4115,
}

/// Reads the settings of `police`, the policer.
pub(super) fn police(path: &str, node: &ConfigNode) -> Result<PoliceSpec, EmulationConfigError> {
    let names = [
        ("bucket", PolicerKind::Bucket),
        ("rfc2698", PolicerKind::Rfc2698),
        ("rfc4115", PolicerKind::Rfc4115),
    ];
    let mut section = ConfigSection::new(path, node)?;
    let model = section.one_of("model", &names)?.unwrap_or(PolicerKind::Bucket);
    let police = PoliceSpec {
        meter: meter(&mut section, model)?,
        exceed: section.one_of("exceed", &POLICE_ACTIONS)?.unwrap_or_default(),
        violate: section.one_of("violate", &POLICE_ACTIONS)?.unwrap_or_default(),
    };
    section.finish()?;
    Ok(police)
}

fn meter(
    section: &mut ConfigSection<'_>,
    model: PolicerKind,
) -> Result<MeterSpec, EmulationConfigError> {
    let rate = |section: &mut ConfigSection<'_>, key| section.required(key, quantity::rate_bps);
    let size = |section: &mut ConfigSection<'_>, key| section.required(key, quantity::size_bytes);
    Ok(match model {
        PolicerKind::Bucket => {
            let bps = rate(section, "bps")?;
            MeterSpec::Bucket { bps, burst: section.size("burst")?.unwrap_or(usual_burst(bps)) }
        }
        PolicerKind::Rfc2698 => MeterSpec::Rfc2698 {
            committed_bps: rate(section, "cir")?,
            committed_burst: size(section, "cbs")?,
            peak_bps: rate(section, "pir")?,
            peak_burst: size(section, "pbs")?,
        },
        PolicerKind::Rfc4115 => MeterSpec::Rfc4115 {
            committed_bps: rate(section, "cir")?,
            committed_burst: size(section, "cbs")?,
            excess_bps: rate(section, "eir")?,
            excess_burst: size(section, "ebs")?,
        },
    })
}

/// Returns the default burst in bytes: what the rate permits in ten milliseconds, but at least two
/// full-size frames.
fn usual_burst(bps: u64) -> u64 {
    (bps / 800).max(2 * 1514)
}

#[derive(Clone, Copy)]
enum MangleKind {
    Set,
    Invert,
    Random,
}

/// Reads the settings of `mangle`: which bytes of frames are overwritten.
pub(super) fn mangle(path: &str, node: &ConfigNode) -> Result<MangleSpec, EmulationConfigError> {
    let names =
        [("set", MangleKind::Set), ("invert", MangleKind::Invert), ("random", MangleKind::Random)];
    let mut section = ConfigSection::new(path, node)?;
    let edit = match section.one_of("model", &names)?.unwrap_or(MangleKind::Set) {
        MangleKind::Set => MangleEdit::Set(section.required("bytes", hex)?),
        MangleKind::Invert => MangleEdit::Invert(section.required("mask", hex)?),
        MangleKind::Random => MangleEdit::Random(section.required("count", section::small)?),
    };
    let mangle = MangleSpec {
        chance: section.chance("p")?.unwrap_or(Chance::ALWAYS),
        at: section.required("at", section::small)?,
        edit,
        fix_checksum: section.flag("fix_checksum")?.unwrap_or(false),
    };
    section.finish()?;
    Ok(mangle)
}

/// Parses bytes such as `0a00ff` or `0a:00:ff`.
fn hex(path: &str, node: &ConfigNode) -> Result<Vec<u8>, EmulationConfigError> {
    let text = node.shown();
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |digit: u8| char::from(digit).to_digit(16);
        Some((digit(*high)? * 16 + digit(*low)?) as u8)
    };
    let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
        let error =
            EmulationConfigError::value(path, &text, "these are no bytes").at(&node.location);
        error.help("write two hexadecimal digits for each: 0a00ff or 0a:00:ff")
    })
}

/// Reads the settings of `corrupt`: bit errors.
pub(super) fn corrupt(path: &str, node: &ConfigNode) -> Result<CorruptSpec, EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    let burst = section.one_of("model", &[("ber", false), ("burst", true)])?;
    let errors = match burst.unwrap_or(section.has("p")) {
        false => BitErrorSpec::Ber(section.required("ber", quantity::probability)?),
        true => BitErrorSpec::Burst {
            chance: section.required("p", section::chance)?,
            bits: section.count_u32("bits")?.unwrap_or(1),
        },
    };
    let corrupt = CorruptSpec {
        errors,
        from_byte: section.count_u32("from_byte")?.unwrap_or(0),
        until_byte: section.count_u32("until_byte")?,
        fix_checksum: section.flag("fix_checksum")?.unwrap_or(false),
    };
    section.finish()?;
    Ok(corrupt)
}

/// Reads the settings of `duplicate`: which frames are duplicated.
pub(super) fn duplicate(
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<DuplicateSpec, EmulationConfigError> {
    let mut section = ConfigSection::new(path, node)?;
    let traced = section.one_of("model", &[("const", false), ("trace", true)])?.unwrap_or(false);
    if traced {
        let duplicate = TheaterqTrace::read(&mut section, "file", files)?.duplicate()?;
        return section.finish().map(|()| duplicate);
    }
    let duplicate = DuplicateSpec {
        chance: section.required("p", section::chance)?,
        copies: section.count_u32("copies")?.unwrap_or(1),
        after_ns: section.time("after")?.unwrap_or(0),
    };
    section.finish()?;
    Ok(duplicate)
}

/// Reads the file of a dummynet profile. Returns the profile, and the rate in bits per second if
/// the file contains one.
pub(super) fn profile(
    path: &str,
    node: &ConfigNode,
    files: &ConfigFiles,
) -> Result<(LinkProfile, Option<u64>), EmulationConfigError> {
    let name = section::text(path, node)?;
    let profile = files.parsed(&name, node, DummynetProfile::parse)?;
    let samples_ns = profile.extra_ms.iter().map(|ms| u64::from(*ms) * 1_000_000).collect();
    Ok((LinkProfile { samples_ns, loss_level: profile.loss_level }, profile.bits_per_sec))
}
