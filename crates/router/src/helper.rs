//! The helper process of a router, which keeps the privileges that the router gives up. This
//! file also determines which files the router cannot read or change without them.

use std::io;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use slipring_cli::codes::SR0199;
use slipring_cli::{Diagnose, Diagnostic, Failure, Session};
use slipring_port::iface::{Iface, set_settings_keeper};
use slipring_privileged::{
    HelperOperation, HelperPolicy, HelperRequest, PrivilegedHelper, RunFiles,
};

use crate::plan::RoutePlan;

/// The operations of the helper that netmap-fwd's commands need.
const CHANGES_BY_COMMAND: [HelperOperation; 3] =
    [HelperOperation::AddRoute, HelperOperation::RemoveRoute, HelperOperation::RemoveNeighbour];

/// The helper's operations on root's files, which a router that becomes another user needs.
const FOR_ANOTHER_USER: [HelperOperation; 4] = [
    HelperOperation::TakeName,
    HelperOperation::RemoveRunFiles,
    HelperOperation::OpenLegacyTables,
    HelperOperation::OpenLegacyTables6,
];

impl RoutePlan {
    /// Starts the helper process, so that this process needs no capability. The helper asks the
    /// kernel to resolve neighbours, and restores the interfaces' settings at the end. With
    /// `--compat`, it also changes routes and neighbours. For a router that becomes another user,
    /// it also renames and removes the files of the run, and opens the lists of the tables of
    /// iptables-legacy. Returns `None` if the helper cannot be started and the router does not
    /// become another user.
    pub(crate) fn start_helper(
        &self,
        ifaces: &[Iface],
        session: &mut Session<'_>,
    ) -> Result<Option<Arc<PrivilegedHelper>>, Failure> {
        let mut operations = vec![HelperOperation::SetFeature, HelperOperation::UseNeighbour];
        if self.compat.is_some() {
            operations.extend(CHANGES_BY_COMMAND);
        }
        if self.user.is_some() {
            operations.extend(FOR_ANOTHER_USER);
        }
        let helper = PrivilegedHelper::start(&HelperPolicy {
            program: std::process::id(),
            operations,
            interfaces: ifaces.iter().map(|iface| iface.index).collect(),
            run_files: self.user.as_ref().map(|_| self.run_files(&session.run_dir)),
        });
        match helper.map(Arc::new) {
            Ok(helper) => {
                set_settings_keeper(Box::new(helper.clone()));
                Ok(Some(helper))
            }
            Err(error) if self.user.is_some() => Err(no_helper(&error)),
            Err(error) => {
                let message =
                    format!("neighbours are not refreshed, because there is no helper: {error}");
                session.reporter.warn(message)?;
                Ok(None)
            }
        }
    }

    /// Warns of files that a reload could not read.
    pub(crate) fn tell_of_unreadable_files(
        &self,
        session: &mut Session<'_>,
    ) -> Result<(), Failure> {
        let Some(user) = &self.user else { return Ok(()) };
        for mistake in self.files().iter().filter_map(|path| user.check_readable(path).err()) {
            let (what, command) = (mistake.summary(), mistake.help().unwrap_or_default());
            session.reporter.warn(format_args!("{what}, so it cannot be reloaded: {command}"))?;
        }
        Ok(())
    }

    /// The files that the router could not change as another user.
    fn run_files(&self, run_dir: &Path) -> RunFiles {
        let compat = self.compat.iter();
        let others = compat.flat_map(|of| [Some(&of.socket), of.pidfile.as_ref()]);
        RunFiles {
            dir: for_helper(run_dir),
            name: self.name.clone(),
            others: others.flatten().map(|path| for_helper(path)).collect(),
        }
    }
}

fn no_helper(error: &io::Error) -> Failure {
    Diagnostic::new(SR0199, "the router cannot become another user: there is no helper process")
        .with_cause(error.to_string())
        .with_help("run as root, or leave out --user, and user in [sandbox]")
        .into()
}

/// When this value is dropped, the helper removes the files of the run, because the router's user
/// may not remove them.
pub(crate) struct RunFilesGuard(pub(crate) Arc<PrivilegedHelper>);

impl Drop for RunFilesGuard {
    fn drop(&mut self) {
        // An error means that the helper has ended. If it ended by itself, it has removed the
        // files. If it was killed, they stay.
        let _ = self.0.request(&HelperRequest::RemoveRunFiles, None);
    }
}

/// The absolute path of a file for the helper.
fn for_helper(path: &Path) -> PathBuf {
    absolute(path).unwrap_or_else(|_| path.to_owned())
}
