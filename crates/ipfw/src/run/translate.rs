//! `nat` and `nptv6`: instances as commands make them, and packets through them.
//!
//! Which way a packet is translated follows from when it is checked, as in FreeBSD: on its way in
//! the destination is ours, on its way out the source. What comes of it goes on behind the rule,
//! or is accepted at once with `one_pass`.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_model::Stream;
use slipring_nat::nptv6::{self, Prefixes};
use slipring_nat::{Outcome, Outside, Scope, Settings, Translator, Way};

use super::config::Config;
use super::crossing::Pass;
use super::engine::Firewall;
use super::hosts::Hosts;
use super::interpret::Verdict;
use super::translate_figures::TranslationFigures;
use crate::packet::{Packet, Version};
use crate::rule::{Arg, Name, NatRef};
use crate::text::{External, Nptv6Options};

/// Instances as they are configured. A copy is cheap.
#[derive(Clone, Debug, Default)]
pub struct Translations {
    /// Instances of `nat`.
    pub(super) nat: BTreeMap<u16, Made<Arc<Settings>>>,
    /// Instances of `nptv6`.
    pub(super) nptv6: BTreeMap<Name, Made<Nptv6Options>>,
    made: u64,
}

/// An instance, told apart from others that had its name.
#[derive(Clone, Debug)]
pub(super) struct Made<T> {
    id: u64,
    pub(super) settings: T,
}

impl Translations {
    /// Makes an instance, or changes one, which stays the same instance.
    pub(super) fn configure(&mut self, number: u16, settings: Settings) {
        self.made += 1;
        let id = self.nat.get(&number).map_or(self.made, |made| made.id);
        self.nat.insert(number, Made { id, settings: Arc::new(settings) });
    }

    pub(super) fn create(&mut self, name: Name, settings: Nptv6Options) {
        self.made += 1;
        self.nptv6.insert(name, Made { id: self.made, settings });
    }
}

/// Instances at work.
#[derive(Clone, Debug)]
pub(super) struct Translators {
    seeds: Stream,
    hosts: Hosts,
    /// What others have counted, where that is shown.
    pub(super) shown: Option<TranslationFigures>,
    pub(super) nat: BTreeMap<u16, (u64, Translator)>,
    pub(super) nptv6: BTreeMap<Name, (u64, Exchange)>,
}

/// An instance of `nptv6` at work.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    /// `None` while the port that has the prefix has no address.
    prefixes: Option<Prefixes>,
    pub(super) counters: nptv6::Counters,
}

impl Translators {
    pub(super) fn new(seed: u64) -> Self {
        let seeds = Stream::new(seed, "ipfw/nat");
        Self {
            seeds,
            hosts: Hosts::default(),
            shown: None,
            nat: BTreeMap::new(),
            nptv6: BTreeMap::new(),
        }
    }

    /// Makes the instances what the configuration says.
    pub(super) fn settle(&mut self, config: &Config) {
        let wanted = &config.translations;
        self.nat.retain(|number, at_work| {
            wanted.nat.get(number).is_some_and(|made| made.id == at_work.0)
        });
        for (&number, Made { id, settings }) in &wanted.nat {
            let (_, translator) = self.nat.entry(number).or_insert_with(|| {
                (*id, Translator::new(Settings::clone(settings), self.seeds.next_u64()))
            });
            if translator.settings() != &**settings {
                translator.configure(Settings::clone(settings));
            }
            match &settings.outside {
                Outside::Interface(name) => translator.set_address(v4_of(config, name)),
                Outside::None => translator.set_address(first_v4(config)),
                Outside::Address(_) => {}
            }
        }
        self.nptv6.retain(|name, at_work| {
            wanted.nptv6.get(name).is_some_and(|made| made.id == at_work.0)
        });
        for (name, Made { id, settings }) in &wanted.nptv6 {
            let fresh = || (*id, Exchange { prefixes: None, counters: Default::default() });
            let (_, exchange) = self.nptv6.entry(name.clone()).or_insert_with(fresh);
            exchange.prefixes = prefixes(config, settings);
        }
    }

    pub(super) fn tick(&mut self, now_ns: u64) {
        self.nat.values_mut().for_each(|(_, translator)| translator.tick(now_ns));
    }

    pub(super) fn next_tick_ns(&self) -> Option<u64> {
        self.nat.values().filter_map(|(_, translator)| translator.next_tick_ns()).min()
    }
}

fn addresses<'c>(config: &'c Config, port: &'c str) -> impl Iterator<Item = &'c IpAddr> {
    let has = move |of: Option<u16>| of.is_some() && config.port_name(of) == port;
    config.me.iter().filter(move |(_, of)| has(*of)).map(|(address, _)| address)
}

fn v4_of(config: &Config, port: &str) -> Option<Ipv4Addr> {
    addresses(config, port).find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

/// The address of an instance that has neither `ip` nor `if`: the first one of `me`.
fn first_v4(config: &Config) -> Option<Ipv4Addr> {
    config.me.iter().find_map(|(address, _)| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    })
}

/// The first address of a port that is known beyond its link.
fn v6_of(config: &Config, port: &str) -> Option<Ipv6Addr> {
    addresses(config, port).find_map(|address| match address {
        IpAddr::V6(address) if !address.is_unicast_link_local() => Some(*address),
        _ => None,
    })
}

