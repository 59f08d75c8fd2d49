//! User and group numbers, from `/etc/passwd` and `/etc/group`.

use std::fs;

/// The text of `/etc/passwd` and `/etc/group`.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    users: String,
    groups: String,
}

impl Accounts {
    /// Reads `/etc/passwd` and `/etc/group`. A file that cannot be read counts as empty.
    pub(crate) fn read() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self { users: read("/etc/passwd"), groups: read("/etc/group") }
    }

    #[cfg(test)]
    pub(crate) fn of(users: &str, groups: &str) -> Self {
        Self { users: users.to_owned(), groups: groups.to_owned() }
    }

    /// Returns the number of the user with this name; `None` if there is no such user.
    pub(crate) fn user(&self, name: &str) -> Option<u32> {
        number(&self.users, name)
    }

    /// Returns the number of the group with this name; `None` if there is no such group.
    pub(crate) fn group(&self, name: &str) -> Option<u32> {
        number(&self.groups, name)
    }
}

/// Returns the third field of the line with this name, which is the numeric id in both files;
/// `None` if there is no such line with a number.
fn number(list: &str, name: &str) -> Option<u32> {
    let mut lines = list.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_whole_names() {
        let groups = "root:x:0:\nnetmap:x:991:me\nnetmapper:x:7:\nbroken\n".to_owned();
        let accounts = Accounts { groups, ..Accounts::default() };
        assert_eq!((accounts.group("netmap"), accounts.group("root")), (Some(991), Some(0)));
        assert_eq!((accounts.group("net"), accounts.group("broken")), (None, None));
        assert_eq!(accounts.user("root"), None);
    }
}
