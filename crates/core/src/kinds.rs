//! The kinds of ports: one folder each, and what they have in common.
//!
//! ```text
//!   name --abi--> PortNameKind --of()--> &dyn PortDriver      needs, open, examine (doctor)
//!                                      |
//!                                  PortKindInfo          README, `ports --help`, completion,
//!                                                     privileges, restart of the daemon
//! ```
//! A folder `kinds/WORD` has a `static DRIVER`. The kind's line in `slipring_abi::name::kind` also
//! declares the folder as a module here. `docs/design/port-kinds.md` shows how to add a kind.
//!
//! Code common to all kinds is here: pipes, host rings, the interface that carries the default
//! route, and the refusal of features that a kind does not have.

mod facts;
mod finding;
mod request;

use std::path::Path;
use std::sync::Arc;

use slipring_abi::name::{KINDS, PortName, PortNameKind, kind};
use slipring_confine::CapabilitySet;
use slipring_port::iface::Iface;
use slipring_port::{
    OpenError, OpenOptions, Port, PortInfo, RegionNeeds, host, native, pipe, taken,
};
use slipring_ring::Region;

use crate::Host;

pub use facts::{AfterRestart, InterfaceUse, NameRow, PortKindInfo};
pub use finding::{DoctorContext, Finding, FindingState, grant_help};
pub use request::PortRequest;

/// The behaviour of one kind of port.
pub trait PortDriver: Sync {
    /// The static description of the kind.
    fn facts(&self) -> &'static PortKindInfo;