fn prefixes(config: &Config, options: &Nptv6Options) -> Option<Prefixes> {
    let external = match &options.external {
        External::Prefix(prefix) => Some(*prefix),
        External::Interface(port) => v6_of(config, port),
    };
    Prefixes::new(options.internal, external?, options.len).ok()
}

/// What becomes of a packet that met a translator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It goes on, or is accepted with `one_pass`.
    Translated,
    /// It was not what the translator is for and goes on.
    Other,
    Dropped,
}

impl Firewall {
    /// Carries out a verdict that a translator has to.
    pub(super) fn translate(
        &mut self,
        verdict: &Verdict,
        (frame, packet): (&mut [u8], &Packet),
        pass: Pass,
        now: u64,
    ) -> Fate {
        let Some(bytes) = frame.get_mut(packet.l3..packet.end) else { return Fate::Other };
        let fate = match (verdict, packet.version) {
            (Verdict::Nat(NatRef::Global), Version::V4) => self.nat_global(bytes, pass, now),
            (Verdict::Nat(NatRef::Instance(Arg::Number(number))), Version::V4) => {
                self.nat(*number, bytes, pass, now)
            }
            (Verdict::Nptv6(name), Version::V6) => return self.nptv6(name, bytes, packet),
            _ => return Fate::Other,
        };
        if fate == Fate::Translated {
            self.find_host((frame, packet), pass);
        }
        fate
    }

    /// Remembers who has sent a packet out; has one that came in go to the host that it is for.
    fn find_host(&mut self, (frame, before): (&mut [u8], &Packet), pass: Pass) {
        let address = |at: usize| frame.get(before.l3 + at..)?.first_chunk::<4>().copied();
        let (Some(src), Some(dst)) = (address(12), address(16)) else { return };
        let hosts = &mut self.translators.hosts;
        match pass {
            Pass::Out if u32::from_be_bytes(src) != before.src as u32 => {
                hosts.learn(Ipv4Addr::from_bits(before.src as u32), before.src_mac());
            }
            Pass::In if u32::from_be_bytes(dst) != before.dst as u32 => {
                hosts.address(frame, dst.into());
            }
            _ => {}
        }
    }

    fn nat(&mut self, number: u32, bytes: &mut [u8], pass: Pass, now: u64) -> Fate {
        let instance = number.try_into().ok().and_then(|number| self.nat_mut(number));
        // FreeBSD drops what is for an instance that is not there.
        let Some(translator) = instance else { return Fate::Dropped };
        match translator.translate(bytes, way(pass), Scope::All, now) {
            Outcome::Translated | Outcome::Kept | Outcome::Untouched => Fate::Translated,
            Outcome::Dropped(_) => Fate::Dropped,
        }
    }

    fn nat_mut(&mut self, number: u16) -> Option<&mut Translator> {
        self.translators.nat.get_mut(&number).map(|(_, translator)| translator)
    }

    /// The first instance that knows the packet translates it.
    fn nat_global(&mut self, bytes: &mut [u8], pass: Pass, now: u64) -> Fate {
        let skips = |settings: &Settings| settings.modes.has(slipring_nat::Mode::SkipGlobal);
        let all = self.translators.nat.values_mut().map(|(_, translator)| translator);
        for translator in all.filter(|translator| !skips(translator.settings())) {
            match translator.translate(bytes, way(pass), Scope::Known, now) {
                Outcome::Translated | Outcome::Kept => return Fate::Translated,
                Outcome::Dropped(_) => return Fate::Dropped,
                Outcome::Untouched => {}
            }
        }
        Fate::Translated
    }

    fn nptv6(&mut self, name: &Name, bytes: &mut [u8], packet: &Packet) -> Fate {
        const ICMPV6: u8 = 58;
        let is_icmp = packet.proto == ICMPV6 && !packet.later_fragment;
        let Some((_, exchange)) = self.translators.nptv6.get_mut(name) else {
            return Fate::Dropped;
        };
        let Some(prefixes) = exchange.prefixes else { return Fate::Other };
        let outcome = prefixes.translate(bytes, is_icmp.then_some(packet.l4 - packet.l3));
        exchange.counters.count(outcome);
        match outcome {
            nptv6::Outcome::Out | nptv6::Outcome::In => Fate::Translated,
            nptv6::Outcome::Untouched => Fate::Other,
            nptv6::Outcome::Dropped => Fate::Dropped,
        }
    }

    /// An instance of `nat`, with its flows and counters.
    #[must_use]
    pub fn nat_instance(&self, number: u16) -> Option<&Translator> {
        self.translators.nat.get(&number).map(|(_, translator)| translator)
    }

    /// All instances of `nat` by number.
    pub fn nat_instances(&self) -> impl Iterator<Item = (u16, &Translator)> {
        self.translators.nat.iter().map(|(&number, (_, translator))| (number, translator))
    }

    /// What each instance of `nptv6` has done.
    pub fn nptv6_counters(&self) -> impl Iterator<Item = (&Name, &nptv6::Counters)> {
        self.translators.nptv6.iter().map(|(name, (_, exchange))| (name, &exchange.counters))
    }
}

const fn way(pass: Pass) -> Way {
    match pass {
        Pass::In => Way::In,
        Pass::Out => Way::Out,
    }
}
