//! Decides which user may bind which port.
//!
//! A rule names users and ports. If it names no users, it applies to all users. If it names no
//! ports, it applies to all ports. `deny` has precedence over `allow`. If no rule applies, root may
//! bind any port, and other users may bind any port except interfaces (with `--nics-for-all`, also
//! interfaces).

use std::sync::{PoisonError, RwLock};

use slipring_netmap::{Errno, PortKind};
use slipring_nic_provider::NicAccess;

/// The words for kinds of ports in the configuration.
pub(crate) const KIND_NAMES: [(&str, PortKind); 4] = [
    ("interface", PortKind::Interface),
    ("pipe", PortKind::Pipe),
    ("switch", PortKind::Switch),
    ("null", PortKind::Null),
];

/// A port that a user wants to bind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortAccess<'n> {
    pub(crate) name: &'n str,
    pub(crate) kind: PortKind,
}

#[cfg(test)]
impl<'n> PortAccess<'n> {
    /// Returns the port with this name.
    pub(crate) fn of_port(name: &'n str) -> Self {
        Self { name, kind: PortKind::of_name(name) }
    }
}

/// The user who wants to bind a port, with the user's groups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'g> {
    pub(crate) uid: u32,
    pub(crate) gids: &'g [u32],
}

/// An access rule. It applies to the users in `uids` and in the groups `gids`; if both lists are
/// empty, to all users. It applies to the ports that any of the other lists selects; if these are
/// all empty, to all ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AccessRule {
    pub(crate) uids: Vec<u32>,
    pub(crate) gids: Vec<u32>,
    /// Patterns of interface names.
    pub(crate) interfaces: Vec<String>,
    /// Patterns of whole port names.
    pub(crate) ports: Vec<String>,
    pub(crate) kinds: Vec<PortKind>,
}

impl AccessRule {
    fn applies_to(&self, requester: Requester<'_>, port: PortAccess<'_>) -> bool {
        let everybody = self.uids.is_empty() && self.gids.is_empty();
        let meant = everybody
            || self.uids.contains(&requester.uid)
            || self.gids.iter().any(|gid| requester.gids.contains(gid));
        let everything =
            self.interfaces.is_empty() && self.ports.is_empty() && self.kinds.is_empty();
        let any = |patterns: &[String]| patterns.iter().any(|one| matches(one, port.name));
        let wanted = everything
            || self.kinds.contains(&port.kind)
            || any(&self.ports)
            || port.kind == PortKind::Interface && any(&self.interfaces);
        meant && wanted
    }
}

