//! The commands `nat …` and `nptv6 …`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::changes::CommandError;
use super::engine::Firewall;
use crate::rule::{ObjectName, RuleAction};
use crate::text::{NatCommand, NatShow, Nptv6Command, Nptv6Verb, NumberRange};

impl Firewall {
    pub(super) fn nat_command(
        &mut self,
        command: &NatCommand,
        force: bool,
    ) -> Result<String, CommandError> {
        match command {
            NatCommand::Config { number, settings } => {
                self.config.translations.configure(*number, settings.clone());
                // ipfw echoes the parsed configuration in this form.
                Ok(format!("ipfw nat {number} config{settings}\n"))
            }
            NatCommand::Delete(ranges) => {
                for range in ranges {
                    let nat = &mut self.config.translations.nat;
                    let before = nat.len();
                    nat.retain(|number, _| !range.holds(*number));
                    if nat.len() == before && !force {
                        return Err(CommandError::missing(format!("nat {range} not available")));
                    }
                }
                Ok(String::new())
            }
            NatCommand::Show { what, ranges } => Ok(self.show_nat(*what, ranges)),
        }
    }

    fn show_nat(&self, what: NatShow, ranges: &[NumberRange]) -> String {
        let wanted = |number| ranges.is_empty() || ranges.iter().any(|range| range.holds(number));
        let all = &self.config.translations.nat;
        let figures = self.shown_translations().nat;
        let shown = all.iter().filter(|(number, _)| wanted(**number));
        shown
            .map(|(&number, made)| match (what, figures.get(&number)) {
                (NatShow::Config, _) => format!("ipfw nat {number} config{}\n", made.settings),
                (NatShow::Flows, Some(figures)) => figures.flows_text(number),
                (NatShow::Stats, Some(figures)) => figures.stats_text(number),
                // The instance was created by an earlier line of the same file, so it has no
                // counters and no flows yet.
                (_, None) => String::new(),
            })
            .collect()
    }

    pub(super) fn nptv6_command(&mut self, command: &Nptv6Command) -> Result<String, CommandError> {
        if let (Nptv6Verb::Create(options), Some(name)) = (&command.verb, &command.name) {
            if self.config.translations.nptv6.contains_key(name) {
                let message = format!("nptv6 {name} exists; `nptv6 {name} destroy` removes it");
                return Err(CommandError::system(message));
            }
            self.config.translations.create(name.clone(), options.clone());
            return Ok(String::new());
        }
        let names = self.nptv6_names(command.name.as_ref())?;
        let mut text = String::new();
        for name in names {
            match command.verb {
                Nptv6Verb::Create(_) => {}
                Nptv6Verb::Destroy => self.destroy_nptv6(&name)?,
                Nptv6Verb::List => {
                    let made = &self.config.translations.nptv6[&name];
                    text.push_str(&format!("nptv6 {name} {}\n", made.settings));
                }
                Nptv6Verb::Stats { reset } => text.push_str(&self.nptv6_stats(&name, reset)),
            }
        }
        Ok(text)
    }

    fn nptv6_names(&self, name: Option<&ObjectName>) -> Result<Vec<ObjectName>, CommandError> {
        let all = &self.config.translations.nptv6;
        match name {
            None => Ok(all.keys().cloned().collect()),
            Some(name) if all.contains_key(name) => Ok([name.clone()].into()),
            Some(name) => Err(missing_nptv6(name)),
        }
    }

    fn destroy_nptv6(&mut self, name: &ObjectName) -> Result<(), CommandError> {
        let is_user = |action: &RuleAction| matches!(action, RuleAction::Nptv6(of) if of == name);
        let user = self.config.list.iter().find(|(entry, _)| is_user(&entry.rule.action));
        if let Some((entry, _)) = user {
            let number = entry.number;
            let message = format!("nptv6 {name} is used by rule {number}; `delete {number}` first");
            return Err(CommandError::system(message));
        }
        self.config.translations.nptv6.remove(name);
        Ok(())
    }

    fn nptv6_stats(&mut self, name: &ObjectName, reset: bool) -> String {
        let counters = self.shown_translations().nptv6.get(name).copied();
        let Some(counters) = counters else { return String::new() };
        if reset {
            self.reset_nptv6(name);
        }
        format!(
            "nptv6 {name}\n\t{} packets translated (internal to external)\n\
             \t{} packets translated (external to internal)\n\
             \t{} packets dropped due to some error\n",
            counters.out, counters.inwards, counters.dropped
        )
    }

    fn reset_nptv6(&mut self, name: &ObjectName) {
        if let Some((_, exchange)) = self.translators.nptv6.get_mut(name) {
            exchange.counters = Default::default();
        }
    }

    /// Checks the translator that a rule names: an `nptv6` instance must exist, but a `nat`
    /// instance may be created later.
    pub(super) fn check_translator(&self, action: &RuleAction) -> Result<(), CommandError> {
        match action {
            RuleAction::Nptv6(name) => self.nptv6_names(Some(name)).map(drop),
            _ => Ok(()),
        }
    }
}

fn missing_nptv6(name: &ObjectName) -> CommandError {
    let next = format!("`nptv6 {name} create int_prefix … ext_prefix … prefixlen …` makes it");
    CommandError::missing(format!("nptv6 {name} not found; {next}"))
}
