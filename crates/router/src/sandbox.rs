//! `--user`, and `user` in the section `[sandbox]` of a file: the user that all threads become
//! after the set-up.
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
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf, absolute};

use rustix::fs::{Access, access};
use slipring_cli::codes::{SR0003, SR0104, SR0201};
use slipring_cli::{Diagnostic, Failure, metrics, nearest};
use slipring_confine::{CapabilitySet, UserIds, effective};

/// The file that lists the users of this machine.
const USERS_FILE: &str = "/etc/passwd";

/// The user that the router becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SandboxUser {
    /// The name or number, as the user of slipring has written it.
    pub(crate) name: String,
    pub(crate) ids: UserIds,
}

impl SandboxUser {
    /// Finds a user by name or number. A number need not be in the list of users; its group then
    /// has the same number.
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
    /// If the port of the address is from 1 to 1023.
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
                    .with_help(permitting_command(path, self.ids))
                    .with_note("then reload: slipring route ctl reload"))
            }
            // Any other error is reported when the file is read.
            _ => Ok(()),
        }
    }
}

/// How many symbolic links a path may have, as in Linux.
const MAX_LINKS: u32 = 40;

/// Returns the command that permits a user to read a file or, if a directory is in the way, to pass
/// that directory.
fn permitting_command(path: &Path, ids: UserIds) -> String {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    let (path, right) = obstruction(&path, MAX_LINKS);
    let owner = fs::metadata(&path).map(|it| (it.uid(), it.gid()));
    let class = owner.map_or('o', |owner| mode_class(owner, ids));
    format!("chmod {class}+{right} {}", shell_word(&path.display().to_string()))
}

/// Returns the file or directory, without symbolic links, to which this process lacks a right, and
/// the letter of this right in chmod(1).
fn obstruction(path: &Path, links: u32) -> (PathBuf, char) {
    let mut parts: Vec<_> = path.ancestors().collect();
    parts.reverse();
    for part in parts {
        match fs::canonicalize(part) {
            Ok(real) if part == path => return (real, 'r'),
            Ok(real) if access(&real, Access::EXEC_OK).is_err() => return (real, 'x'),
            Ok(_) => {}
            // The obstruction is on the path to which this symbolic link leads.
            Err(_) => match (fs::read_link(part), part.parent(), path.strip_prefix(part)) {
                (Ok(target), Some(dir), Ok(rest)) if links > 0 => {
                    let target = dir.join(target);
                    let parts = target.components().chain(rest.components());
                    return obstruction(&parts.collect::<PathBuf>(), links - 1);
                }
                _ => break,
            },
        }
    }
    (path.to_owned(), 'r')
}

/// Returns which class of a file's rights applies to a user: those of its owner, its group, or
/// others, as a letter of chmod(1). The user is in no group but its own.
const fn mode_class((uid, gid): (u32, u32), ids: UserIds) -> char {
    if uid == ids.uid {
        'u'
    } else if gid == ids.gid {
        'g'
    } else {
        'o'
    }
}

/// Quotes a word for a shell, if it has special characters.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@%,:=".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
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
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::Command;

    use slipring_confine::confine_as;

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
    #[test]
    fn the_class_of_rights_is_that_of_the_owner_then_the_group() {
        let ids = UserIds { uid: 4711, gid: 100 };
        for (owner, class) in [
            ((4711, 100), 'u'),
            ((4711, 0), 'u'),
            ((0, 100), 'g'),
            ((0, 0), 'o'),
            ((100, 4711), 'o'),
        ] {
            assert_eq!(mode_class(owner, ids), class, "{owner:?}");
        }
    }

    #[test]
    fn words_with_special_characters_are_quoted_for_a_shell() {
        for word in ["/etc/slipring/route/edge.toml", "/a b", "/it's", "/$HOME;`ls`*", "/ü\n"] {
            let quoted = shell_word(word);
            let said = Command::new("sh").args(["-c", &format!("printf %s {quoted}")]).output();
            assert_eq!(String::from_utf8(said.unwrap().stdout).unwrap(), word, "{quoted}");
        }
        assert_eq!(shell_word("/etc/edge.toml"), "/etc/edge.toml");
    }

    /// Returns the command for a path in `dir`, for a thread that is a user without capabilities.
    fn command_for(path: PathBuf) -> String {
        let ids = UserIds { uid: 4711, gid: 4712 };
        let become_user = move || {
            drop(confine_as(ids, CapabilitySet::empty(), &[]));
            permitting_command(&path, ids)
        };
        std::thread::spawn(become_user).join().unwrap()
    }

    #[test]
    fn the_command_names_what_is_behind_symbolic_links_and_the_right_that_is_missing() {
        if !effective().contains(CapabilitySet::SETUID | CapabilitySet::SETGID) {
            slipring_test_support::skip!("a process cannot become another user here");
            return;
        }
        let root = fs::canonicalize(std::env::temp_dir()).unwrap();
        let root = root.join(format!("slipring-obstruction-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let (dir, file, link) = (root.join("a b"), root.join("a b/f"), root.join("link"));
        fs::create_dir(&dir).unwrap();
        fs::write(&file, "").unwrap();
        symlink("a b/f", &link).unwrap();
        symlink("a b", root.join("dir")).unwrap();
        mode(&root, 0o755);
        mode(&dir, 0o700);
        mode(&file, 0o600);
        let (dir_word, file_word) =
            (format!("'{}'", dir.display()), format!("'{}'", file.display()));
        for path in [file.clone(), link.clone(), root.join("dir/f"), root.join("dir/../link")] {
            assert_eq!(command_for(path), format!("chmod o+x {dir_word}"));
        }
        chown(&dir, None, Some(4712)).unwrap();
        assert_eq!(command_for(link.clone()), format!("chmod g+x {dir_word}"));
        mode(&dir, 0o701);
        assert_eq!(command_for(link.clone()), format!("chmod g+x {dir_word}"));
        mode(&dir, 0o710);
        assert_eq!(command_for(link.clone()), format!("chmod o+r {file_word}"));
        chown(&file, Some(4711), None).unwrap();
        mode(&file, 0o044);
        assert_eq!(command_for(root.join("dir/f")), format!("chmod u+r {file_word}"));
        fs::remove_dir_all(&root).unwrap();
    }
}
