//! `nat` and `nptv6`: configured instances, and the translation of packets by them.
//!
//! As in FreeBSD, `nat` translates the destination of packets that come in, and the source of
//! packets that go out. The direction of `nptv6` depends on which prefix the packet's addresses
//! have. A translated packet continues after the rule, or with `one_pass` is accepted without
//! further rules. IPv4 packets that `nat` leaves unchanged count as translated. Packets of the
//! other IP version, and those that `nptv6` leaves unchanged, always continue.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_model::Stream;
use slipring_nat::nptv6::{self, Nptv6Prefixes};
use slipring_nat::{NatConfig, NatDirection, NatOutcome, NatScope, OutsideAddress, Translator};

use super::config::IpfwConfig;
use super::engine::Firewall;
use super::hosts::HostMacs;
use super::interpret::RuleVerdict;
use super::metadata::CheckPass;
use super::translate_stats::TranslationStats;
use super::translations::TranslatorConfig;
use crate::packet::{IpFamily, PacketHeaders};
use crate::rule::{Arg, NatRef, ObjectName};
use crate::text::{Nptv6External, Nptv6Options};

/// The active `nat` and `nptv6` instances.
#[derive(Clone, Debug)]
pub(super) struct Translators {
    /// Draws the secret of each `nat` instance.
    secrets: Stream,
    hosts: HostMacs,
    /// The summed counters of other firewalls, which listings show instead of this firewall's
    /// counters; `None` until they are set.
    pub(super) shown: Option<TranslationStats>,
    pub(super) nat: BTreeMap<u16, (u64, Translator)>,
    pub(super) nptv6: BTreeMap<ObjectName, (u64, Nptv6Instance)>,
}

/// A running instance of `nptv6`.
#[derive(Clone, Debug)]
pub(super) struct Nptv6Instance {
    /// The prefixes; `None` while the port that gives the external prefix has no IPv6 address other
    /// than link-local ones.
    prefixes: Option<Nptv6Prefixes>,
    pub(super) counters: nptv6::Nptv6Counters,
}

impl Translators {
    pub(super) fn new(secret: [u64; 2]) -> Self {
        Self {
            secrets: Stream::new(secret[0] ^ secret[1].rotate_left(32), "ipfw/nat"),
            hosts: HostMacs::new(secret),
            shown: None,
            nat: BTreeMap::new(),
            nptv6: BTreeMap::new(),
        }
    }

    /// Updates the running instances so that they match the configuration.
    pub(super) fn settle(&mut self, config: &IpfwConfig) {
        let wanted = &config.translations;
        self.nat.retain(|number, at_work| {
            wanted.nat.get(number).is_some_and(|made| made.id == at_work.0)
        });
        for (&number, TranslatorConfig { id, settings }) in &wanted.nat {
            let (_, translator) = self.nat.entry(number).or_insert_with(|| {
                (*id, Translator::new(NatConfig::clone(settings), self.secrets.next_u64()))
            });
            if translator.config() != &**settings {
                translator.configure(NatConfig::clone(settings));
            }
            match &settings.outside {
                OutsideAddress::Interface(name) => translator.set_address(v4_of(config, name)),
                OutsideAddress::None => translator.set_address(first_v4(config)),
                OutsideAddress::Address(_) => {}
            }
        }
        self.nptv6.retain(|name, at_work| {
            wanted.nptv6.get(name).is_some_and(|made| made.id == at_work.0)
        });
        for (name, TranslatorConfig { id, settings }) in &wanted.nptv6 {
            let fresh = || (*id, Nptv6Instance { prefixes: None, counters: Default::default() });
            let (_, exchange) = self.nptv6.entry(name.clone()).or_insert_with(fresh);
            exchange.prefixes = prefixes(config, settings);
        }
    }

    /// Returns the counters of each running instance of `nptv6`, in the order of their names.
    pub(super) fn nptv6_counters(&self) -> Vec<nptv6::Nptv6Counters> {
        self.nptv6.values().map(|(_, exchange)| exchange.counters).collect()
    }

