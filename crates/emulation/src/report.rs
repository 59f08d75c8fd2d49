//! Reports on every link, in virtual and real time: its requested settings and the measured
//! figures.
//!
//! | part | purpose |
//! |---|---|
//! | [`requested`] | the requested behaviour of a link, as text and numbers, after rounding |
//! | [`measurement`], [`flow`], [`histogram`] | measurements |
//! | [`hop_times`] | when frames entered links that are not their first |
//! | [`summary`] | requested and measured values side by side, as text |
//! | [`document`] | the report as JSON |
//! | [`openmetrics`] | the report for Prometheus |
//! | [`packets`], [`mahimahi`] | every single frame, in a file |
//!
//! Counters come from the engine, which keeps them balanced. This module only reports.

pub(crate) mod document;
pub(crate) mod flow;
pub(crate) mod histogram;
pub(crate) mod hop_times;
mod link_report;
pub(crate) mod mahimahi;
pub(crate) mod measurement;
pub(crate) mod openmetrics;
pub(crate) mod packets;
pub(crate) mod requested;
pub(crate) mod summary;

use slipring_link::{LinkCounters, LinkSource, LinkSpec, LinkTarget, NetworkSpec, PacketCounts};

use document::EmulationDocument;
pub(crate) use link_report::{LinkReport, SettingsChanges};
use measurement::LinkMeasurement;
use requested::RequestedLink;

/// The report on a network at one moment.
pub struct EmulationReport<'m> {
    /// The reports on the links, in the order of the plan.
    pub links: Vec<LinkReport<'m>>,
    /// Frames that no link accepts.
    pub unrouted: PacketCounts,
    changes: SettingsChanges,
}

impl<'m> EmulationReport<'m> {
    /// Creates a report on the links of `network`, with `counters` and `measured` in their order.
    pub fn of(
        network: &NetworkSpec,
        counters: &[LinkCounters],
        measured: &'m [LinkMeasurement],
        unrouted: PacketCounts,
    ) -> Self {
        let link = |(index, counters): (usize, &LinkCounters)| {
            let link = &network.links[index];
            let classes = network.classes.iter().filter(|class| class.link == index);
            LinkReport {
                name: link.spec.name.clone(),
                from: match link.from {
                    LinkSource::Entry(entry) => network.entries[entry].clone(),
                    LinkSource::Node(node) => network.nodes[node].clone(),
                },
                to: match link.to {
                    LinkTarget::Exit(exit) => network.exits[exit].clone(),
                    LinkTarget::Node(node) => network.nodes[node].clone(),
                },
                classes: classes.map(|class| class.filter.clone()).collect(),
                requested: RequestedLink::of(&link.spec),
                counters: *counters,
                measured: measured.get(index),
                model_failures: model_failures(&link.spec),
            }
        };
        Self {
            links: counters.iter().enumerate().map(link).collect(),
            unrouted,
            changes: SettingsChanges::default(),
        }
    }

    /// Sets the number and time of changes of settings during the measurement.
    pub fn changed(self, changes: SettingsChanges) -> Self {
        Self { changes, ..self }
    }

    /// Returns the report as text.
    pub fn summary(&self) -> String {
        let mut text = summary::summary(&self.links);
        if self.unrouted.packets > 0 {
            text += &format!("\n{} frames were lost: no class wanted them", self.unrouted.packets);
        }
        text + &self.changes.line()
    }

    /// Returns the JSON fields that this report adds to those of every command.
    pub fn document(&self) -> EmulationDocument {
        EmulationDocument::of(&self.links, self.unrouted).changed(self.changes)
    }

    /// Returns the report in the OpenMetrics format, which Prometheus reads.
    pub fn openmetrics(&self) -> String {
        openmetrics::text(&self.links, self.unrouted)
    }
}

/// Returns one sentence for each user model that failed, with its first error.
pub(crate) fn model_failures(link: &LinkSpec) -> Vec<String> {
    let errors = link.user_model_errors().into_iter();
    errors.map(|(stage, trouble)| format!("{stage}: {trouble}")).collect()
}
