//! The sections `[[policer]]` of a file: the rate at which packets from an interface are accepted.
//! The threads that forward share one token bucket for each interface.

use slipring_cli::codes::SR0003;
use slipring_cli::sections::SettingsSection;
use slipring_cli::units::{ByteCount, RateUnit, RateWithUnit};
use slipring_cli::{Diagnostic, Failure};
use slipring_route::{ExceedAction, PolicerSpec};

use crate::io_choice::IoChoice;

/// The default burst is the rate in bytes per second divided by this number.
const DEFAULT_BURSTS_PER_SEC: u64 = 20;
/// Minimum of the default burst. It is larger than the largest packet.
const MIN_DEFAULT_BURST_BYTES: u64 = 64 << 10;
/// The greatest DSCP.
const MAX_DSCP: u64 = 63;

/// A policer of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfacePolicer {
    pub(crate) interface: String,
    pub(crate) spec: PolicerSpec,
}

impl InterfacePolicer {
    /// Reads a `[[policer]]` section.
    ///
    /// # Errors
    /// If `interface` or `rate` is missing or invalid. Other invalid values are only recorded here:
    /// they are reported when the whole file was read.
    pub(crate) fn read(section: &mut SettingsSection<'_>) -> Result<Self, Diagnostic> {
        let interface = section.text("interface")?;
        let rate = section.parsed("rate", rate)?;
        let burst = section.parsed("burst", burst)?;
        let conform_dscp = section.number("dscp", 0..=MAX_DSCP)?.map(|dscp| dscp as u8);
        let exceed_dscp = section.number("exceed_dscp", 0..=MAX_DSCP)?.map(|dscp| dscp as u8);
        let lacks = |key: &str, example: &str| {
            section.mistake(key, &format!("there is no {key}"), format!("add one: {example}"))
        };
        let interface = interface.ok_or_else(|| lacks("interface", "interface = \"eth0\""))?;
        let bps = rate.ok_or_else(|| lacks("rate", "rate = \"100Mbit\""))?;
        let usual = (bps / 8 / DEFAULT_BURSTS_PER_SEC).max(MIN_DEFAULT_BURST_BYTES);
        let burst_bytes = burst.unwrap_or(usual);
        let exceed = exceed_dscp.map_or(ExceedAction::Drop, ExceedAction::Remark);
        Ok(Self { interface, spec: PolicerSpec { bps, burst_bytes, conform_dscp, exceed } })
    }

    /// Returns the section as text.
    pub(crate) fn print(&self) -> String {
        let PolicerSpec { bps, burst_bytes, conform_dscp, exceed } = self.spec;
        let exceed_dscp = match exceed {
            ExceedAction::Drop => None,
            ExceedAction::Remark(dscp) => Some(dscp),
        };
        let number = |key: &str, dscp: Option<u8>| {
            dscp.map_or_else(String::new, |dscp| format!("{key} = {dscp}\n"))
        };
        let interface = serde_json::Value::from(self.interface.as_str());
        format!(
            "\n[[policer]]\ninterface = {interface}\nrate = \"{}\"\nburst = \"{}\"\n{}{}",
            RateWithUnit::Bits(bps),
            ByteCount(burst_bytes),
            number("dscp", conform_dscp),
            number("exceed_dscp", exceed_dscp)
        )
    }
}

fn rate(text: &str) -> Result<u64, String> {
    match RateWithUnit::parse(text, RateUnit::Bits) {
        Ok(RateWithUnit::Bits(bps)) if bps > 0 => Ok(bps),
        _ => Err("bits a second, greater than 0: \"100Mbit\", \"2.5Gbit\"".to_owned()),
    }
}

fn burst(text: &str) -> Result<u64, String> {
    let allowed = "bytes, from 2000B: \"64KiB\", \"1MB\"";
    let bytes = text.parse::<ByteCount>().ok().map(|count| count.0);
    // A smaller burst would drop long packets at any rate.
    bytes.filter(|bytes| *bytes >= 2000).ok_or_else(|| allowed.to_owned())
}

