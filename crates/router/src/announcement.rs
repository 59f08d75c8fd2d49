//! What a router prints when it has opened everything.

use slipring_cli::{Failure, Session};
use slipring_fib::ReversePathMode::Off;
use slipring_port::iface::Iface;

use crate::checks::{Obstacle, ObstacleKind};
use crate::plan::RoutePlan;
use crate::resident::ResidentEngine;
use crate::subinterface::OwnSubinterface;
use crate::worker::UserSpacePorts;

impl RoutePlan {
    /// Prints which interfaces are used, how, and which stages packets bypass.
    pub(crate) fn announce(
        &self,
        session: &mut Session<'_>,
        engine: &ResidentEngine,
        user_space: Option<&UserSpacePorts>,
        found: &[Obstacle],
    ) -> Result<(), Failure> {
        if let Some(why) = engine.fallback() {
            session.reporter.warn(format_args!("{why}: packet sockets are used"))?;
        }
        if let Some(why) = engine.uncounted() {
            session.reporter.warn(format_args!("what drivers drop is not counted: {why}"))?;
        }
        let modes = user_space.map(UserSpacePorts::modes).unwrap_or_default();
        for (at, attached) in engine.interfaces().iter().enumerate() {
            let Iface { name, mac, mtu, rx_queues, .. } = &attached.iface;
            let mac = slipring_wire::mac::MacAddr(*mac);
            let mode = modes.get(at).map_or(attached.mode, String::as_str);
            session
                .reporter
                .say(format_args!("{name}: {mode}, mac {mac}, mtu {mtu}, {rx_queues} rx queues"))?;
        }
        if self.threads.is_some() && user_space.is_none() {
            session.reporter.warn(
                "--threads has no effect: a program in the kernel forwards, as --io auto chose",
            )?;
        }
        if let Some(ports) = user_space {
            let count = ports.workers();
            let why = match (self.rules.is_some(), self.policers.is_empty()) {
                (true, _) => ": xsk, for rules",
                (false, false) => ", for policers",
                (false, true) => "",
            };
            let threads = match count {
                1 => "1 thread forwards".to_owned(),
                _ => format!("{count} threads forward"),
            };
            session.reporter.say(format_args!("{threads}{why}"))?;
        }
        if self.rules.is_some() && !self.no_fallback {
            session
                .reporter
                .warn("what the kernel forwards, also when the router ends, meets no rules")?;
        }
        if let Some(check) = self.source_checks.iter().find(|check| check.mode != Off)
            && !self.no_fallback
        {
            session.reporter.warn(format_args!(
                "what the kernel forwards is checked by its own setting only, not by [urpf]: see \
                 sysctl net.ipv4.conf.{}.rp_filter",
                check.interface
            ))?;
        }
        for obstacle in found.iter().filter(|of| of.kind == ObstacleKind::Bypass) {
            session.reporter.warn(format_args!("bypassed: {}", obstacle.what))?;
        }
        for note in self.compat.iter().flat_map(|compat| &compat.notes) {
            session.reporter.warn(note)?;
        }
        Ok(())
    }
}

/// Prints which subinterfaces the router creates, and the consequences for the user.
pub(crate) fn announce_own(
    session: &mut Session<'_>,
    own: &[OwnSubinterface],
) -> Result<(), Failure> {
    for it in own {
        let (name, parent, tags) = (&it.name, &it.parent.name, it.tag_words());
        let (mac, mtu) = (slipring_wire::mac::MacAddr(it.parent.mac), it.mtu());
        session.reporter.say(format_args!(
            "{name}: {tags} on {parent}, by the router as TAP device, mac {mac}, mtu {mtu}; \
             the kernel cannot take over: it ends with the router, unless another router takes over"
        ))?;
    }
    Ok(())
}