/// Returns whether a name matches a pattern, in which `*` stands for any text and `?` for any
/// character.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The state to return to if a later part does not match: the position of the last `*` in the
    // pattern, and the end of the text in the name that this `*` matches so far.
    let mut again = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                again = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            _ => match again {
                Some((star, taken)) => {
                    again = Some((star, taken + 1));
                    (p, n) = (star + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// All access rules of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AccessRules {
    pub(crate) allow: Vec<AccessRule>,
    pub(crate) deny: Vec<AccessRule>,
    pub(crate) take_over: Vec<AccessRule>,
    /// The rights of every user according to the command-line flags.
    pub(crate) flags: NicAccess,
}

impl AccessRules {
    /// Returns whether the user may bind the port.
    pub(crate) fn admits(&self, requester: Requester<'_>, port: PortAccess<'_>) -> bool {
        let any = |rules: &[AccessRule]| rules.iter().any(|rule| rule.applies_to(requester, port));
        let without_rules =
            requester.uid == 0 || port.kind != PortKind::Interface || self.flags.all_users;
        !any(&self.deny) && (without_rules || any(&self.allow))
    }

    /// Returns whether the user may bind the port even if it is the interface of the default route.
    fn may_take_over(&self, requester: Requester<'_>, port: PortAccess<'_>) -> bool {
        self.flags.take_over || self.take_over.iter().any(|rule| rule.applies_to(requester, port))
    }
}

/// The access rules that are in force. They can be replaced.
#[derive(Debug, Default)]
pub(crate) struct ActiveAccessRules(RwLock<AccessRules>);

impl ActiveAccessRules {
    /// Replaces all rules.
    pub(crate) fn replace(&self, book: AccessRules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = book;
    }

    /// Returns EPERM if the user may not bind the port.
    pub(crate) fn admit(
        &self,
        requester: Requester<'_>,
        port: PortAccess<'_>,
    ) -> Result<(), Errno> {
        let admitted = self.with_rules(|book| book.admits(requester, port));
        if admitted { Ok(()) } else { Err(Errno::PERM) }
    }

    /// Returns the rights of the user to an interface.
    pub(crate) fn access(&self, requester: Requester<'_>, port: PortAccess<'_>) -> NicAccess {
        self.with_rules(|book| NicAccess {
            all_users: book.admits(requester, port),
            take_over: book.may_take_over(requester, port),
        })
    }

    fn with_rules<T>(&self, read: impl FnOnce(&AccessRules) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Requester<'_> = Requester { uid: 1000, gids: &[1000, 50] };
    const BOB: Requester<'_> = Requester { uid: 1001, gids: &[1001] };
    const ROOT: Requester<'_> = Requester { uid: 0, gids: &[0] };

    fn eth(patterns: &[&str]) -> AccessRule {
        let interfaces = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        AccessRule { interfaces, ..AccessRule::default() }
    }

    #[test]
    fn without_rules_interfaces_are_roots_and_the_rest_is_everybodys() {
        let book = AccessRules::default();
        for (name, alice) in
            [("eth0", false), ("x{1", true), ("vale0:a", true), ("eth0{1", true), ("eth0^", false)]
        {
            assert_eq!(book.admits(ALICE, PortAccess::of_port(name)), alice, "{name}");
            assert!(book.admits(ROOT, PortAccess::of_port(name)), "{name}");
        }
    }

    #[test]
    fn a_rule_is_for_those_whom_it_names_by_user_or_by_group() {
        let by_user = AccessRule { uids: vec![1000], ..eth(&["eth*"]) };
        let by_group = AccessRule { gids: vec![50], ..eth(&["eth*"]) };
        for rule in [by_user, by_group] {
            let book = AccessRules { allow: vec![rule], ..AccessRules::default() };
            assert!(book.admits(ALICE, PortAccess::of_port("eth7")));
            assert!(!book.admits(ALICE, PortAccess::of_port("wlan0")));
            assert!(!book.admits(BOB, PortAccess::of_port("eth7")));
        }
    }

    #[test]
    fn deny_beats_allow_and_root() {
        let deny = vec![
            eth(&["eth0"]),
            AccessRule { kinds: vec![PortKind::Pipe], uids: vec![1001], ..AccessRule::default() },
        ];
        let book =
            AccessRules { allow: vec![AccessRule::default()], deny, ..AccessRules::default() };
        assert!(
            !book.admits(ROOT, PortAccess::of_port("eth0"))
                && book.admits(BOB, PortAccess::of_port("eth1"))
        );
        assert!(
            !book.admits(BOB, PortAccess::of_port("x{1"))
                && book.admits(ALICE, PortAccess::of_port("x{1"))
        );
    }

    #[test]
    fn take_over_is_no_permission_to_bind() {
        let book = AccessRules { take_over: vec![eth(&["eth0"])], ..AccessRules::default() };
        let rules = ActiveAccessRules::default();
        rules.replace(book);
        let access = rules.access(ALICE, PortAccess::of_port("eth0"));
        assert_eq!(access, NicAccess { all_users: false, take_over: true });
        assert!(!rules.access(ROOT, PortAccess::of_port("eth1")).take_over);
    }

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        for (pattern, name, fits) in [
            ("eth0", "eth0", true),
            ("eth0", "eth01", false),
            ("eth?", "eth0", true),
            ("eth?", "eth", false),
            ("*", "", true),
            ("*0*", "eth0.12", true),
            ("e*h*1", "eth0.11", true),
            ("e*h*2", "eth0.11", false),
            ("**a", "bba", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_full_of_stars_takes_no_time() {
        assert!(!matches(&"*a".repeat(500), &"a".repeat(400)));
    }
}
