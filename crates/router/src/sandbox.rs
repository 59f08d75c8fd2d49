//! `--user`, and `user` in the section `[sandbox]` of a file: the user that all threads become after
//! the set-up.
//!
//! ```text
//!   root: interfaces, sockets, files of the run --> watch thread, main thread: confine_as(user)
//!                                                      '--> all later threads inherit the user
//!   helper, root: neighbours, settings, the files of the run, which the user may not remove, and
//!                 lists of the tables of iptables-legacy, which the user may not open
//! ```
//!
//! The files that a reload reads are opened as that user.

use std::fs::{self, File};
use std::io;
use std::path::{Path, absolute};

use rustix::fs::{Access, access};
use slipring_cli::codes::{SR0003, SR0104, SR0201};
use slipring_cli::{Diagnostic, Failure, metrics, nearest};
use slipring_confine::{CapabilitySet, UserIds, effective};

/// The users of this machine.
const USERS_FILE: &str = "/etc/passwd";

/// The user that the router becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxUser {
    /// The name or number, as the user of slipring has written it.
    pub(crate) name: String,
    pub(crate) ids: UserIds,
}

impl SandboxUser {
    /// Finds a user by name or number. A number need not be in the list of users; its group then has
    /// the same number.
    ///
    /// # Errors
    /// A text that says which users are allowed.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        let users = fs::read_to_string(USERS_FILE).unwrap_or_default();
        Self::find_in(name, &users)
    }

    fn find_in(name: &str, users: &str) -> Result<Self, String> {
        let entries = || users.lines().filter_map(UserEntry::parse);
        let number: Option<u32> = name.parse().ok();
        let found = entries().find(|it| it.name == name || Some(it.ids.uid) == number);
        let by_number = || number.map(|id| UserIds { uid: id, gid: id });
        let Some(ids) = found.map(|it| it.ids).or_else(by_number) else {
            let allowed = format!("a user of {USERS_FILE}, or a user's number");
            let unprivileged = entries().filter(|it| it.ids.uid != 0).map(|it| it.name);
            return Err(match nearest(name, unprivileged) {
                Some(near) => format!("{allowed}; did you mean `{near}`?"),
                None => allowed,
            });
        };
        match ids.uid {
            // The kernel takes this number for "no change".
            u32::MAX => Err("a number below 4294967295".to_owned()),
            0 => Err("a user other than root, whose files the router could change".to_owned()),
            _ => Ok(Self { name: name.to_owned(), ids }),
        }
    }

    /// Checks that the process may change its user.
    ///
    /// # Errors
    /// If it may not.
    pub(crate) fn check_permitted(&self) -> Result<(), Failure> {
        if effective().contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
            return Ok(());
        }
        Err(Diagnostic::new(SR0104, format!("the router cannot become the user {}", self.name))
            .with_cause("the capabilities cap_setuid and cap_setgid are missing")
            .with_help("run as root, or leave out --user, and user in [sandbox]")
            .into())
    }

    /// Refuses an address of metrics at which the user may not listen.
    ///
    /// # Errors
    /// If the address has such a port.
    pub(crate) fn check_metrics(&self, address: Option<&str>) -> Result<(), Failure> {
        if !address.is_some_and(metrics::is_reserved) {
            return Ok(());
        }
        let what = format!("the user {} cannot serve metrics there", self.name);
        Err(Diagnostic::new(SR0003, what)
            .with_cause("ports below 1024 need a capability, which the router gives up")
            .with_help("take another port: --metrics 127.0.0.1:9477")
            .into())
    }

    /// Checks that this process, which has become the user, may read a file again.
    ///
    /// # Errors
    /// If it may not, with the command that permits it.
    pub(crate) fn check_readable(&self, path: &Path) -> Result<(), Diagnostic> {
        let denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        match File::open(path) {
            Err(error) if denied(&error) => {
                let what = format!("the user {} cannot read {}", self.name, path.display());
                Err(Diagnostic::new(SR0201, what)
                    .with_cause(format!("the router has become this user: {error}"))
                    .with_help(permitting_command(path))
                    .with_note("then reload: slipring route ctl reload"))
            }
            // Any other error is reported when the file is read.
            _ => Ok(()),
        }
    }
}

/// Returns the command that permits to read a file, or first to pass a directory on its way.
fn permitting_command(path: &Path) -> String {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut dirs: Vec<_> = path.ancestors().skip(1).collect();
    dirs.reverse();
    match dirs.into_iter().find(|dir| access(*dir, Access::EXEC_OK).is_err()) {
        Some(dir) => format!("chmod o+x {}", dir.display()),
        None => format!("chmod o+r {}", path.display()),
    }
}

/// An entry in the list of users.
struct UserEntry<'l> {
    name: &'l str,
    ids: UserIds,
}

impl<'l> UserEntry<'l> {
    /// Parses a line `name:password:uid:gid:…`.
    fn parse(line: &'l str) -> Option<Self> {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(Self { name, ids: UserIds { uid, gid } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n\
                         broken line\n\
                         daemon:x:65534:65533:daemon:/nonexistent:/usr/sbin/nologin\n";

    fn find(name: &str) -> Result<(u32, u32), String> {
        SandboxUser::find_in(name, USERS).map(|user| (user.ids.uid, user.ids.gid))
    }

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        assert_eq!(find("daemon"), Ok((65534, 65533)));
        assert_eq!(find("65534"), Ok((65534, 65533)));
        assert_eq!(find("4711"), Ok((4711, 4711)), "a number needs no entry");
    }

    #[test]
    fn an_unknown_user_is_refused_with_the_one_that_was_meant() {
        assert!(find("deamon").unwrap_err().ends_with("did you mean `daemon`?"));
        for name in ["", "somebody-else", "-1", "broken line"] {
            assert!(find(name).unwrap_err().starts_with("a user of /etc/passwd"), "{name}");
        }
        assert!(find("root").unwrap_err().contains("other than root"));
        assert!(find("0").unwrap_err().contains("other than root"));
        assert!(find("4294967295").is_err());
    }

    #[test]
    fn metrics_on_a_port_that_only_root_may_have_are_refused() {
        let user = SandboxUser::find_in("daemon", USERS).unwrap();
        for (address, is_fit) in [("127.0.0.1:80", false), ("127.0.0.1:9477", true), ("./m", true)]
        {
            assert_eq!(user.check_metrics(Some(address)).is_ok(), is_fit, "{address}");
        }
    }
}
