//! What translators have counted: of this firewall, or of those that check packets for it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use slipring_nat::{Counters, Translator, nptv6};
use slipring_wire::assigned::IpProto;

use super::engine::Firewall;
use crate::rule::Name;

/// Flows and packets of instances of `nat` and `nptv6`.
#[derive(Clone, Debug, Default)]
pub struct TranslationFigures {
    pub(super) nat: BTreeMap<u16, NatFigures>,
    pub(super) nptv6: BTreeMap<Name, nptv6::Counters>,
}

/// Those of one instance of `nat`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NatFigures {
    flows: Flows,
    counters: Counters,
}

/// Flows there are, by protocol.
#[derive(Clone, Copy, Debug, Default)]
struct Flows {
    icmp: usize,
    udp: usize,
    tcp: usize,
    sctp: usize,
    other: usize,
    fragments: usize,
}

impl Firewall {
    /// What its translators have counted.
    #[must_use]
    pub fn translation_figures(&self) -> TranslationFigures {
        let nat = self.nat_instances().map(|(number, made)| (number, NatFigures::of(made)));
        let nptv6 = self.nptv6_counters().map(|(name, counters)| (name.clone(), *counters));
        TranslationFigures { nat: nat.collect(), nptv6: nptv6.collect() }
    }

    /// Shows what the translators of others have counted instead of its own.
    pub fn show_translations(&mut self, of_all: impl IntoIterator<Item = TranslationFigures>) {
        let mut sum = TranslationFigures::default();
        of_all.into_iter().for_each(|figures| sum.add(figures));
        self.translators.shown = Some(sum);
    }

    pub(super) fn shown_translations(&self) -> TranslationFigures {
        self.translators.shown.clone().unwrap_or_else(|| self.translation_figures())
    }
}

impl TranslationFigures {
    fn add(&mut self, other: Self) {
        for (number, figures) in other.nat {
            self.nat.entry(number).or_default().add(&figures);
        }
        for (name, counters) in other.nptv6 {
            self.nptv6.entry(name).or_default().add(&counters);
        }
    }
}

impl NatFigures {
    fn of(translator: &Translator) -> Self {
        let mut flows = Flows { fragments: translator.fragments(), ..Flows::default() };
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

    /// How many flows there are, as libalias logs it.
    pub(super) fn flows_text(&self, number: u16) -> String {
        let Flows { icmp, udp, tcp, sctp, other, fragments } = self.flows;
        let total = icmp + udp + tcp + sctp + other + fragments;
        format!(
            "nat {number}: icmp={icmp}, udp={udp}, tcp={tcp}, sctp={sctp}, pptp=0, proto={other}, \
             frag_id={fragments} frag_ptr=0 / tot={total}\n"
        )
    }

    pub(super) fn stats_text(&self, number: u16) -> String {
        let counters = &self.counters;
        let lines = [
            (counters.out, "packets translated (inside to outside)"),
            (counters.inwards, "packets translated (outside to inside)"),
            (counters.untouched, "packets left alone"),
            (counters.made, "flows made"),
            (counters.ended, "flows ended"),
            (counters.port_taken, "flows whose own port was taken"),
            (counters.refused, "packets dropped: nobody inside had asked (deny_in)"),
            (counters.exhausted, "packets dropped: no port was left"),
            (counters.collision, "packets dropped: their tuple was another flow's"),
            (counters.full, "packets dropped: too many flows"),
            (counters.no_address, "packets dropped: no address outside"),
            (counters.unknown_fragment, "fragments dropped: their first had not come"),
            (counters.malformed, "packets dropped: malformed"),
        ];
        let mut text = format!("nat {number}\n");
        lines.iter().for_each(|(count, what)| text.push_str(&format!("\t{count} {what}\n")));
        text
    }
}
