//! Saves states as commands, and restores them from commands.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::changes::CommandError;
use super::engine::Firewall;
use super::restored_states::RestoredStates;
use crate::rule::{DEFAULT_RULE, Rule};
use crate::state::{FlowState, SavedState, StateSnapshot};
use crate::text::StateCommand;

/// Why a state was not restored.
enum RestoreRefusal {
    /// The state has expired.
    Late,
    /// Another reason, as text for the user.
    For(String),
}

impl Firewall {
    /// Returns the results of the `state` commands since the last call, and forgets them. The
    /// states must be passed to the engines that have the flows.
    pub fn take_restored(&mut self) -> RestoredStates {
        core::mem::take(&mut self.restored)
    }

    /// Restores saved states; returns how many were refused for lack of space.
    pub fn restore(&mut self, states: Vec<SavedState>, now_ns: u64) -> usize {
        let restored = states.into_iter().map(|written| self.states.restore(written, now_ns));
        restored.filter(Result::is_err).count()
    }

    /// Removes all states and returns the living ones, for [`Self::restore`] in other firewalls
    /// with the same list of rules.
    pub fn take_states(&mut self, now_ns: u64) -> Vec<SavedState> {
        self.states.take(now_ns)
    }

    /// Returns a `state` command for each living state in `of_all`. These are snapshots of
    /// firewalls that have the same list of rules as this one.
    #[must_use]
    pub fn state_commands(&self, of_all: &[StateSnapshot], now_ns: u64) -> Vec<StateCommand> {
        let mut living: Vec<&FlowState> = of_all.iter().flat_map(StateSnapshot::states).collect();
        living.retain(|state| state.expires_ns > now_ns);
        living.sort_by_key(|state| (state.number, state.rule, state.flow));
        living.iter().filter_map(|state| self.state_command(state, now_ns)).collect()
    }

    fn state_command(&self, state: &FlowState, now_ns: u64) -> Option<StateCommand> {
        let list = &self.config.list;
        let (position, written) = (list.position(state.rule)?, state.saved());
        let first = list.first_from(written.number);
        Some(StateCommand {
            line: 1,
            rule: written.number,
            nth: position.checked_sub(first)? as u32 + 1,
            flow: written.flow,
            name: written.name,
            left_ns: written.expires_ns - now_ns,
            at_unix_ns: Some(self.unix_ns(now_ns)),
            link: written.link,
            port: written.port.map(|port| self.config.port_name(Some(port)).into()),
            limit: written.limit,
            tcp: written.tcp,
            packets: written.packets,
            bytes: written.bytes,
        })
    }

    /// Executes the pending `state` commands, once all rules are loaded. States that have expired
    /// are skipped; `restored` notes the others that cannot be restored. Neither makes a file fail.
    pub(super) fn settle_restoring(&mut self, now_ns: u64) {
        for command in core::mem::take(&mut self.pending_states) {
            match self.resolve(&command, now_ns) {
                Ok(written) => {
                    // A lack of space is ignored here, because the engines that own the flows
                    // report it.
                    let _ = self.states.restore(written.clone(), now_ns);
                    self.restored.states.push(written);
                }
                Err(RestoreRefusal::Late) => {}
                Err(RestoreRefusal::For(why)) => self.restored.refused.push((command.line, why)),
            }
        }
    }

    /// Executes a pending `state` command outside a file, where it is an error if the state is
    /// refused or has expired.
    pub(super) fn settle_one(&mut self, now_ns: u64) -> Result<(), CommandError> {
        if self.pending_states.is_empty() {
            return Ok(());
        }
        let late = self.pending_states.iter().find(|one| self.left_ns(one, now_ns) == 0);
        let late = late.map(|one| format!("state {}: its time is over", one.title()));
        self.settle_restoring(now_ns);
        let refused = self.restored.refused.pop().map(|(_, why)| why);
        refused.or(late).map_or(Ok(()), |why| Err(CommandError::missing(why)))
    }

    /// Returns the remaining lifetime of a state. If the clock was set back after the state was
    /// saved, the lifetime is not extended.
    fn left_ns(&self, command: &StateCommand, now_ns: u64) -> u64 {
        let passed = |at: u64| self.unix_ns(now_ns).saturating_sub(at);
        command.left_ns.saturating_sub(command.at_unix_ns.map_or(0, passed))
    }

    fn resolve(&self, command: &StateCommand, now_ns: u64) -> Result<SavedState, RestoreRefusal> {
        let left_ns = self.left_ns(command, now_ns);
        if left_ns == 0 {
            return Err(RestoreRefusal::Late);
        }
        let StateCommand { rule: number, nth, .. } = *command;
        let refused =
            |why: String| RestoreRefusal::For(format!("state {}: {why}", command.title()));
        let list = &self.config.list;
        let position = list.first_from(number) + (nth as usize - 1).min(list.len());
        let found = list.entries.get(position).filter(|entry| entry.number == number);
        let missing = || match nth {
            1 => format!("there is no rule {number}"),
            nth => format!("there are fewer than {nth} rules {number}"),
        };
        let entry = found.ok_or_else(|| refused(missing()))?;
        if !keeps(&entry.rule, command) && number != DEFAULT_RULE {
            return Err(refused(format!("rule {number} keeps no such states")));
        }
        let ports = &self.config.ports;
        let port = command.port.as_ref();
        let port = port.and_then(|name| ports.iter().position(|port| port == name));
        // The state shares the text of the name in the rule, which makes comparing equal names
        // fast.
        let of_rule = entry.rule.keep.as_ref().map(|keep| &keep.name);
        let name = of_rule.filter(|name| **name == command.name).unwrap_or(&command.name);
        Ok(SavedState {
            flow: command.flow,
            name: name.clone(),
            rule: entry.id,
            number,
            limit: command.limit,
            expires_ns: now_ns.saturating_add(left_ns),
            tcp: command.tcp,
            link: command.link,
            port: port.map(|port| port as u16),
            packets: command.packets,
            bytes: command.bytes,
        })
    }
}

/// Returns whether a rule creates states with the name and the limit fields of the command.
fn keeps(rule: &Rule, command: &StateCommand) -> bool {
    rule.keep.as_ref().is_some_and(|keep| {
        keep.name == command.name && keep.limit.map(|limit| limit.fields) == command.limit
    })
}
