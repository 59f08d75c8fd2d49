//! The counters of translators: of this firewall, or of the firewalls that check packets for it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use slipring_nat::{NatCounters, Translator, nptv6};
use slipring_wire::assigned::IpProto;

use super::engine::Firewall;
use crate::rule::ObjectName;

/// Flow and packet counts of the instances of `nat` and `nptv6`.
#[derive(Clone, Debug, Default)]
pub struct TranslationStats {
    pub(super) nat: BTreeMap<u16, NatStats>,
    pub(super) nptv6: BTreeMap<ObjectName, nptv6::Nptv6Counters>,
}

/// A view of an instance of `nat`.
#[derive(Clone, Debug)]
pub struct NatView {
    /// The instance's number.
    pub number: u16,
    /// The parameters of the instance, as a command gives them after `config`.
    pub config: String,
    /// Current flows by kind; `None` while no firewall runs the instance.
    pub flows: Option<[(&'static str, u64); 6]>,
    /// Packets and flows by outcome; `None` while no firewall runs the instance.
    pub outcomes: Option<[(&'static str, u64); 13]>,
}

/// The counts of one instance of `nat`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NatStats {
    flows: NatFlowCounts,
    counters: NatCounters,
}

/// Current flows by protocol.
#[derive(Clone, Copy, Debug, Default)]
struct NatFlowCounts {
    icmp: usize,
    udp: usize,
    tcp: usize,
    sctp: usize,
    other: usize,
    fragments: usize,
}

impl Firewall {
    /// Returns the counts of all translators.
    #[must_use]
    pub fn translation_stats(&self) -> TranslationStats {
        let nat = self.nat_instances().map(|(number, made)| (number, NatStats::of(made)));
        let nptv6 = self.nptv6_counters().map(|(name, counters)| (name.clone(), *counters));
        TranslationStats { nat: nat.collect(), nptv6: nptv6.collect() }
    }

    /// Replaces the shown counts by the sum of the counts of other firewalls.
    pub fn show_translations(&mut self, of_all: impl IntoIterator<Item = TranslationStats>) {
        let mut sum = TranslationStats::default();
        of_all.into_iter().for_each(|figures| sum.add(figures));
        self.translators.shown = Some(sum);
    }

    /// Returns the configuration and counts of each instance of `nat`.
    #[must_use]
    pub fn nats(&self) -> Vec<NatView> {
        let figures = self.shown_translations().nat;
        let all = self.config.translations.nat.iter();
        let view = |(&number, made): (&u16, &super::translations::TranslatorConfig<_>)| NatView {
            number,
            config: format!("{}", made.settings),
            flows: figures.get(&number).map(NatStats::flows),
            outcomes: figures
                .get(&number)
                .map(|one| one.outcomes().map(|(count, name, _)| (name, count))),
        };
        all.map(view).collect()
    }

    pub(super) fn shown_translations(&self) -> TranslationStats {
        self.translators.shown.clone().unwrap_or_else(|| self.translation_stats())
    }
}

impl TranslationStats {
    fn add(&mut self, other: Self) {
        for (number, figures) in other.nat {
            self.nat.entry(number).or_default().add(&figures);
        }
        for (name, counters) in other.nptv6 {
            self.nptv6.entry(name).or_default().add(&counters);
        }
    }
}

impl NatStats {
    fn of(translator: &Translator) -> Self {
        let mut flows =
            NatFlowCounts { fragments: translator.fragments(), ..NatFlowCounts::default() };
        for flow in translator.flows() {
            *match flow.proto {
                IpProto::ICMP => &mut flows.icmp,
                IpProto::UDP => &mut flows.udp,
                IpProto::TCP => &mut flows.tcp,
                IpProto::SCTP => &mut flows.sctp,
                _ => &mut flows.other,
            } += 1;
        }
        Self { flows, counters: *translator.counters() }
    }

    fn add(&mut self, other: &Self) {
        let (flows, more) = (&mut self.flows, &other.flows);
        flows.icmp += more.icmp;
        flows.udp += more.udp;
        flows.tcp += more.tcp;
        flows.sctp += more.sctp;
        flows.other += more.other;
        flows.fragments += more.fragments;
        self.counters.add(&other.counters);
    }

    /// Returns the current flows by kind.
    fn flows(&self) -> [(&'static str, u64); 6] {
        let NatFlowCounts { icmp, udp, tcp, sctp, other, fragments } = self.flows;
        let all = [
            ("icmp", icmp),
            ("udp", udp),
            ("tcp", tcp),
            ("sctp", sctp),
            ("other", other),
            ("fragments", fragments),
        ];
        all.map(|(sort, count)| (sort, count as u64))
    }

    /// Returns packets and flows by outcome: count, key and description.
    const fn outcomes(&self) -> [(u64, &'static str, &'static str); 13] {
        let counters = &self.counters;
        [
            (counters.out, "out", "packets translated (inside to outside)"),
            (counters.inwards, "in", "packets translated (outside to inside)"),
            (counters.untouched, "untouched", "packets left alone"),
            (counters.created, "flows_made", "flows made"),
            (counters.ended, "flows_ended", "flows ended"),
            (counters.port_taken, "port_taken", "flows whose own port was taken"),
            (
                counters.refused,
                "lost_refused",
                "packets dropped: nobody inside had asked (deny_in)",
            ),
            (counters.exhausted, "lost_exhausted", "packets dropped: no port was left"),
            (
                counters.collision,
                "lost_collision",
                "packets dropped: their tuple was another flow's",
            ),
            (counters.full, "lost_full", "packets dropped: too many flows"),
            (counters.no_address, "lost_no_address", "packets dropped: no address outside"),
            (
                counters.unknown_fragment,
                "lost_unknown_fragment",
                "fragments dropped: their first had not come",
            ),
            (counters.malformed, "lost_malformed", "packets dropped: malformed"),
        ]
    }

    /// Formats the number of flows as libalias logs it.
    pub(super) fn flows_text(&self, number: u16) -> String {
        let [icmp, udp, tcp, sctp, other, fragments] = self.flows().map(|(_, count)| count);
        let total = icmp + udp + tcp + sctp + other + fragments;
        format!(
            "nat {number}: icmp={icmp}, udp={udp}, tcp={tcp}, sctp={sctp}, pptp=0, proto={other}, \
             frag_id={fragments} frag_ptr=0 / tot={total}\n"
        )
    }

    pub(super) fn stats_text(&self, number: u16) -> String {
        let mut text = format!("nat {number}\n");
        for (count, _, what) in self.outcomes() {
            text.push_str(&format!("\t{count} {what}\n"));
        }
        text
    }
}
