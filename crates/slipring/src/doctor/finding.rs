//! One line of the doctor's report.

use serde::Serialize;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FindingState {
    /// All is well.
    Ok,
    /// Costs speed or a feature.
    Warn,
    /// Keeps slipring from working.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// Name of the check.
    pub(crate) check: &'static str,
    /// How severe it is.
    pub(crate) state: FindingState,
    /// Description of the result.
    pub(crate) finding: String,
    /// The command that fixes the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mend: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, finding: impl Into<String>) -> Self {
        Self { check, state: FindingState::Ok, finding: finding.into(), mend: None }
    }

    pub(crate) fn warn(check: &'static str, finding: impl Into<String>) -> Self {
        Self { state: FindingState::Warn, ..Self::ok(check, finding) }
    }

    pub(crate) fn fail(check: &'static str, finding: impl Into<String>) -> Self {
        Self { state: FindingState::Fail, ..Self::ok(check, finding) }
    }

    /// Sets the command that fixes the problem.
    pub(crate) fn with_fix(mut self, command: impl Into<String>) -> Self {
        self.mend = Some(command.into());
        self
    }
}

/// Returns the report as text, with its totals.
pub(crate) fn text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { check, state, finding, mend } in findings {
        let state = match state {
            FindingState::Ok => "ok  ",
            FindingState::Warn => "warn",
            FindingState::Fail => "FAIL",
        };
        text += &format!("{state}  {check:width$}  {finding}\n");
        if let Some(mend) = mend {
            text += &format!("      {:width$}  -> {mend}\n", "");
        }
    }
    text + &format!("\n{}", sum(findings))
}

fn sum(findings: &[Finding]) -> String {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    match (count(FindingState::Fail), count(FindingState::Warn)) {
        (0, 0) => "All is well.".to_owned(),
        (0, warnings) => format!("Works; {warnings} thing(s) could be better."),
        (failures, _) => format!("{failures} thing(s) must be mended first."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_aligned_and_the_cure_stands_under_the_finding() {
        let findings =
            [Finding::ok("btf", "there"), Finding::warn("governor", "powersave").with_fix("do so")];
        assert_eq!(
            text(&findings),
            "ok    btf       there\n\
             warn  governor  powersave\n\
             \x20               -> do so\n\
             \n\
             Works; 1 thing(s) could be better."
        );
        assert_eq!(sum(&[Finding::fail("x", "y")]), "1 thing(s) must be mended first.");
    }
}