/// Checks the policers of a router with these interfaces, and chooses the engine for them.
///
/// # Errors
/// If an interface is not the router's or has two policers, or if the engine does not support
/// policers.
pub(crate) fn for_policers(
    policers: &[InterfacePolicer],
    interfaces: &[String],
    io: IoChoice,
) -> Result<IoChoice, Failure> {
    for (at, InterfacePolicer { interface, .. }) in policers.iter().enumerate() {
        if !interfaces.contains(interface) {
            return Err(refused(&format!("there is a policer for {interface}"))
                .with_cause("the router does not have this interface")
                .with_help(format!("name one of {}", interfaces.join(", ")))
                .into());
        }
        if policers[..at].iter().any(|other| other.interface == *interface) {
            return Err(refused(&format!("there are two policers for {interface}"))
                .with_cause("each interface has one rate")
                .with_help("leave one out")
                .into());
        }
    }
    match io {
        _ if policers.is_empty() => Ok(io),
        IoChoice::Xdp | IoChoice::XdpGeneric => {
            Err(refused(&format!("policers do not go together with io {}", io.name()))
                .with_cause("this engine forwards in XDP, which has none")
                .with_help("leave out io, or choose threads: io = \"xsk\", io = \"packet\"")
                .into())
        }
        IoChoice::Auto => Ok(IoChoice::Xsk),
        io => Ok(io),
    }
}

fn refused(what: &str) -> Diagnostic {
    Diagnostic::new(SR0003, what)
}

#[cfg(test)]
mod tests {
    use slipring_cli::sections::SettingsFile;

    use super::*;

    fn read(text: &str) -> Result<Vec<InterfacePolicer>, String> {
        let read = SettingsFile::new("f", text)
            .read(|root| root.sections("policer", InterfacePolicer::read));
        read.map_err(|error| error.to_text(false))
    }

    #[test]
    fn a_policer_is_read_as_it_is_printed() {
        let text = "\n[[policer]]\ninterface = \"e0\"\nrate = \"100Mbit/s\"\nburst = \"64KiB\"\n\
                    dscp = 10\nexceed_dscp = 0\n";
        let policers = read(text).unwrap();
        let spec = PolicerSpec {
            bps: 100_000_000,
            burst_bytes: 65_536,
            conform_dscp: Some(10),
            exceed: ExceedAction::Remark(0),
        };
        assert_eq!(policers, [InterfacePolicer { interface: "e0".to_owned(), spec }]);
        assert_eq!(policers[0].print(), text);
        let short = read("[[policer]]\ninterface = 'e0'\nrate = '1Gbit'").unwrap();
        assert_eq!(short[0].spec.burst_bytes, 6_250_000);
        assert_eq!(read(&short[0].print()), Ok(short));
    }

    #[test]
    fn a_mistake_in_a_policer_has_its_line() {
        for (keys, parts) in [
            ("rate = '1Mbit'", ["there is no interface", "line 2"]),
            ("interface = 'e0'", ["there is no rate", "100Mbit"]),
            ("interface = 'e0'\nrate = '5kpps'", ["policer.rate", "line 3"]),
            ("interface = 'e0'\nrate = '1M'\nburst = '100'", ["policer.burst", "from 2000B"]),
            ("interface = 'e0'\nrate = '1M'\ndscp = 64", ["policer.dscp", "from 0 to 63"]),
            ("interface = 'e0'\nrate = '1M'\nexeed_dscp = 1", ["line 4", "`exceed_dscp`?"]),
        ] {
            let error = read(&format!("[[policer]]\n{keys}")).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{keys}: no `{part}` in {error}");
            }
        }
    }

    #[test]
    fn an_engine_without_policers_is_refused_by_name() {
        let policers = read("[[policer]]\ninterface = 'e0'\nrate = '1Mbit'").unwrap();
        let names = ["e0".to_owned(), "e1".to_owned()];
        let chosen = |io| for_policers(&policers, &names, io);
        match chosen(IoChoice::Xdp) {
            Err(Failure::Error(error)) => {
                assert!(error.to_text(false).contains("do not go together with io xdp\n"));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(chosen(IoChoice::Auto).unwrap(), IoChoice::Xsk);
        assert_eq!(chosen(IoChoice::Packet).unwrap(), IoChoice::Packet);
        let other = for_policers(&policers, &names[1..], IoChoice::Auto);
        assert!(matches!(other, Err(Failure::Error(_))));
        let twice = [policers.clone(), policers.clone()].concat();
        assert!(for_policers(&twice, &names, IoChoice::Auto).is_err());
    }
}
