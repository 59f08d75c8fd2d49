//! Suggestions of what to write instead of an invalid port name.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::error::{PortNameError, PortNameFault};
use super::kind::{HOST_RINGS, NameForm, PLANNED};
use super::{PipeRole, PortName, PortNameKind, listed};

/// Lists the kinds of ports that this version can open.
fn kinds() -> String {
    let words = listed("", |kind| kind.form != NameForm::SwitchPort && !kind.has(PLANNED));
    format!("the kinds are {words}; pipes are NAME{{K and NAME}}K, ports of switches valeX:NAME")
}

/// Examples of options.
const OPTIONS: &str = "write options as @7, @conf:slots=1024, @share:port=NAME, @extmem:file=FILE \
                       or @offset:initial=64";

/// Returns examples of names of a kind, or how to form such a name.
fn examples(kind: &PortNameKind) -> String {
    match kind.grammar().form {
        NameForm::Interface if kind.has(HOST_RINGS) => {
            format!(
                "write {kind}eth0, {kind}eth0-2 for its ring pair 2, or {kind}eth0^ for its host rings"
            )
        }
        NameForm::Interface => format!("write {kind}NAME, such as {kind}t0"),
        NameForm::SwitchPort => format!("write {kind}NAME, such as {kind}a"),
        NameForm::DevicePort => format!("write {kind}NAME, such as {kind}eth0 or {kind}vale0:a"),
        NameForm::PciAddress => format!("write {kind}0000:03:00.0, with the device's address"),
        NameForm::Text(what) | NameForm::Rest(what) => format!("write {kind} and {what}"),
        NameForm::Nothing => format!("write {kind} without a name"),
    }
}

impl PortNameError {
    /// Returns what to try next: [`Self::help`], or else examples of what could not be parsed, or
    /// else the kinds of ports.
    #[must_use]
    pub fn advice(&self) -> String {
        self.help().or_else(|| self.example()).unwrap_or_else(kinds)
    }

    /// Returns examples of the element in which parsing failed (a pipe or an option), or else of
    /// the kind that was typed; `None` if no known kind was typed.
    fn example(&self) -> Option<String> {
        let parsed: String = self.input.chars().take(self.column - 1).collect();
        let is_pipe_sign = |c| PipeRole::from_sign(c).is_some();
        if let Some(name) = parsed.strip_suffix(is_pipe_sign) {
            return Some(format!("write {name}{{1 for one end of a pipe, {name}}}1 for the other"));
        }
        if parsed.contains('@') {
            return Some(OPTIONS.to_string());
        }
        self.typed_kind().as_ref().map(examples)
    }

    /// Returns the kind in the name. For a name without a kind, returns the kind that netmap's own
    /// programs assume. `None` if the text before the colon is no kind, or if the name is empty.
    fn typed_kind(&self) -> Option<PortNameKind> {
        match self.input.split_once(':') {
            Some((word, _)) => PortNameKind::from_word(word),
            None if self.input.is_empty() => None,
            None if self.input.starts_with("tap") => Some(PortNameKind::Tap),
            None => Some(PortNameKind::Netmap),
        }
    }

    /// Returns a suggestion of what to try next, without a leading `help:`; `None` if there is
    /// none.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        match &self.reason {
            PortNameFault::MissingKind => Some(self.help_missing_kind()),
            PortNameFault::UnknownKind(_) => Some(kinds()),
            PortNameFault::MissingSwitchPort { .. } => Some(self.help_switch()),
            PortNameFault::ExpectedRing { found: Some(_) }
            | PortNameFault::ExpectedSuffix { .. } => self.help_dash(),
            PortNameFault::BadChar { found: ':' } => self.help_with_kind(""),
            PortNameFault::PipeOfKind => self.help_with_kind("netmap:"),
            PortNameFault::UnknownFlag(_) => Some(
                "the flags are x (exclusive), z (zero-copy monitor), t (monitor tx), \
                 r (monitor rx), T (tx rings only) and R (rx rings only)"
                    .to_string(),
            ),
            PortNameFault::UnknownOption(_) => {
                Some("the options are @N, @share:…, @extmem:…, @conf:… and @offset:…".to_string())
            }
            PortNameFault::UnknownKey { known, .. } => {
                Some(format!("the keys are {}", known.join(", ")))
            }
            _ => None,
        }
    }

    fn help_missing_kind(&self) -> String {
        let with_kind = format!("netmap:{}", self.input);
        match PortName::parse(&with_kind) {
            Ok(_) => format!("write `{with_kind}`"),
            Err(error) => error.help().unwrap_or_else(kinds),
        }
    }

    fn help_switch(&self) -> String {
        let switch: String = self.input.chars().take(self.column - 1).collect();
        format!("write `{switch}:NAME` for a port of the switch, `netmap:NAME` for an interface")
    }

    /// Returns the suggestion to write `prefix` in place of the kind, which ends at the first `:`.
    /// An empty `prefix` removes the kind. `None` if the name has no kind, or if the result would
    /// not be valid.
    fn help_with_kind(&self, prefix: &str) -> Option<String> {
        let (_, rest) = self.input.split_once(':')?;
        let name = format!("{prefix}{rest}");
        PortName::parse(&name).ok()?;
        Some(format!("write `{name}`"))
    }

    /// Suggests to double a `-`, if the parser took it for the start of a ring suffix; `None`
    /// otherwise.
    fn help_dash(&self) -> Option<String> {
        let chars: Vec<char> = self.input.chars().collect();
        let dash = chars[..self.column - 1].iter().rposition(|&c| c == '-')?;
        let doubled = |until: usize| -> String {
            let copies = |(i, c)| core::iter::repeat_n(c, doubled_count(i, c, dash, until));
            chars.iter().copied().enumerate().flat_map(copies).collect()
        };
        // First, only this `-` is doubled, so that `my-if-2` keeps its ring suffix. If the result
        // is not valid, all `-` after it are also doubled.
        let name = [dash, chars.len()]
            .into_iter()
            .map(doubled)
            .find(|name| PortName::parse_classic(name).is_ok())?;
        Some(format!("a `-` that belongs to the name is written twice: `{name}`"))
    }
}

/// Returns how often to write the character `c`, which has the number `index`: twice if it is a
/// dash in `from..=until`, otherwise once.
fn doubled_count(index: usize, c: char, from: usize, until: usize) -> usize {
    if c == '-' && (from..=until).contains(&index) { 2 } else { 1 }
}