    /// Sets the counters to those that [`Self::nptv6_counters`] returned for the same instances.
    pub(super) fn set_nptv6_counters(&mut self, saved: Vec<nptv6::Nptv6Counters>) {
        let instances = self.nptv6.values_mut();
        instances.zip(saved).for_each(|((_, exchange), counters)| exchange.counters = counters);
    }

    pub(super) fn tick(&mut self, now_ns: u64) {
        self.nat.values_mut().for_each(|(_, translator)| translator.tick(now_ns));
    }

    pub(super) fn next_tick_ns(&self) -> Option<u64> {
        self.nat.values().filter_map(|(_, translator)| translator.next_tick_ns()).min()
    }
}

fn addresses<'c>(config: &'c IpfwConfig, port: &'c str) -> impl Iterator<Item = &'c IpAddr> {
    let has = move |of: Option<u16>| of.is_some() && config.port_name(of) == port;
    config.me.iter().filter(move |(_, of)| has(*of)).map(|(address, _)| address)
}

fn v4_of(config: &IpfwConfig, port: &str) -> Option<Ipv4Addr> {
    addresses(config, port).find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

/// Returns the address of a `nat` instance that has neither `ip` nor `if`: the first IPv4 address
/// of `me`.
fn first_v4(config: &IpfwConfig) -> Option<Ipv4Addr> {
    config.me.iter().find_map(|(address, _)| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

/// Returns the first IPv6 address of a port. Link-local addresses are skipped.
fn v6_of(config: &IpfwConfig, port: &str) -> Option<Ipv6Addr> {
    addresses(config, port).find_map(|address| match address {
        IpAddr::V6(address) if !address.is_unicast_link_local() => Some(*address),
        _ => None,
    })
}

fn prefixes(config: &IpfwConfig, options: &Nptv6Options) -> Option<Nptv6Prefixes> {
    let external = match &options.external {
        Nptv6External::Prefix(prefix) => Some(*prefix),
        Nptv6External::Interface(port) => v6_of(config, port),
    };
    Nptv6Prefixes::new(options.internal, external?, options.len).ok()
}

/// The outcome of a packet at a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TranslationOutcome {
    /// The packet continues, or is accepted with `one_pass`.
    Translated,
    /// The translator does not apply to the packet, which continues.
    Other,
    Dropped,
}

impl Firewall {
    /// Translates a packet whose verdict is `Nat` or `Nptv6`. Returns the outcome.
    pub(super) fn translate(
        &mut self,
        verdict: &RuleVerdict,
        (frame, packet): (&mut [u8], &PacketHeaders),
        pass: CheckPass,
        now: u64,
    ) -> TranslationOutcome {
        let Some(bytes) = frame.get_mut(packet.l3..packet.end) else {
            return TranslationOutcome::Other;
        };
        let fate = match (verdict, packet.version) {
            (RuleVerdict::Nat(NatRef::Global), IpFamily::V4) => self.nat_global(bytes, pass, now),
            (RuleVerdict::Nat(NatRef::Instance(Arg::Number(number))), IpFamily::V4) => {
                self.nat(*number, bytes, pass, now)
            }
            (RuleVerdict::Nptv6(name), IpFamily::V6) => return self.nptv6(name, bytes, packet),
            _ => return TranslationOutcome::Other,
        };
        if fate == TranslationOutcome::Translated {
            self.find_host((frame, packet), pass);
        }
        fate
    }

    /// Learns the MAC address of the sender of an outgoing packet that was translated, or sets the
    /// destination MAC address of an incoming one.
    fn find_host(&mut self, (frame, before): (&mut [u8], &PacketHeaders), pass: CheckPass) {
        let address = |at: usize| frame.get(before.l3 + at..)?.first_chunk::<4>().copied();
        let (Some(src), Some(dst)) = (address(12), address(16)) else { return };
        let hosts = &mut self.translators.hosts;
        match pass {
            CheckPass::Out if u32::from_be_bytes(src) != before.src as u32 => {
                hosts.learn(Ipv4Addr::from_bits(before.src as u32), before.src_mac());
            }
            CheckPass::In if u32::from_be_bytes(dst) != before.dst as u32 => {
                hosts.set_dst_mac(frame, dst.into());
            }
            _ => {}
        }
    }

    fn nat(
        &mut self,
        number: u32,
        bytes: &mut [u8],
        pass: CheckPass,
        now: u64,
    ) -> TranslationOutcome {
        let instance = number.try_into().ok().and_then(|number| self.nat_mut(number));
        // As in FreeBSD, packets for an instance that does not exist are dropped.
        let Some(translator) = instance else { return TranslationOutcome::Dropped };
        match translator.translate(bytes, direction(pass), NatScope::All, now) {
            NatOutcome::Translated | NatOutcome::Unmodified | NatOutcome::Untouched => {
                TranslationOutcome::Translated
            }
            NatOutcome::Dropped(_) => TranslationOutcome::Dropped,
        }
    }

    fn nat_mut(&mut self, number: u16) -> Option<&mut Translator> {
        self.translators.nat.get_mut(&number).map(|(_, translator)| translator)
    }

    /// Lets the first `nat` instance that has a flow or a redirection for the packet translate it.
    /// Returns the outcome, which is `Translated` if there is no such instance.
    fn nat_global(&mut self, bytes: &mut [u8], pass: CheckPass, now: u64) -> TranslationOutcome {
        let skips = |settings: &NatConfig| settings.modes.has(slipring_nat::NatMode::SkipGlobal);
        let all = self.translators.nat.values_mut().map(|(_, translator)| translator);
        for translator in all.filter(|translator| !skips(translator.config())) {
            match translator.translate(bytes, direction(pass), NatScope::Known, now) {
                NatOutcome::Translated | NatOutcome::Unmodified => {
                    return TranslationOutcome::Translated;
                }
                NatOutcome::Dropped(_) => return TranslationOutcome::Dropped,
                NatOutcome::Untouched => {}
            }
        }
        TranslationOutcome::Translated
    }

    fn nptv6(
        &mut self,
        name: &ObjectName,
        bytes: &mut [u8],
        packet: &PacketHeaders,
    ) -> TranslationOutcome {
        const ICMPV6: u8 = 58;
        let is_icmp = packet.proto == ICMPV6 && !packet.later_fragment;
        let Some((_, exchange)) = self.translators.nptv6.get_mut(name) else {
            return TranslationOutcome::Dropped;
        };
        let Some(prefixes) = exchange.prefixes else { return TranslationOutcome::Other };
        let outcome = prefixes.translate(bytes, is_icmp.then_some(packet.l4 - packet.l3));
        exchange.counters.count(outcome);
        match outcome {
            nptv6::Nptv6Outcome::Out | nptv6::Nptv6Outcome::In => TranslationOutcome::Translated,
            nptv6::Nptv6Outcome::Untouched => TranslationOutcome::Other,
            nptv6::Nptv6Outcome::Dropped => TranslationOutcome::Dropped,
        }
    }

    /// Returns an instance of `nat`, with its flows and counters.
    #[must_use]
    pub fn nat_instance(&self, number: u16) -> Option<&Translator> {
        self.translators.nat.get(&number).map(|(_, translator)| translator)
    }

    /// Iterates over all instances of `nat`, by number.
    pub fn nat_instances(&self) -> impl Iterator<Item = (u16, &Translator)> {
        self.translators.nat.iter().map(|(&number, (_, translator))| (number, translator))
    }

    /// Iterates over the counters of all instances of `nptv6`.
    pub fn nptv6_counters(&self) -> impl Iterator<Item = (&ObjectName, &nptv6::Nptv6Counters)> {
        self.translators.nptv6.iter().map(|(name, (_, exchange))| (name, &exchange.counters))
    }
}

const fn direction(pass: CheckPass) -> NatDirection {
    match pass {
        CheckPass::In => NatDirection::In,
        CheckPass::Out => NatDirection::Out,
    }
}