    /// Returns the memory that the port takes from a region, without host rings. Also makes all
    /// checks that need only the name, the options and the state of this machine.
    /// [`Host::open_all`] begins with these checks; `slipring doctor` makes them if
    /// [`Self::examine`] finds no failure. Changes nothing.
    ///
    /// # Errors
    /// [`OpenError`] for a name that cannot be opened anywhere, or not on this machine.
    fn needs(&self, request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError>;

    /// Opens the port in `region`, without host rings.
    ///
    /// # Errors
    /// [`OpenError`], with what to try next.
    fn open(&self, request: &PortRequest<'_>, region: &Arc<Region>) -> Result<Port, OpenError>;

    /// Checks for `slipring doctor` whether a port can be opened, and what prevents it. Opens no
    /// port, and creates and changes nothing.
    fn examine(&self, port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding>;
}

/// Declares the modules, and the table of their drivers in the order of [`KINDS`].
macro_rules! folders {
    ($($word:ident)*) => {
        $(mod $word;)*
        static DRIVERS: &[&dyn PortDriver] = &[$(&$word::DRIVER),*];
    };
}
slipring_abi::for_each_port_kind!(folders);

/// The driver of a kind.
#[must_use]
pub fn of(kind: &PortNameKind) -> &'static dyn PortDriver {
    let is_it = |known: &PortNameKind| known.grammar().word == kind.grammar().word;
    let at = KINDS.iter().position(is_it);
    DRIVERS[at.expect("the table of words is that of the folders")]
}

/// Every kind with its driver, in the order in which messages list them.
pub fn all() -> impl Iterator<Item = (&'static PortNameKind, &'static dyn PortDriver)> {
    KINDS.iter().zip(DRIVERS.iter().copied())
}

/// Capabilities that the owner of an open port keeps until the port is closed.
#[must_use]
pub fn capabilities_to_keep(port: &PortInfo) -> CapabilitySet {
    // Host rings belong to the port of their interface, so they need the capabilities of that port.
    let word = if port.kind == "host" { "netmap" } else { port.kind };
    info_of(word).map_or(CapabilitySet::empty(), |info| info.keeps)
}

/// Returns whether an open port only reads the buffers of its tx rings; see
/// [`PortKindInfo::only_reads_tx`].
#[must_use]
pub fn only_reads_tx(port: &PortInfo) -> bool {
    info_of(port.kind).is_some_and(|info| info.only_reads_tx)
}

/// The description of the kind whose prefix, without the colon, is `word`.
fn info_of(word: &str) -> Option<&'static PortKindInfo> {
    all().find(|(kind, _)| kind.grammar().word == word).map(|(_, driver)| driver.facts())
}

/// Returns the findings of `slipring doctor` about a port.
#[must_use]
pub fn examine(port: &PortName, context: &DoctorContext<'_>) -> Vec<Finding> {
    let options = crate::with_conf(port, &OpenOptions::default());
    let request = match PortRequest::new(port, &options) {
        Ok(request) => request,
        Err(error) => return vec![Finding::port_refused(&error)],
    };
    if port.pipe.is_some() && !port.kind.has(kind::ON_DEVICE) {
        return vec![Finding::port_needs_nothing(port)];
    }
    let mut findings = of(&port.kind).examine(port, context);
    if findings.iter().all(|finding| finding.state != FindingState::Fail) {
        // Opening begins with this check, so its error replaces the finding that the port can be
        // opened.
        if let Err(error) = needs(&Host::new(), port, &options) {
            findings.retain(|finding| !finding.is_port_ok());
            findings.push(Finding::port_refused(&error));
        }
    }
    findings.extend(fewer_host_rings(&request));
    findings
}

/// Returns a finding if more host rings are requested than the interface has rings; `None`
/// otherwise.
fn fewer_host_rings(request: &PortRequest<'_>) -> Option<Finding> {
    let requested = request.options().host_rings;
    let iface = Iface::find(request.bare_name()).ok().filter(|_| request.wants_host())?;
    let granted = host::rings(&iface, requested);
    (granted[0] < requested[0] || granted[1] < requested[1]).then(|| {
        let count = |[to_host, from_host]: [u32; 2]| to_host.max(from_host);
        let (granted, requested) = (count(granted), count(requested));
        Finding::port_warn(format!(
            "{}: {granted} of {requested} host rings, as many as `{}` has rings itself",
            request.display_name(),
            iface.name
        ))
        .with_fix(format!("ask for @conf:host-rings={granted}, or leave it out"))
    })
}

/// The kinds for `--help`: the forms of their names, and what they open.
#[must_use]
pub fn help() -> String {
    let rows: Vec<_> = all().flat_map(|(_, driver)| driver.facts().rows).collect();
    let name = |row: &NameRow| row.name.replace('`', "");
    let width = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let line = |row: &&NameRow| format!("  {:width$}  {}\n", name(row), row.help);
    "Names of ports:\n".to_owned() + &rows.iter().map(line).collect::<String>()
}

/// The table of names in the README, as Markdown.
#[must_use]
pub fn markdown() -> String {
    let rows = all().flat_map(|(_, driver)| driver.facts().rows);
    let line =
        |NameRow { name, what, needs, .. }: &NameRow| format!("| {name} | {what} | {needs} |\n");
    "| name | what | needs |\n|---|---|---|\n".to_owned() + &rows.map(line).collect::<String>()
}

/// Returns the memory that opening `name` takes from a region.
pub(crate) fn needs(
    host: &Host,
    name: &PortName,
    options: &OpenOptions,
) -> Result<RegionNeeds, OpenError> {
    let request = PortRequest::new(name, options)?;
    let driver = of(&name.kind);
    if name.kind.has(kind::ON_DEVICE) {
        return driver.needs(&request);
    }
    if name.pipe.is_some() {
        // Both ends of a pipe are created together, so opening a closed end of a pipe of this
        // process takes no more memory. A pipe of the daemon is in the daemon's memory.
        return Ok(if host.pipes.is_closed_end(name) || daemon_of(host, name, options).is_some() {
            RegionNeeds::default()
        } else {
            pipe::needs(request.pairs(), options.slots)
        });
    }
    let mut needs = RegionNeeds::default();
    if request.wants_nic() {
        needs += driver.needs(&request)?;
    }
    if request.wants_host() {
        needs += host_needs(&request)?;
    }
    Ok(needs)
}

/// Returns the memory that the host's side of an interface takes from a region.
fn host_needs(request: &PortRequest<'_>) -> Result<RegionNeeds, OpenError> {
    let (ifname, options) = (request.bare_name(), request.options());
    if let Some(tap) = tap_of(ifname) {
        return tap::DRIVER.needs(&PortRequest::new(&tap, options)?);
    }
    let iface = host::check(request.display_name(), ifname, request.buf_size())?;
    Ok(host::needs(&iface, options))
}

/// The TAP device that is the host's side of a card that is bound to vfio-pci; `None` for all
/// other interfaces.
fn tap_of(ifname: &str) -> Option<PortName> {
    taken::card_of(ifname)?;
    format!("tap:{ifname}").parse().ok()
}

/// Opens `name` in `region`.
pub(crate) fn open(
    host: &Host,
    name: &PortName,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    let request = PortRequest::new(name, options)?;
    let driver = of(&name.kind);
    if name.pipe.is_some() && !name.kind.has(kind::ON_DEVICE) {
        return match daemon_of(host, name, options) {
            Some(socket) => native::open(request.display_name(), name, socket)
                .map_err(|cause| OpenError::new(request.display_name(), cause)),
            None => host.pipes.open(name, region, options),
        };
    }
    request.protect_default_route(driver.facts().interface)?;
    if name.kind.has(kind::ON_DEVICE) || !request.wants_host() {
        return driver.open(&request, region);
    }
    let open_host = || match tap_of(&name.name) {
        Some(tap) => tap::DRIVER.open(&PortRequest::new(&tap, options)?, region),
        None => host::open(request.display_name(), &name.name, region, options),
    };
    if !request.wants_nic() {
        return open_host();
    }
    let mut port = driver.open(&request, region)?;
    let host_port = open_host()?;
    if let Some(requested) = host_port.info.mode.get(host::REQUESTED) {
        port.info.mode = port.info.mode.with(host::REQUESTED, requested);
    }
    port.queues.extend(host_port.queues);
    Ok(port)
}

/// The native socket of the daemon that a pipe belongs to; `None` for a pipe of this process.
fn daemon_of<'o>(host: &Host, name: &PortName, options: &'o OpenOptions) -> Option<&'o Path> {
    let socket = options.daemon.as_deref().filter(|_| !host.pipes.has_closed_end(name))?;
    native::is_served(socket).then_some(socket)
}

