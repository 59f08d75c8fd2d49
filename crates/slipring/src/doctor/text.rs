//! The doctor's report for people.

use slipring_core::kinds::{Finding, FindingState};

/// Formats one line per finding, and a last line that counts warnings and failures.
pub(super) fn report(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Finding { check, state, finding, code, mend } in findings {
        let state = match state {
            FindingState::Ok => "ok  ",
            FindingState::Warn => "warn",
            FindingState::Fail => "FAIL",
        };
        let code = code.map_or_else(String::new, |code| format!(" [{code}]"));
        text += &format!("{state}  {check:width$}  {finding}{code}\n");
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
            report(&findings),
            "ok    btf       there\n\
             warn  governor  powersave\n\
             \x20               -> do so\n\
             \n\
             Works; 1 thing(s) could be better."
        );
        assert_eq!(sum(&[Finding::fail("x", "y")]), "1 thing(s) must be mended first.");
    }
}
