//! Finding another program of the same installation.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Finds the program `name`: first in `dirs`, relative to the directory of the running program,
/// then in the directories of `PATH`. Never returns the running program itself, even if a link to
/// it has that name.
#[must_use]
pub fn find_sibling_program(name: &str, dirs: &[&str]) -> Option<PathBuf> {
    let own_path = std::env::current_exe().ok()?;
    let own_dir = own_path.parent()?;
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = dirs.iter().map(|dir| own_dir.join(dir)).chain(std::env::split_paths(&search_path));
    find_in(name, dirs, &own_path)
}

fn find_in(name: &str, dirs: impl Iterator<Item = PathBuf>, own_path: &Path) -> Option<PathBuf> {
    let own = fs::metadata(own_path).ok();
    let is_other = |found: &Metadata| own.as_ref().is_none_or(|own| file_id(own) != file_id(found));
    let is_program = |found: &Metadata| found.is_file() && found.permissions().mode() & 0o111 != 0;
    // Relative entries of PATH are not searched, nor an empty entry, which means the current
    // directory.
    let mut paths = dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
    paths.find(|path| fs::metadata(path).is_ok_and(|found| is_program(&found) && is_other(&found)))
}

fn file_id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::*;

    fn put_program(path: &Path, mode: u32) {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_first_program_of_the_name_that_can_be_run_is_found() {
        let root = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| root.path().join(name));
        [&a, &b, &c].into_iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let find = || find_in("x", [a.clone(), b.clone(), c.clone()].into_iter(), Path::new("/"));
        assert_eq!(find(), None);
        put_program(&c.join("x"), 0o755);
        put_program(&b.join("x"), 0o644);
        fs::create_dir(a.join("x")).unwrap();
        assert_eq!(find(), Some(c.join("x")));
        fs::set_permissions(b.join("x"), Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(), Some(b.join("x")));
    }

    #[test]
    fn a_link_to_the_running_program_is_not_found() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("own");
        put_program(&own, 0o755);
        symlink(&own, root.path().join("x")).unwrap();
        let dirs = || [root.path().to_owned()].into_iter();
        assert_eq!(find_in("x", dirs(), &own), None);
        assert_eq!(find_in("x", dirs(), Path::new("/")), Some(root.path().join("x")));
    }

    #[test]
    fn relative_directories_of_path_are_not_searched() {
        assert_eq!(
            find_in("Cargo.toml", ["".into(), ".".into()].into_iter(), Path::new("/")),
            None
        );
    }
}