#[cfg(test)]
mod tests {
    use slipring_abi::name::PortName;
    use slipring_port::{ErrorClass, OpenOptions, RegionNeeds};

    use super::*;
    use crate::Host;

    #[test]
    fn ports_of_switches_and_their_pipes_are_in_memory_of_the_device() {
        for name in ["vale0:a", "vale0:a{1", "kernel:vale0:a"] {
            let name = name.parse().unwrap();
            let needs = super::needs(&Host::new(), &name, &OpenOptions::default()).unwrap();
            assert_eq!(needs, RegionNeeds::default(), "{name}");
        }
    }

    #[test]
    fn what_a_name_asks_for_and_does_not_get_is_refused_by_name() {
        for (name, class, words) in [
            ("null:@conf:slots=1", ErrorClass::Usage, "a ring has 64 to 65536 slots, not 1"),
            ("null:@conf:slots=4294967295", ErrorClass::Usage, "a ring has 64 to 65536 slots"),
            ("tap:x@conf:rings=4096", ErrorClass::Usage, "at most 256 ring pairs, not 4096"),
            ("netmap:lo@conf:rings=64", ErrorClass::Usage, "as many rings as its driver gives it"),
            (
                "vfio:03:00.0@conf:rings=2",
                ErrorClass::Usage,
                "a port of kind vfio has one ring pair",
            ),
            ("netmap:lo/t", ErrorClass::Usage, "a monitor watches a port of a netmap device"),
            ("null:^", ErrorClass::Usage, "only netmap:, xdp: and packet: have host rings"),
            ("vfio:ff:1f.7", ErrorClass::Machine, "there is no PCI device 0000:ff:1f.7"),
            ("netmap:lo@7", ErrorClass::Machine, "not part of this version"),
            (
                "vhost:/nowhere/x.sock@conf:rings=17",
                ErrorClass::Usage,
                "at most 16 ring pairs, not 17",
            ),
            ("vhost:/nowhere/x.sock", ErrorClass::Usage, "cannot open `/nowhere/x.sock`"),
        ] {
            let error = crate::open(name).unwrap_err();
            assert_eq!(error.class(), class, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn every_kind_that_can_be_opened_says_how_its_names_are_written() {
        for (kind, driver) in all() {
            let word = kind.grammar().word;
            let rows = driver.facts().rows;
            assert_eq!(rows.is_empty(), kind.has(kind::PLANNED), "{word}");
            let shown = |row: &NameRow| row.name.contains(word) || row.what.contains(word);
            assert!(rows.is_empty() || rows.iter().any(shown), "{word}");
        }
    }

    #[test]
    fn what_an_open_port_calls_its_kind_is_a_word_of_the_table() {
        let dir = tempfile::tempdir().unwrap();
        let capture = format!("pcap:{}", dir.path().join("x.pcap").display());
        for name in ["null:", &capture] {
            let port = crate::open(name).unwrap();
            assert!(all().any(|(kind, _)| kind.grammar().word == port.info.kind), "{name}");
        }
    }

    #[test]
    fn interfaces_keep_what_puts_their_settings_back() {
        let kept = |word| {
            let mut port = crate::open("null:").unwrap().info;
            port.kind = word;
            capabilities_to_keep(&port)
        };
        for word in ["xdp", "packet", "host"] {
            assert_eq!(kept(word), CapabilitySet::NET_ADMIN, "{word}");
        }
        assert_eq!(kept("vhost"), CapabilitySet::DAC_OVERRIDE);
        for word in ["null", "pipe", "tap", "pcap", "kernel"] {
            assert_eq!(kept(word), CapabilitySet::empty(), "{word}");
        }
    }

    #[test]
    fn frames_stay_in_the_buffers_of_ports_that_only_read_them() {
        let only_reads = |word| {
            let mut port = crate::open("null:").unwrap().info;
            port.kind = word;
            only_reads_tx(&port)
        };
        for word in ["xdp", "packet", "null", "pcap"] {
            assert!(only_reads(word), "{word}");
        }
        for word in ["pipe", "tap", "kernel", "vhost", "host"] {
            assert!(!only_reads(word), "{word}");
        }
    }

    #[test]
    fn a_port_that_needs_too_much_is_not_also_reported_as_fine() {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("vhost:{}@conf:rings=17", dir.path().join("x.sock").display());
        let interface = |_: &PortName| unreachable!("a socket is no interface");
        let context =
            DoctorContext { run_dir: dir.path(), may_make_devices: false, interface: &interface };
        let findings = examine(&name.parse().unwrap(), &context);
        let [only] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(only.state, FindingState::Fail);
        assert!(only.finding.contains("at most 16 ring pairs"), "{}", only.finding);
    }

    #[test]
    fn a_pipe_of_this_process_needs_nothing_of_the_machine() {
        let port: PortName = "x{1".parse().unwrap();
        let interface = |_: &PortName| unreachable!("a pipe is no interface");
        let context = DoctorContext {
            run_dir: Path::new("/nowhere"),
            may_make_devices: false,
            interface: &interface,
        };
        assert_eq!(examine(&port, &context)[0].state, FindingState::Ok);
    }
}
